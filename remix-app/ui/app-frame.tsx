import type { ReactNode } from "react";
import { AccountMenu } from "./account-menu.tsx";
import { InlineScript } from "./inline-script.tsx";
import { BrandMark } from "./mark.tsx";
import { PageFooter } from "./page-footer.tsx";
import { SectionLink } from "./section-link.tsx";
import { consoleLink, useSite } from "./site.ts";

const headerLink =
  "rounded-button px-2 py-1.5 font-medium text-muted hover:text-ink aria-[current=page]:text-ink aria-[current=page]:underline aria-[current=page]:decoration-2 aria-[current=page]:decoration-accent aria-[current=page]:underline-offset-8";

/**
 * The links that the browser may prefetch: those to pages in a frame, which change nothing (RouteTable). Links of a
 * navigation are prefetched while the pointer rests on them, others when they are pressed.
 */
const toPages = {
  and: [
    { href_matches: ["/", "/workspaces", "/workspaces/*", "/settings/*", "/admin", "/admin/*"] },
    { not: { href_matches: "/*.csv" } },
  ],
};
const speculationRules = JSON.stringify({
  prefetch: [
    { where: { and: [toPages, { selector_matches: "nav a" }] }, eagerness: "moderate" },
    { where: toPages, eagerness: "conservative" },
  ],
});

/**
 * Renders the frame of signed-in pages: header, navigation and footer.
 * @param props.nav the navigation of the pages' section, see SectionNav
 */
export function AppFrame({ nav, children }: { nav?: ReactNode; children: ReactNode }) {
  const site = useSite();
  const console = consoleLink(site?.user);
  return (
    <>
      <a
        href="#content"
        className="absolute top-2 left-2 z-10 -translate-y-16 rounded-button bg-accent px-4 py-2 font-medium text-on-accent focus:translate-y-0"
      >
        Skip to content
      </a>
      <header className="border-line border-b bg-surface">
        <div className="flex h-14 items-center gap-4 px-4 sm:gap-8">
          <a href="/" className="inline-flex items-center rounded-button">
            <span className="sr-only sm:not-sr-only sm:inline-flex">
              <BrandMark />
            </span>
            <span aria-hidden="true" className="inline-flex sm:hidden">
              <BrandMark nameless />
            </span>
          </a>
          <nav aria-label="Sections" className="flex flex-1 gap-1">
            <SectionLink href="/workspaces" className={headerLink}>
              Workspaces
            </SectionLink>
            {/* On small screens it is in the account menu. */}
            <a href="/docs" className={`${headerLink} max-sm:hidden sm:ml-auto`}>
              Docs
            </a>
            {console ? (
              <SectionLink href={console.href} className={`${headerLink} max-sm:hidden`}>
                {console.label}
              </SectionLink>
            ) : null}
          </nav>
          <AccountMenu
            user={site?.user ?? { email: "", displayName: null, consoleRole: null }}
            accounts={site?.accounts ?? []}
            theme={site?.theme ?? "system"}
          />
        </div>
      </header>
      <div
        className={`flex min-h-[calc(100dvh-3.5625rem)] flex-col ${nav ? "lg:grid lg:grid-cols-[15rem_minmax(0,1fr)]" : ""}`}
      >
        {nav ? <div className="border-line bg-surface lg:border-r">{nav}</div> : null}
        <div className={`flex min-w-0 grow flex-col ${nav ? "lg:col-start-2" : ""}`}>
          <main
            id="content"
            tabIndex={-1}
            className="@container mx-auto w-full max-w-5xl grow space-y-6 px-4 py-6 outline-none sm:py-8 lg:px-8"
          >
            {children}
          </main>
          <PageFooter />
        </div>
      </div>
      <InlineScript type="speculationrules" source={speculationRules} />
    </>
  );
}
