import type { ReactNode } from "react";
import { ButtonLink } from "./button.tsx";

/**
 * Asks for confirmation before an action that cannot be undone. Says what will happen and who is affected. Takes the
 * focus when the page loads, and links back to the page where it was opened.
 * @param details what the person should know or choose first; its fields name the form with their `form` attribute
 * @param children the form that performs the action
 */
export function ConfirmCard({
  title,
  lead,
  details,
  cancelTo,
  children,
}: {
  title: string;
  lead: string;
  details?: ReactNode;
  cancelTo: string;
  children: ReactNode;
}) {
  return (
    <section
      aria-labelledby="confirm-title"
      aria-describedby="confirm-lead"
      tabIndex={-1}
      // biome-ignore lint/a11y/noAutofocus: the person has asked for this question, which is all that matters now
      autoFocus
      className="space-y-4 rounded-card border border-bad/40 bg-surface p-4 sm:p-5"
    >
      <div className="space-y-1">
        <h2 id="confirm-title" className="break-words font-semibold text-large">
          {title}
        </h2>
        <p id="confirm-lead" className="max-w-prose text-muted">
          {lead}
        </p>
      </div>
      {details}
      <div className="flex flex-wrap gap-3">
        {children}
        <ButtonLink href={cancelTo}>Cancel</ButtonLink>
      </div>
    </section>
  );
}
