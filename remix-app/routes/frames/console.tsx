import type { LoaderFunctionArgs } from "@remix-run/node";
import { Outlet, useLoaderData } from "@remix-run/react";
import { readMenuCounts } from "../../admin/overview.ts";
import { costSources } from "../../books/importer/cost-sources.ts";
import { AppFrame } from "../../ui/app-frame.tsx";
import { type SectionGroup, SectionNav } from "../../ui/section-nav.tsx";
import { consoleLink, useSite } from "../../ui/site.ts";

const groups: readonly SectionGroup[] = [
  { sections: [{ to: "/admin", label: "Overview" }] },
  {
    label: "People",
    sections: [
      { to: "/admin/accounts", label: "Accounts", also: "/admin/users" },
      { to: "/admin/invitations", label: "Invitations" },
      { to: "/admin/recovery", label: "Recovery" },
      { to: "/admin/address-blocks", label: "Blocked IP addresses" },
    ],
  },
  {
    label: "AI",
    sections: [
      { to: "/admin/workspaces", label: "Workspaces", also: "/admin/credits" },
      { to: "/admin/approvals", label: "Approvals" },
      { to: "/admin/plans", label: "Plans" },
      { to: "/admin/models", label: "Models" },
      { to: "/admin/prices", label: "Price proposals" },
      { to: "/admin/providers", label: "Providers", also: "/admin/runs" },
    ],
  },
  {
    label: "Money",
    sections: [
      { to: "/admin/spending", label: "Spending" },
      { to: "/admin/books", label: "Books" },
    ],
  },
  {
    label: "Platform",
    sections: [
      { to: "/admin/apps", label: "Apps", also: "/admin/openid-clients" },
      { to: "/admin/service-accounts", label: "Service accounts" },
      { to: "/admin/settings", label: "Settings" },
      { to: "/admin/audit", label: "Audit log" },
    ],
  },
];

/** The sections of the role finance. */
const financeGroups = groups.filter(({ label }) => label === "Money");

export async function loader({ context }: LoaderFunctionArgs) {
  const costProviders = costSources(context.env).map(({ provider }) => provider.id);
  return { counts: await readMenuCounts(context, { costProviders }) };
}

/** Renders the frame of the console's pages. Their loaders check what the visitor's role may open. */
export default function ConsoleFrame() {
  const user = useSite()?.user;
  const name = consoleLink(user)?.label ?? "Admin console";
  const { counts } = useLoaderData<typeof loader>();
  const shown = (user?.consoleRole === "finance" ? financeGroups : groups).map((group) => ({
    ...group,
    sections: group.sections.map((section) => ({ ...section, count: counts[section.to] ?? 0 })),
  }));
  return (
    <AppFrame nav={<SectionNav label="Console" name={name} groups={shown} />}>
      <Outlet />
    </AppFrame>
  );
}
