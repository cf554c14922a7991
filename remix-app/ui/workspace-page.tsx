import type { ReactNode } from "react";
import { AppPage, type AppPageProps } from "./app-page.tsx";
import { SectionNav, type SectionNavProps } from "./section-nav.tsx";

export interface WorkspacePageProps {
  user: AppPageProps["user"];
  workspace: { id: string; name: string; isOwner: boolean };
  children: ReactNode;
}

/** The frame of a workspace's pages: its name, and its sections. */
export function WorkspacePage({ user, workspace, children }: WorkspacePageProps) {
  const base = `/workspaces/${workspace.id}`;
  const sections: SectionNavProps["sections"] = [
    { to: base, label: "Overview" },
    { to: `${base}/members`, label: "Members" },
    { to: `${base}/roles`, label: "Roles" },
    { to: `${base}/ai`, label: "AI studio" },
    { to: `${base}/settings`, label: "Settings" },
    ...(workspace.isOwner ? [{ to: `${base}/activity`, label: "Activity" }] : []),
  ];
  return (
    <AppPage user={user} title={workspace.name}>
      <SectionNav label="Workspace" sections={sections} />
      {children}
    </AppPage>
  );
}
