import type { LoaderFunctionArgs } from "@remix-run/node";
import { Outlet, useLoaderData, useLocation } from "@remix-run/react";
import { AppFrame } from "../../ui/app-frame.tsx";
import { SectionNav } from "../../ui/section-nav.tsx";
import { WorkspaceSwitcher } from "../../ui/workspace-switcher.tsx";
import { requireWorkspaceFrame, type WorkspacePermission } from "../../workspaces/permission.ts";

interface WorkspaceSection {
  path: string;
  label: string;
  /** The permission that the section requires, or `owner` for owners only. Absent if every member sees the section. */
  needs?: WorkspacePermission | "owner";
  /** Whether the section is part of the cost book, which only some workspaces use. */
  inCostBook?: boolean;
}

const groups: readonly { label?: string; sections: readonly WorkspaceSection[] }[] = [
  { sections: [{ path: "", label: "Overview" }] },
  {
    label: "Build",
    sections: [
      { path: "/ai/models", label: "Models", needs: "use_ai_studio" },
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
      { path: "/ai/envelopes", label: "Task limits", needs: "use_ai_studio" },
      { path: "/ai/credits", label: "Credits", needs: "use_ai_studio" },
      { path: "/ai/costs", inCostBook: true, label: "Provider costs", needs: "use_ai_studio" },
      { path: "/ai/invoices", inCostBook: true, label: "Invoices", needs: "use_ai_studio" },
      { path: "/ai/reconciliation", inCostBook: true, label: "Reconciliation", needs: "use_ai_studio" },
    ],
  },
  {
    label: "Manage",
    sections: [
      { path: "/members", label: "Members" },
      { path: "/roles", label: "Roles" },
      { path: "/service-accounts", label: "Service accounts", needs: "manage_members" },
      { path: "/ai/policy", label: "AI policy", needs: "use_ai_studio" },
      { path: "/activity", label: "Activity", needs: "owner" },
      { path: "/settings", label: "Settings" },
    ],
  },
];

export async function loader({ request, params, context }: LoaderFunctionArgs) {
  const { workspace, others, usesCostBook } = await requireWorkspaceFrame(context, { request, params });
  return { workspace, others, usesCostBook };
}

/**
 * Renders the frame of a workspace's pages, with the sections that the member's role allows. Shows those of the cost book
 * if the workspace uses it, and on their own pages.
 */
export default function WorkspaceFrame() {
  const { workspace, others, usesCostBook } = useLoaderData<typeof loader>();
  const base = `/workspaces/${workspace.id}`;
  const path = `${useLocation().pathname}/`;
  const sections = groups.flatMap((group) => group.sections);
  const showsCostBook =
    usesCostBook || sections.some((section) => section.inCostBook && path.startsWith(`${base}${section.path}/`));
  const isShown = ({ needs, inCostBook }: WorkspaceSection) =>
    (!inCostBook || showsCostBook) &&
    (needs === undefined || (needs === "owner" ? workspace.isOwner : workspace.permissions.includes(needs)));
  const shown = groups
    .map(({ sections, ...group }) => ({
      ...group,
      sections: sections.filter(isShown).map(({ path, label }) => ({ to: `${base}${path}`, label })),
    }))
    .filter(({ sections }) => sections.length > 0);
  return (
    <AppFrame
      nav={
        <SectionNav
          label="Workspace"
          name={workspace.name}
          head={<WorkspaceSwitcher workspace={workspace} others={others} />}
          groups={shown}
        />
      }
    >
      <Outlet />
    </AppFrame>
  );
}
