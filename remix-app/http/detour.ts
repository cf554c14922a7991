import { redirectTarget } from "./redirect-target.ts";

/** A page of ours that people pass through before they go on to a destination, which its address keeps. */
export function detour(page: string, destination: string): string {
  return destination === "/" ? page : `${page}?${new URLSearchParams({ returnUrl: destination })}`;
}

/**
 * Where a page's visitor was going: its own address; for a form, that of the page which holds it, since an action is
 * nothing to come back to without its form.
 */
export function destinationOf(request: Request, origin: string): string {
  const { pathname, search } = new URL(request.url);
  if (request.method === "GET" || request.method === "HEAD") {
    return redirectTarget(`${pathname}${search}`, { origin, fallback: "/" });
  }
  const fallback = redirectTarget(pathname, { origin, fallback: "/" });
  return redirectTarget(request.headers.get("referer"), { origin, fallback });
}
