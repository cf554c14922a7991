import { useLocation } from "@remix-run/react";
import { ChevronDown } from "lucide-react";
import { Link } from "./link.tsx";

export interface Section {
  to: string;
  label: string;
  /** Another path whose pages belong to it. */
  also?: string;
}

export interface SectionNavProps {
  /** What the sections are of. */
  label: string;
  /** The first is the one that a page is of which no other claims. */
  sections: readonly [Section, ...Section[]];
  /** Beneath another row of sections. */
  nested?: boolean;
}

/**
 * The sections that a page is one of: a row of links; where the screen is small and they would fill it, one line that
 * says which it is and opens the others.
 */
export function SectionNav({ label, sections, nested = false }: SectionNavProps) {
  const { pathname } = useLocation();
  const [first, ...others] = sections;
  const current =
    others.find(({ to, also }) => [to, also].some((path) => path && `${pathname}/`.startsWith(`${path}/`))) ?? first;
  const links = sections.map(({ to, label: text }) => (
    <Link key={to} to={to} aria-current={to === current.to ? "page" : undefined}>
      {text}
    </Link>
  ));
  return (
    <nav aria-label={label} className={nested ? "subsections -mt-4" : "sections"}>
      <div className="hidden flex-wrap gap-1 border-line border-b pb-2 sm:flex">{links}</div>
      {/* With another page another one, so that it is closed there. */}
      <details key={pathname} className="group rounded-card border border-line bg-surface sm:hidden">
        <summary className="flex min-h-10 cursor-pointer list-none items-center gap-2 rounded-card px-3">
          <span className="text-muted">{label}</span>
          <span className="min-w-0 flex-1 truncate font-medium">{current.label}</span>
          <ChevronDown aria-hidden="true" className="size-4 shrink-0 text-muted group-open:rotate-180" />
        </summary>
        <div className="border-line border-t p-1.5">{links}</div>
      </details>
    </nav>
  );
}
