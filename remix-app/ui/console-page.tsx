import type { ReactNode } from "react";
import { AppPage, type AppPageProps } from "./app-page.tsx";

const sections = [
  { to: "/admin", label: "Users", section: "users" },
  { to: "/admin/recovery", label: "Recovery", section: "recovery" },
  { to: "/admin/apps", label: "Apps", section: "apps" },
  { to: "/admin/workspaces", label: "Key approvals", section: "workspaces" },
  { to: "/admin/models", label: "Models", section: "models" },
  { to: "/admin/audit", label: "Audit log", section: "audit" },
] as const;

type ConsoleSection = (typeof sections)[number]["section"];

/** The frame of the console's pages: its sections, and what the page is about. Its pages are not hydrated. */
export function ConsolePage({
  section,
  children,
  ...page
}: AppPageProps & { section: ConsoleSection; children: ReactNode }) {
  return (
    <AppPage {...page}>
      <nav aria-label="Console" className="flex flex-wrap gap-x-1 gap-y-1 border-line border-b pb-2">
        {sections.map(({ to, label, section: own }) => (
          <a
            key={to}
            href={to}
            aria-current={own === section ? "page" : undefined}
            className="rounded-button px-2 py-1.5 font-medium text-muted hover:text-ink aria-[current=page]:bg-sunken aria-[current=page]:text-ink"
          >
            {label}
          </a>
        ))}
      </nav>
      {children}
    </AppPage>
  );
}
