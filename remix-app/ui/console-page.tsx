import type { ReactNode } from "react";
import { AppPage, type AppPageProps } from "./app-page.tsx";
import { SectionNav } from "./section-nav.tsx";

/** The frame of the console's pages: its sections, and what the page is about. Its pages are not hydrated. */
export function ConsolePage({ children, ...page }: AppPageProps & { children: ReactNode }) {
  return (
    <AppPage {...page}>
      <SectionNav
        label="Console"
        sections={[
          { to: "/admin", label: "Accounts" },
          { to: "/admin/recovery", label: "Recovery" },
          { to: "/admin/address-blocks", label: "Address blocks" },
          { to: "/admin/apps", label: "Apps" },
          { to: "/admin/workspaces", label: "Workspaces", also: "/admin/credits" },
          { to: "/admin/approvals", label: "Approvals" },
          { to: "/admin/plans", label: "Plans" },
          { to: "/admin/models", label: "Models" },
          { to: "/admin/prices", label: "Price proposals" },
          { to: "/admin/providers", label: "Providers", also: "/admin/runs" },
          { to: "/admin/books", label: "Books" },
          { to: "/admin/audit", label: "Audit log" },
        ]}
      />
      {children}
    </AppPage>
  );
}
