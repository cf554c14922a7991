import type { ReactNode } from "react";

export interface PageProps {
  title: ReactNode;
  lead?: ReactNode;
  /** Actions for the whole page, such as downloading its CSV. */
  actions?: ReactNode;
  children: ReactNode;
}

/** Renders a page inside its frame: its name as the heading, then its content. */
export function Page({ title, lead, actions, children }: PageProps) {
  return (
    <>
      <div className="page-head flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="min-w-0 flex-1 basis-56 space-y-1">
          <h1 className="font-semibold text-display tracking-tight">{title}</h1>
          {lead ? <p className="max-w-prose text-large text-muted">{lead}</p> : null}
        </div>
        {actions ? <div className="flex flex-wrap gap-2">{actions}</div> : null}
      </div>
      <div className="min-w-0 space-y-6">{children}</div>
    </>
  );
}
