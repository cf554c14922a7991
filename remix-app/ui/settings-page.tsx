import type { ReactNode } from "react";
import { AppPage, type AppPageProps } from "./app-page.tsx";
import { SectionLink } from "./link.tsx";

const sections = [
  { to: "/settings/profile", label: "Profile" },
  { to: "/settings/security", label: "Security" },
] as const;

/**
 * Renders the frame of a settings page: the sections on the left, or at the top of small screens, and one card per
 * concern.
 */
export function SettingsPage({ children, ...page }: AppPageProps & { children: ReactNode }) {
  return (
    <AppPage {...page}>
      <div className="grid grid-cols-1 items-start gap-6 lg:grid-cols-[11rem_minmax(0,1fr)] lg:gap-10">
        <nav aria-label="Settings" className="border-line border-b lg:border-b-0">
          <ul className="-mb-px flex flex-wrap gap-x-2 lg:mb-0 lg:flex-col lg:gap-y-1">
            {sections.map(({ to, label }) => (
              <li key={to}>
                <SectionLink
                  to={to}
                  className="block border-transparent border-b-2 px-2 py-2 font-medium text-muted hover:text-ink aria-[current=page]:border-accent aria-[current=page]:text-ink lg:rounded-button lg:border-b-0 lg:px-3 lg:aria-[current=page]:bg-sunken"
                >
                  {label}
                </SectionLink>
              </li>
            ))}
          </ul>
        </nav>
        <div className="min-w-0 space-y-6">{children}</div>
      </div>
    </AppPage>
  );
}
