import { AppPage, type AppPageProps } from "./app-page.tsx";
import { SectionNav } from "./section-nav.tsx";
import { WorkspaceSwitcher } from "./workspace-switcher.tsx";

export interface WorkspacePageProps extends Omit<AppPageProps, "nav"> {
  workspace: {
    id: string;
    name: string;
    isOwner: boolean;
    permissions: readonly string[];
    /** Some of the member's other workspaces, to switch to. */
    others?: readonly { id: string; name: string }[];
  };
}

interface WorkspaceSection {
  path: string;
  label: string;
  /** The permission that the section requires, or `owner` for owners only. Absent if every member sees the section. */
  needs?: "use_ai_studio" | "manage_ai_keys" | "owner";
}

const groups: readonly { label?: string; sections: readonly WorkspaceSection[] }[] = [
  { sections: [{ path: "", label: "Overview" }] },
  {
    label: "Build",
    sections: [
      { path: "/ai/playground", label: "Playground", needs: "use_ai_studio" },
      { path: "/ai/keys", label: "API keys", needs: "manage_ai_keys" },
      { path: "/ai/runs", label: "Runs", needs: "use_ai_studio" },
    ],
  },
  {
    label: "Spend",
    sections: [
      { path: "/ai", label: "Usage", needs: "use_ai_studio" },
      { path: "/ai/budgets", label: "Budgets", needs: "use_ai_studio" },
      { path: "/ai/credits", label: "Credits", needs: "use_ai_studio" },
      { path: "/ai/costs", label: "Provider costs", needs: "use_ai_studio" },
      { path: "/ai/invoices", label: "Invoices", needs: "use_ai_studio" },
      { path: "/ai/reconciliation", label: "Reconciliation", needs: "use_ai_studio" },
    ],
  },
  {
    label: "Manage",
    sections: [
      { path: "/members", label: "Members" },
      { path: "/roles", label: "Roles" },
      { path: "/ai/policy", label: "AI policy", needs: "use_ai_studio" },
      { path: "/activity", label: "Activity", needs: "owner" },
      { path: "/settings", label: "Settings" },
    ],
  },
];

/** Renders the frame of a workspace's pages, with the sections that the member's role allows. */
export function WorkspacePage({ workspace, ...page }: WorkspacePageProps) {
  const base = `/workspaces/${workspace.id}`;
  const isShown = ({ needs }: WorkspaceSection) =>
    needs === undefined || (needs === "owner" ? workspace.isOwner : workspace.permissions.includes(needs));
  const shown = groups
    .map(({ sections, ...group }) => ({
      ...group,
      sections: sections.filter(isShown).map(({ path, label }) => ({ to: `${base}${path}`, label })),
    }))
    .filter(({ sections }) => sections.length > 0);
  return (
    <AppPage
      {...page}
      nav={
        <SectionNav
          label="Workspace"
          name={workspace.name}
          head={<WorkspaceSwitcher workspace={workspace} others={workspace.others ?? []} />}
          groups={shown}
        />
      }
    />
  );
}
