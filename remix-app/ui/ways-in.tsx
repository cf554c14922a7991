import type { ReactNode } from "react";
import { ProviderButtons, type ProviderButtonsProps } from "./provider-buttons.tsx";

/** The ways to get in: the page's own and the providers, in the order in which people use them. */
export function WaysIn({ children, ...offered }: ProviderButtonsProps & { children: ReactNode }) {
  if (offered.providers.length === 0) return children;
  const buttons = <ProviderButtons {...offered} />;
  if (children === null) return buttons;
  const [first, second] = offered.lastUsed ? [buttons, children] : [children, buttons];
  return (
    <>
      {first}
      <p className="flex items-center gap-3 text-muted text-small before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line">
        {offered.lastUsed ? "or" : "or continue with"}
      </p>
      {second}
    </>
  );
}
