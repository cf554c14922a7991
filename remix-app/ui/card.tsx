import type { ReactNode } from "react";

/** Renders a card with a title, a sentence, the current state, and actions on the right. */
export function Card({
  id,
  title,
  lead,
  action,
  danger = false,
  children,
}: {
  /** The target of links to this card. */
  id?: string;
  title: string;
  lead?: ReactNode;
  action?: ReactNode;
  /** Whether the card's action cannot be undone. */
  danger?: boolean;
  children?: ReactNode;
}) {
  return (
    <section
      id={id}
      className={`min-w-0 scroll-mt-6 rounded-card border bg-surface ${danger ? "border-bad/40" : "border-line"}`}
    >
      <div className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3 px-4 pt-4 sm:px-5 sm:pt-5">
        <div className="min-w-0 flex-1 basis-56 space-y-1">
          <h2 className="font-semibold text-large">{title}</h2>
          {lead ? <p className="max-w-prose text-muted">{lead}</p> : null}
        </div>
        {action}
      </div>
      <div className="p-4 empty:pt-0 sm:p-5 sm:empty:pt-0">{children}</div>
    </section>
  );
}

/** Renders a card without a title, for a table, list, chart or form that the page already names. */
export function Panel({ children }: { children: ReactNode }) {
  return <div className="min-w-0 rounded-card border border-line bg-surface p-4 sm:px-5">{children}</div>;
}
