import { Link as RouterLink, type LinkProps as RouterLinkProps, useLocation } from "@remix-run/react";

export interface LinkProps
  extends Pick<RouterLinkProps, "className" | "children" | "aria-current" | "aria-label" | "preventScrollReset"> {
  /** An absolute path, or a query string for another view of the current page. */
  to: string;
}

/**
 * Links to one of our pages. The server renders the same HTML as Remix's link, but faster. Remix's link resolves each
 * path three times through JSON, and a page with a table has a hundred links. The browser renders Remix's link.
 */
export function Link({ to, preventScrollReset = false, ...props }: LinkProps) {
  const { pathname } = useLocation();
  if (!import.meta.env.SSR) return <RouterLink to={to} preventScrollReset={preventScrollReset} {...props} />;
  // A bare "?" means the page without its query.
  const href = to.startsWith("/") ? to : `${pathname}${to === "?" ? "" : to}`;
  return <a {...props} href={href} data-discover="true" />;
}

/**
 * Links to a section of the site, and marks the link if the current page is within the section. The home page's section
 * contains only the home page.
 */
export function SectionLink({ to, ...props }: LinkProps) {
  const path = useLocation().pathname.toLowerCase();
  const within = path === to || (to !== "/" && path.startsWith(`${to}/`));
  return <Link to={to} aria-current={within ? "page" : undefined} {...props} />;
}
