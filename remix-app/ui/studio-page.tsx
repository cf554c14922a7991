import type { ReactNode } from "react";
import { Credits } from "./money.tsx";
import { UntilNextPage } from "./next-page.tsx";
import { Notice } from "./notice.tsx";
import { SectionNav } from "./section-nav.tsx";
import { WorkspacePage, type WorkspacePageProps } from "./workspace-page.tsx";

interface StudioPageProps {
  workspace: WorkspacePageProps["workspace"] & {
    permissions: readonly string[];
    creditNotice?: { level: "low" | "empty"; available: string } | null;
  };
  title: string;
  lead?: ReactNode;
  /** What can be done with all of the page, such as its CSV. */
  actions?: ReactNode;
  children: ReactNode;
}

/** Besides the overview; what takes more than use_ai_studio to be seen says so. */
const sections: readonly { path: string; label: string; permission?: string }[] = [
  { path: "/runs", label: "Runs" },
  { path: "/keys", label: "Keys", permission: "manage_ai_keys" },
  { path: "/playground", label: "Playground" },
  { path: "/budgets", label: "Budgets" },
  { path: "/policy", label: "Policy" },
  { path: "/credits", label: "Credits" },
  { path: "/costs", label: "Costs" },
  { path: "/invoices", label: "Invoices" },
  { path: "/reconciliation", label: "Reconciliation" },
];

/** A page of a workspace's AI studio: its own sections below the workspace's, then what the page holds. */
export function StudioPage({ workspace, title, lead, actions, children }: StudioPageProps) {
  const base = `/workspaces/${workspace.id}/ai`;
  const shown = sections
    .filter(({ permission }) => !permission || workspace.permissions.includes(permission))
    .map(({ path, label }) => ({ to: `${base}${path}`, label }));
  return (
    <WorkspacePage workspace={workspace} shared={base}>
      <SectionNav label="AI studio" sections={[{ to: base, label: "Overview" }, ...shown]} nested />
      {workspace.creditNotice ? <CreditNotice {...workspace.creditNotice} /> : null}
      <UntilNextPage frames={2}>
        <div className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
          <div className="min-w-0 flex-1 basis-56 space-y-1">
            <h2 className="font-semibold text-title tracking-tight">{title}</h2>
            {lead ? <p className="max-w-prose text-muted">{lead}</p> : null}
          </div>
          {actions ? <div className="flex flex-wrap gap-2">{actions}</div> : null}
        </div>
        {children}
      </UntilNextPage>
    </WorkspacePage>
  );
}

function CreditNotice({ level, available }: { level: "low" | "empty"; available: string }) {
  return (
    <Notice tone="warn">
      {level === "empty" ? (
        "Requests are refused (402 insufficient_credits). Ask an owner or administrator to add credits."
      ) : (
        <>
          Credits are low: <Credits amount={available} /> left. Ask an owner or administrator to add credits.
        </>
      )}
    </Notice>
  );
}
