import type { ReactNode } from "react";
import { BrandMark } from "./mark.tsx";
import { PageFooter } from "./page-footer.tsx";
import { useSite } from "./site.ts";
import { ThemeSwitch } from "./theme-switch.tsx";

export interface ReferenceArea {
  name: string;
  title: string;
  tags: readonly { name: string; href: string }[];
}

export interface ReferencePageProps {
  title: string;
  /** The id of the title, for links to it. */
  titleId?: string;
  lead?: ReactNode;
  areas: readonly ReferenceArea[];
  /** The path of the current page. */
  current: string;
  /** Whether small screens show only the links to the guides and the reference. */
  areasOnWideScreensOnly?: boolean;
  children: ReactNode;
}

const parts = [
  { name: "Guides", href: "/docs" },
  { name: "API reference", href: "/docs/api" },
] as const;

/**
 * Renders the frame of the public documentation: the guides by role, or the areas of the API with their tags, on the
 * left, or at the top of small screens.
 */
export function ReferencePage(props: ReferencePageProps) {
  const { title, titleId, lead, areas, current, areasOnWideScreensOnly = false, children } = props;
  const site = useSite();
  return (
    <>
      <a
        href="#content"
        className="absolute top-2 left-2 z-10 -translate-y-16 rounded-button bg-accent px-4 py-2 font-medium text-on-accent focus:translate-y-0"
      >
        Skip to content
      </a>
      <header className="border-line border-b bg-surface">
        <div className="mx-auto flex h-14 w-full max-w-5xl items-center justify-between gap-4 px-4">
          <a href="/" className="inline-flex items-center rounded-button">
            <BrandMark />
          </a>
          <ThemeSwitch current={site?.theme ?? "system"} />
        </div>
      </header>
      <div className="mx-auto grid w-full max-w-5xl grid-cols-1 items-start gap-6 px-4 py-8 sm:py-10 lg:grid-cols-[13rem_minmax(0,1fr)] lg:gap-10">
        <nav aria-label="Documentation" className="space-y-4 border-line border-b pb-4 lg:border-b-0">
          <ul className="flex flex-wrap gap-x-1 lg:flex-col">
            {parts.map(({ name, href }) => (
              <li key={href}>
                <a href={href} aria-current={href === current ? "page" : undefined} className={linkClass}>
                  {name}
                </a>
              </li>
            ))}
          </ul>
          {areas.map((area) => (
            <div key={area.name} className={`space-y-1 ${areasOnWideScreensOnly ? "max-lg:hidden" : ""}`}>
              <p id={`area-${area.name}`} className="px-2 font-semibold">
                {area.title}
              </p>
              <ul aria-labelledby={`area-${area.name}`} className="flex flex-wrap gap-x-1 lg:flex-col">
                {area.tags.map(({ name, href }) => (
                  <li key={href}>
                    <a href={href} aria-current={href === current ? "page" : undefined} className={linkClass}>
                      {name}
                    </a>
                  </li>
                ))}
              </ul>
            </div>
          ))}
        </nav>
        <main id="content" tabIndex={-1} className="min-w-0 space-y-6 outline-none">
          <div className="space-y-1">
            <h1 id={titleId} className="font-semibold text-display tracking-tight">
              {title}
            </h1>
            {lead ? <p className="text-large text-muted">{lead}</p> : null}
          </div>
          {children}
        </main>
      </div>
      <PageFooter />
    </>
  );
}

const linkClass =
  "block rounded-button px-2 py-1.5 font-medium text-muted hover:text-ink aria-[current=page]:bg-sunken aria-[current=page]:text-ink";
