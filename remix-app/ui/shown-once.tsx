import type { ReactNode } from "react";

/**
 * Shows a secret that no other page shows. Takes the focus when the page loads, because browsers scroll the response to
 * a form to where the form was. The focus goes to a line above the content, so that a tall content is shown from its top.
 */
export function ShownOnce({
  id,
  label,
  hasHeading = false,
  className = "",
  children,
}: {
  /** The fragment of the form's action, if it has one. Browsers focus a fragment's target instead. */
  id?: string;
  label: string;
  /** Whether the label is shown as a heading. */
  hasHeading?: boolean;
  className?: string;
  children: ReactNode;
}) {
  const Line = hasHeading ? "h2" : "p";
  return (
    <section aria-label={label} data-shown-once className={`relative space-y-4 ${className}`}>
      <Line
        id={id}
        tabIndex={-1}
        autoFocus
        className={hasHeading ? "wrap-anywhere scroll-mt-12 font-semibold text-large" : "sr-only top-0"}
      >
        {label}
      </Line>
      {children}
    </section>
  );
}
