import { Outlet } from "@remix-run/react";
import { AppFrame } from "../../ui/app-frame.tsx";
import { SectionLink } from "../../ui/section-link.tsx";

const sections = [
  { href: "/settings/profile", label: "Profile" },
  { href: "/settings/security", label: "Security" },
] as const;

/** Renders the frame of the settings pages: the sections left of the page's content, or above it on small screens. */
export default function SettingsFrame() {
  return (
    <AppFrame>
      <div className="settings-frame">
        <nav aria-label="Settings" className="border-line border-b lg:border-b-0">
          <ul className="-mb-px flex flex-wrap gap-x-2 lg:mb-0 lg:flex-col lg:gap-y-1">
            {sections.map(({ href, label }) => (
              <li key={href}>
                <SectionLink
                  href={href}
                  className="block border-transparent border-b-2 px-2 py-2 font-medium text-muted hover:text-ink aria-[current=page]:border-accent aria-[current=page]:text-ink lg:rounded-button lg:border-b-0 lg:px-3 lg:aria-[current=page]:bg-sunken"
                >
                  {label}
                </SectionLink>
              </li>
            ))}
          </ul>
        </nav>
        <Outlet />
      </div>
    </AppFrame>
  );
}
