import { Link } from "@remix-run/react";
import { type ReactNode, useEffect, useRef } from "react";
import { buttonClass } from "./button.tsx";

/**
 * The step before something that cannot be taken back: what will happen, and to whom. It takes the focus when it
 * arrives, and leads back to where it was asked for.
 * @param children the form that does it
 */
export function ConfirmCard({
  title,
  lead,
  cancelTo,
  children,
}: {
  title: string;
  lead: string;
  cancelTo: string;
  children: ReactNode;
}) {
  const card = useRef<HTMLElement>(null);
  // Where a script shows it: browsers heed autofocus on pages that arrive, and React on fields alone.
  // biome-ignore lint/correctness/useExhaustiveDependencies: another question is another arrival
  useEffect(() => card.current?.focus(), [title]);
  return (
    <section
      ref={card}
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
      <div className="flex flex-wrap gap-3">
        {children}
        <Link to={cancelTo} className={buttonClass("secondary")}>
          Cancel
        </Link>
      </div>
    </section>
  );
}
