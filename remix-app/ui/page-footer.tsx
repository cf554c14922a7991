import { useSite } from "./site.ts";

/** Renders the links in the footer of every page. */
export function FooterLinks() {
  if (!useSite()) return null;
  return (
    <nav aria-label="Footer" className="text-small">
      <a href="/docs/api" className="inline-block rounded-button py-1.5 text-muted hover:text-ink hover:underline">
        API reference
      </a>
    </nav>
  );
}

export function PageFooter() {
  return (
    <footer className="mx-auto w-full max-w-5xl px-4 pb-8 lg:px-8">
      <FooterLinks />
    </footer>
  );
}
