import { useLocation } from "@remix-run/react";
import type { ComponentPropsWithoutRef } from "react";

/**
 * Links to a section of the site, and marks the link if the current page is within the section. The home page's section
 * contains only the home page.
 */
export function SectionLink({ href, ...props }: ComponentPropsWithoutRef<"a"> & { href: string }) {
  const path = useLocation().pathname.toLowerCase();
  const within = path === href || (href !== "/" && path.startsWith(`${href}/`));
  return <a href={href} aria-current={within ? "page" : undefined} {...props} />;
}
