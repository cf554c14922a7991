import { useLocation } from "@remix-run/react";
import { Menu, X } from "lucide-react";
import type { ReactNode } from "react";
import { countText } from "./count-text.ts";

export interface Section {
  to: string;
  label: string;
  /** Another path whose pages belong to the section. */
  also?: string;
  /** How much in the section needs the visitor, counted up to 1,001. Nothing is shown for 0. */
  count?: number;
}

export interface SectionGroup {
  /** The group's label. Without one, its sections are listed directly. */
  label?: string;
  sections: readonly Section[];
}

export interface SectionNavProps {
  /** The navigation's name for assistive technology. */
  label: string;
  /** The visible name on the button that opens the menu on small screens. */
  name: string;
  /** Content above the sections, such as the workspace switcher. */
  head?: ReactNode;
  groups: readonly SectionGroup[];
}

const menuId = "page-menu";

/**
 * Renders the navigation of a page: a sidebar from 1024 px, and a menu opened by a button on smaller screens. The
 * sidebar and the menu are the same popover element, so neither needs JavaScript.
 */
export function SectionNav({ label, name, head, groups }: SectionNavProps) {
  const { pathname } = useLocation();
  const current = currentSection(
    groups.flatMap(({ sections }) => sections),
    pathname,
  );
  return (
    <>
      <p className="hidden font-medium print:block">{name}</p>
      <button
        type="button"
        // React 18 does not know this attribute's camel-case name.
        {...{ popovertarget: menuId }}
        className="flex h-11 w-full cursor-pointer items-center gap-2.5 border-line border-b bg-surface px-4 text-left hover:bg-sunken lg:hidden"
      >
        <Menu aria-hidden="true" className="size-4 shrink-0" />
        <span className="min-w-0 truncate font-medium" title={name}>
          <span className="sr-only">Menu of </span>
          <bdi>{name}</bdi>
        </span>
      </button>
      <nav id={menuId} {...{ popover: "auto" }} aria-label={label} className="side-nav">
        <div>
          <button
            type="button"
            {...{ popovertarget: menuId, popovertargetaction: "hide" }}
            className="menu-item lg:hidden"
          >
            <X aria-hidden="true" className="size-4" />
            Close menu
          </button>
          {head}
          {groups.map((group) => (
            <Group key={group.sections[0]?.to} {...group} current={current} />
          ))}
        </div>
      </nav>
    </>
  );
}

function Group({ label, sections, current }: SectionGroup & { current: Section | undefined }) {
  const links = sections.map((section) => (
    <li key={section.to}>
      <a href={section.to} aria-current={section === current ? "page" : undefined}>
        {section.label}
        {section.count ? <SectionCount count={section.count} /> : null}
      </a>
    </li>
  ));
  if (!label) return <ul>{links}</ul>;
  const id = `sections-${label.toLowerCase()}`;
  return (
    <div>
      <p id={id}>{label}</p>
      <ul aria-labelledby={id}>{links}</ul>
    </div>
  );
}

/** Shows a section's count at the end of its line, and says to assistive technology what it counts. */
function SectionCount({ count }: { count: number }) {
  return (
    <>
      <span aria-hidden="true" className="section-count">
        {shortCount(count)}
      </span>
      <span className="sr-only">{`, ${countText(count)} ${count === 1 ? "needs" : "need"} attention`}</span>
    </>
  );
}

/** Formats a section's count for the menu's width: "99", then "99+". */
export function shortCount(count: number): string {
  return count > 99 ? "99+" : String(count);
}

/**
 * Returns the section that a page belongs to: the section whose `to` or `also` is the longest prefix of the page's
 * path.
 */
export function currentSection(sections: readonly Section[], pathname: string): Section | undefined {
  const depth = ({ to, also }: Section) =>
    Math.max(...[to, also].map((path) => (path && `${pathname}/`.startsWith(`${path}/`) ? path.length : 0)));
  const [deepest] = sections.toSorted((a, b) => depth(b) - depth(a));
  return deepest && depth(deepest) > 0 ? deepest : undefined;
}
