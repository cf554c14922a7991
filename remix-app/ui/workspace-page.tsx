import type { ReactNode } from "react";
import { AppPage } from "./app-page.tsx";
import { UntilNextPage } from "./next-page.tsx";
import { SectionNav, type SectionNavProps } from "./section-nav.tsx";

export interface WorkspacePageProps {
  workspace: { id: string; name: string; isOwner: boolean };
  /** As AppPage has it, of what is below the workspace's sections. */
  shared?: string;
  children: ReactNode;
}

/** The frame of a workspace's pages: its name, and its sections. */
export function WorkspacePage({ workspace, shared, children }: WorkspacePageProps) {
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
    <AppPage title={workspace.name} shared={base}>
      <SectionNav label="Workspace" sections={sections} />
      <UntilNextPage frames={1} shared={shared}>
        {children}
      </UntilNextPage>
    </AppPage>
  );
}
