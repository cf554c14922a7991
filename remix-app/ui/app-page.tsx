import { useNavigation } from "@remix-run/react";
import type { ReactNode } from "react";
import { AccountMenu } from "./account-menu.tsx";
import { Link, SectionLink } from "./link.tsx";
import { Mark } from "./mark.tsx";
import { UntilNextPage } from "./next-page.tsx";
import { useSite } from "./site.ts";

export interface AppPageProps {
  title: ReactNode;
  lead?: ReactNode;
  /** What can be done with the whole page, such as downloading its CSV. */
  actions?: ReactNode;
  /** The path below which pages share what is around the content of this one. */
  shared?: string;
  children: ReactNode;
}

const sections = [
  { to: "/", label: "Home" },
  { to: "/workspaces", label: "Workspaces" },
] as const;

/** The frame of every signed-in page: the mark, the sections, the account menu, and one heading. */
export function AppPage({ title, lead, actions, shared, children }: AppPageProps) {
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
        <div className="mx-auto flex h-14 w-full max-w-5xl items-center gap-4 px-4 sm:gap-8">
          <Link to="/" className="inline-flex items-center rounded-button">
            <span className="sr-only sm:not-sr-only sm:inline-flex">
              <Mark />
            </span>
            <span aria-hidden="true" className="inline-flex sm:hidden">
              <Mark nameless />
            </span>
          </Link>
          <nav aria-label="Sections" className="flex flex-1 gap-1">
            {sections.map(({ to, label }) => (
              <SectionLink
                key={to}
                to={to}
                className="rounded-button px-2 py-1.5 font-medium text-muted hover:text-ink aria-[current=page]:text-ink aria-[current=page]:underline aria-[current=page]:decoration-2 aria-[current=page]:decoration-accent aria-[current=page]:underline-offset-8"
              >
                {label}
              </SectionLink>
            ))}
          </nav>
          <AccountMenu
            user={site?.user ?? { email: "", displayName: null }}
            accounts={site?.accounts ?? []}
            theme={site?.theme ?? "system"}
          />
        </div>
      </header>
      <main id="content" tabIndex={-1} className="mx-auto w-full max-w-5xl px-4 py-8 outline-none sm:py-10">
        <UntilNextPage frames={0} shared={shared}>
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
    </>
  );
}

/** Says that the next page is on its way, where that takes more than a moment. */
function LoadingBar() {
  if (useNavigation().state === "idle") return null;
  return (
    <div role="status" className="loading-bar fixed inset-x-0 top-0 z-20 h-0.5 bg-accent">
      <span className="sr-only">Loading</span>
    </div>
  );
}
