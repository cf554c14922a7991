import { useLocation, useNavigation } from "@remix-run/react";
import type { ReactNode } from "react";
import { AccountMenu } from "./account-menu.tsx";
import { Link, SectionLink } from "./link.tsx";
import { Mark } from "./mark.tsx";
import { UntilNextPage } from "./next-page.tsx";
import { PageFooter } from "./page-footer.tsx";
import { useSite } from "./site.ts";

export interface AppPageProps {
  title: ReactNode;
  lead?: ReactNode;
  /** Actions for the whole page, such as downloading its CSV. */
  actions?: ReactNode;
  /** The navigation of the section that the page belongs to, see SectionNav. */
  nav?: ReactNode;
  children: ReactNode;
}

const headerLink =
  "rounded-button px-2 py-1.5 font-medium text-muted hover:text-ink aria-[current=page]:text-ink aria-[current=page]:underline aria-[current=page]:decoration-2 aria-[current=page]:decoration-accent aria-[current=page]:underline-offset-8";

/** Renders the frame of every signed-in page: header, navigation, and the page's name as its heading. */
export function AppPage({ title, lead, actions, nav, children }: AppPageProps) {
  const site = useSite();
  return (
    <>
      <a
        href="#content"
        className="absolute top-2 left-2 z-10 -translate-y-16 rounded-button bg-accent px-4 py-2 font-medium text-on-accent focus:translate-y-0"
      >
        Skip to content
      </a>
      <LoadingBar />
      <header className="border-line border-b bg-surface">
        <div className="flex h-14 items-center gap-4 px-4 sm:gap-8">
          <Link to="/" className="inline-flex items-center rounded-button">
            <span className="sr-only sm:not-sr-only sm:inline-flex">
              <Mark />
            </span>
            <span aria-hidden="true" className="inline-flex sm:hidden">
              <Mark nameless />
            </span>
          </Link>
          <nav aria-label="Sections" className="flex flex-1 gap-1">
            <SectionLink to="/workspaces" className={headerLink}>
              Workspaces
            </SectionLink>
            {/*
             * A plain link, because these pages do not use the framework's script. On small screens it is in the
             * account menu.
             */}
            <a href="/docs/api" className={`${headerLink} max-sm:hidden sm:ml-auto`}>
              Docs
            </a>
            {site?.user?.infrastructureAdmin ? <ConsoleLink /> : null}
          </nav>
          <AccountMenu
            user={site?.user ?? { email: "", displayName: null, infrastructureAdmin: false }}
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
            className="@container mx-auto w-full max-w-5xl grow px-4 py-6 outline-none sm:py-8 lg:px-8"
          >
            <UntilNextPage>
              <div className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
                <div className="min-w-0 flex-1 basis-56 space-y-1">
                  <h1 className="font-semibold text-display tracking-tight">{title}</h1>
                  {lead ? <p className="max-w-prose text-large text-muted">{lead}</p> : null}
                </div>
                {actions ? <div className="flex flex-wrap gap-2">{actions}</div> : null}
              </div>
              {children}
            </UntilNextPage>
          </main>
          <PageFooter />
        </div>
      </div>
    </>
  );
}

function ConsoleLink() {
  const within = `${useLocation().pathname}/`.startsWith("/admin/");
  return (
    <a href="/admin" aria-current={within ? "page" : undefined} className={`${headerLink} max-sm:hidden`}>
      Admin console
    </a>
  );
}

/** Shows that the next page is loading, if it takes more than a moment. */
function LoadingBar() {
  if (useNavigation().state === "idle") return null;
  return (
    <div role="status" className="loading-bar fixed inset-x-0 top-0 z-20 h-0.5 bg-accent">
      <span className="sr-only">Loading</span>
    </div>
  );
}
