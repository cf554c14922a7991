import { NavLink } from "@remix-run/react";
import type { ReactNode } from "react";
import { AppPage, type AppPageProps } from "./app-page.tsx";

export interface WorkspacePageProps {
  user: AppPageProps["user"];
  workspace: { id: string; name: string; isOwner: boolean };
  children: ReactNode;
}

/** The frame of a workspace's pages: its name, and its sections. */
export function WorkspacePage({ user, workspace, children }: WorkspacePageProps) {
  const base = `/workspaces/${workspace.id}`;
  const sections = [
    { to: base, label: "Overview" },
    { to: `${base}/members`, label: "Members" },
    { to: `${base}/roles`, label: "Roles" },
    { to: `${base}/ai`, label: "AI studio" },
    { to: `${base}/settings`, label: "Settings" },
    ...(workspace.isOwner ? [{ to: `${base}/activity`, label: "Activity" }] : []),
  ];
  return (
    <AppPage user={user} title={workspace.name}>
      <nav aria-label="Workspace" className="flex flex-wrap gap-x-1 gap-y-1 border-line border-b pb-2">
        {sections.map(({ to, label }) => (
          <NavLink
            key={to}
            to={to}
            end={to === base}
            className="rounded-button px-2 py-1.5 font-medium text-muted hover:text-ink aria-[current=page]:bg-sunken aria-[current=page]:text-ink"
          >
            {label}
          </NavLink>
        ))}
      </nav>
      {children}
    </AppPage>
  );
}
