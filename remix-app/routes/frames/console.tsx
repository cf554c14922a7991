import { Outlet } from "@remix-run/react";
import { AppFrame } from "../../ui/app-frame.tsx";
import { type SectionGroup, SectionNav } from "../../ui/section-nav.tsx";
import { consoleLink, useSite } from "../../ui/site.ts";

const groups: readonly SectionGroup[] = [
  {
    label: "People",
    sections: [
      { to: "/admin", label: "Accounts" },
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
      { to: "/admin/audit", label: "Audit log" },
    ],
  },
];

/** The sections of the role finance. */
const financeGroups = groups.filter(({ label }) => label === "Money");

/** Renders the frame of the console's pages. Their loaders check what the visitor's role may open. */
export default function ConsoleFrame() {
  const user = useSite()?.user;
  const name = consoleLink(user)?.label ?? "Admin console";
  const shown = user?.consoleRole === "finance" ? financeGroups : groups;
  return (
    <AppFrame nav={<SectionNav label="Console" name={name} groups={shown} />}>
      <Outlet />
    </AppFrame>
  );
}
