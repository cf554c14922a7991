import type { ReactNode } from "react";
import { BrandMark } from "./mark.tsx";
import { FooterLinks } from "./page-footer.tsx";
import { useSite } from "./site.ts";
import { ThemeSwitch } from "./theme-switch.tsx";

export interface EntryPageProps {
  title: ReactNode;
  lead?: ReactNode;
  /** False if the theme switch cannot return to the current URL. */
  themeSwitch?: boolean;
  children: ReactNode;
}

/** Renders the frame of sign-in and similar pages: one column, the mark, and a heading that says what happens. */
export function EntryPage({ title, lead, themeSwitch = true, children }: EntryPageProps) {
  const site = useSite();
  return (
    <div className="mx-auto flex min-h-dvh w-full max-w-108 flex-col px-4">
      <header className="pt-10 pb-8 sm:pt-20">
        <a href="/" className="inline-block rounded-button">
          <BrandMark />
        </a>
      </header>
      <main className="flex-1 space-y-6">
        <div className="space-y-2">
          <h1 className="font-semibold text-display tracking-tight">{title}</h1>
          {lead ? <p className="text-large text-muted">{lead}</p> : null}
        </div>
        {children}
      </main>
      <footer className="flex items-center justify-between gap-4 py-8">
        {themeSwitch ? <ThemeSwitch current={site?.theme ?? "system"} /> : <span />}
        <FooterLinks />
      </footer>
    </div>
  );
}
