import { Link as RouterLink, type LinkProps as RouterLinkProps, useLocation } from "@remix-run/react";

export interface LinkProps
  extends Pick<RouterLinkProps, "className" | "children" | "aria-current" | "aria-label" | "preventScrollReset"> {
  /** A path from the root, or the search parameters of another view of the same page. */
  to: string;
}

/**
 * A link to a page of ours. The server writes what Remix's own comes to: that one resolves a path three times by way of
 * JSON, also one that is whole already, and a page with a table has a hundred. In the browser it is Remix's own.
 */
export function Link({ to, preventScrollReset = false, ...props }: LinkProps) {
  const { pathname } = useLocation();
  if (!import.meta.env.SSR) return <RouterLink to={to} preventScrollReset={preventScrollReset} {...props} />;
  // A bare "?" is the page without its search.
  const href = to.startsWith("/") ? to : `${pathname}${to === "?" ? "" : to}`;
  return <a {...props} href={href} data-discover="true" />;
}

/** A link to a section of the site, which says whether the page is within it; the start page has none but itself. */
export function SectionLink({ to, ...props }: LinkProps) {
  const path = useLocation().pathname.toLowerCase();
  const within = path === to || (to !== "/" && path.startsWith(`${to}/`));
  return <Link to={to} aria-current={within ? "page" : undefined} {...props} />;
}
