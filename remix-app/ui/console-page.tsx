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
          { to: "/admin", label: "Users" },
          { to: "/admin/recovery", label: "Recovery" },
          { to: "/admin/apps", label: "Apps" },
          { to: "/admin/workspaces", label: "Key approvals" },
          { to: "/admin/models", label: "Models" },
          { to: "/admin/providers", label: "Providers", also: "/admin/runs" },
          { to: "/admin/audit", label: "Audit log" },
        ]}
      />
      {children}
    </AppPage>
  );
}
