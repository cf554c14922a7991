import { Outlet } from "@remix-run/react";
import { AppFrame } from "../../ui/app-frame.tsx";
import { type SectionGroup, SectionNav } from "../../ui/section-nav.tsx";

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
  { label: "Money", sections: [{ to: "/admin/books", label: "Books" }] },
  {
    label: "Platform",
    sections: [
      { to: "/admin/apps", label: "Apps", also: "/admin/openid-clients" },
      { to: "/admin/audit", label: "Audit log" },
    ],
  },
];

/** Renders the frame of the console's pages. Their loaders check that the visitor is an admin. */
export default function ConsoleFrame() {
  return (
    <AppFrame nav={<SectionNav label="Console" name="Admin console" groups={groups} />}>
      <Outlet />
    </AppFrame>
  );
}
