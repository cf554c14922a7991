import { NavLink } from "@remix-run/react";
import type { ReactNode } from "react";
import { WorkspacePage, type WorkspacePageProps } from "./workspace-page.tsx";

export interface StudioPageProps extends WorkspacePageProps {
  workspace: WorkspacePageProps["workspace"] & { permissions: readonly string[] };
  title: string;
  lead?: ReactNode;
  /** What can be done with all of the page, such as its CSV. */
  actions?: ReactNode;
}

/** What takes more than use_ai_studio to be seen says so. */
const sections: readonly { path: string; label: string; permission?: string }[] = [
  { path: "", label: "Overview" },
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

/** The frame of a workspace's AI studio: its own sections below the workspace's, and what the page is about. */
export function StudioPage({ user, workspace, title, lead, actions, children }: StudioPageProps) {
  const base = `/workspaces/${workspace.id}/ai`;
  const shown = sections.filter(({ permission }) => !permission || workspace.permissions.includes(permission));
  return (
    <WorkspacePage user={user} workspace={workspace}>
      <nav aria-label="AI studio" className="-mt-4 flex flex-wrap gap-x-1 border-line border-b pb-2">
        {shown.map(({ path, label }) => (
          <NavLink
            key={path}
            to={`${base}${path}`}
            end={path === ""}
            className="rounded-button px-2 py-1 text-muted hover:text-ink aria-[current=page]:font-medium aria-[current=page]:text-ink aria-[current=page]:underline aria-[current=page]:decoration-2 aria-[current=page]:decoration-accent aria-[current=page]:underline-offset-8"
          >
            {label}
          </NavLink>
        ))}
      </nav>
      <div className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="min-w-0 space-y-1">
          <h2 className="font-semibold text-title tracking-tight">{title}</h2>
          {lead ? <p className="text-muted">{lead}</p> : null}
        </div>
        {actions ? <div className="flex flex-wrap gap-2">{actions}</div> : null}
      </div>
      {children}
    </WorkspacePage>
  );
}
