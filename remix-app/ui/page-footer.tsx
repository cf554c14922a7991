import { useBrand } from "./brand.ts";
import { useSite } from "./site.ts";

const linkClass = "inline-block rounded-button py-1.5 text-muted hover:text-ink hover:underline";

/** Renders the links in the footer of every page. */
export function FooterLinks() {
  const { support } = useBrand();
  if (!useSite()) return null;
  return (
    <nav aria-label="Footer" className="flex flex-wrap gap-x-4 text-small">
      <a href="/docs" className={linkClass}>
        Documentation
      </a>
      {support ? (
        <a href={support} className={linkClass}>
          Support
        </a>
      ) : null}
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
