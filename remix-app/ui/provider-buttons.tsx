import { KeyRound } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "./button.tsx";

export interface ProviderButtonsProps {
  /** In display order. */
  providers: readonly { name: string; label: string }[];
  /** The provider last used in this browser. Its button has a row of its own. */
  lastUsed: string | null;
  /** Where to continue after the sign-in; empty for the home page. */
  returnUrl: string;
  /** For signed-in people: whether they add another account (`add`) or confirm their identity (`prove`). */
  intent?: "add" | "prove" | undefined;
}

/** Renders one button per provider. The form leads to the provider's page. */
export function ProviderButtons({ providers, lastUsed, returnUrl, intent }: ProviderButtonsProps) {
  // Uses two columns only if every row is full. The last used provider has a row of its own.
  const columns = (providers.length - (lastUsed ? 1 : 0)) % 2 === 0 ? "grid-cols-2" : "";
  return (
    <form method="post" className={`grid gap-2 ${columns}`}>
      <input type="hidden" name="returnUrl" value={returnUrl} />
      {intent ? <input type="hidden" name="intent" value={intent} /> : null}
      {providers.map(({ name, label }) => {
        const isLastUsed = name === lastUsed;
        return (
          <Button
            key={name}
            variant="secondary"
            formAction={`/auth/oauth/${name}`}
            className={isLastUsed ? "col-span-full" : ""}
          >
            <ProviderIcon provider={name} />
            <span>
              <span className="sr-only">Continue with </span>
              {label}
            </span>
            {isLastUsed ? <LastUsedBadge /> : null}
          </Button>
        );
      })}
    </form>
  );
}

/** Marks the sign-in method last used in this browser. */
export function LastUsedBadge() {
  return <span className="rounded-full bg-accent-soft px-2 py-0.5 font-medium text-accent text-small">Last used</span>;
}

/** Our own single-color drawings, 24 units wide. */
const drawings: Record<string, ReactNode> = {
  google: (
    <path
      d="M20.4 12H12.6M20.4 12a8.4 8.4 0 1 1-2.46-5.94"
      fill="none"
      stroke="currentColor"
      strokeWidth="3"
      strokeLinejoin="round"
    />
  ),
  github: (
    <path d="M12 2.6c1.2 0 2.3.1 3.3.4 1.6-1.1 3-1.5 3.8-1.4.6 1.4.4 2.8.1 3.6 1.2 1.2 1.9 2.8 1.9 4.6 0 5-3.3 6.7-6.2 7.2.5.6.7 1.4.7 2.6v2.8H8.4v-2c-2.5.5-3.9-.4-4.6-2-.4-.9-.9-1.5-1.5-1.9-.6-.5 0-.9.6-.8 1 .1 1.6.7 2.2 1.5.8 1.2 1.9 1.3 3.3.8.1-.4.3-.7.6-1C6.100 16.500 2.900 14.800 2.900 9.800c0-1.800.7-3.400 1.900-4.600-.3-.8-.5-2.200.1-3.600.8-.1 2.200.3 3.800 1.400 1-.3 2.100-.4 3.300-.4Z" />
  ),
  apple: (
    <path d="M15.800 1.500c.2 1.500-.4 2.800-1.200 3.700-.8 1-2 1.600-3.200 1.500-.2-1.400.4-2.700 1.200-3.600.8-.9 2.100-1.600 3.200-1.600ZM12.200 7.900c1-.1 2-.9 3.600-.9 1.500 0 3 .8 3.900 2.100-3.200 1.900-2.700 6.300.7 7.600-.8 2.300-2.700 5.600-4.600 5.600-1.500 0-2-.9-3.700-.9s-2.200.9-3.700.9C5.900 22.300 3.300 17.300 3.300 13c0-3.900 2.400-6 4.900-6 1.600 0 3 .9 4 .9Z" />
  ),
  azure: <path d="M2.500 2.500h9v9h-9Zm10 0h9v9h-9Zm-10 10h9v9h-9Zm10 0h9v9h-9Z" />,
};

export function ProviderIcon({ provider }: { provider: string }) {
  const drawing = drawings[provider];
  if (!drawing) return <KeyRound aria-hidden="true" className="size-4 shrink-0" />;
  return (
    <svg aria-hidden="true" viewBox="0 0 24 24" className="size-4 shrink-0" fill="currentColor">
      {drawing}
    </svg>
  );
}

/**
 * Shows the provider buttons and the page's own sign-in methods. The buttons come first if the last sign-in in this
 * browser was with a provider.
 */
export function SignInMethods({ children, ...offered }: ProviderButtonsProps & { children: ReactNode }) {
  if (offered.providers.length === 0) return children;
  const buttons = <ProviderButtons {...offered} />;
  if (children === null) return buttons;
  const [first, second] = offered.lastUsed ? [buttons, children] : [children, buttons];
  return (
    <>
      {offered.lastUsed ? <Divider>Continue with</Divider> : null}
      {first}
      <Divider>{offered.lastUsed ? "or" : "or continue with"}</Divider>
      {second}
    </>
  );
}

function Divider({ children }: { children: string }) {
  return (
    <p className="flex items-center gap-3 text-muted text-small before:h-px before:flex-1 before:bg-line after:h-px after:flex-1 after:bg-line">
      {children}
    </p>
  );
}
