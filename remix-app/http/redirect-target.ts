const maxLength = 2_048;
// Browsers drop some control characters and read a backslash as a slash.
const unsafeCharacters = /[\p{Cc}\s\\]/u;

/** The parts of a request's context that determine which redirect targets are valid. */
export interface TargetContext {
  /** Our own origin. Absolute URLs with this origin are made relative. */
  origin: string;
  /** Returns whether a path leads to a page. See `createRouteTable`. */
  isPage: (pathname: string) => boolean;
}

export interface RedirectTargetOptions {
  context: TargetContext;
  /** Where to go instead: a path on our origin. */
  fallback: string;
}

/**
 * Sanitises a redirect target: returns the path of one of our pages, with query and fragment, else the fallback.
 * Idempotent.
 */
export function redirectTarget(input: unknown, { context, fallback }: RedirectTargetOptions): string {
  const path = pathOnOrigin(input, context.origin);
  return path !== null && context.isPage(new URL(path, context.origin).pathname) ? path : fallback;
}

function pathOnOrigin(input: unknown, origin: string): string | null {
  if (typeof input !== "string" || input.length > maxLength || unsafeCharacters.test(input)) return null;
  const rest = input.startsWith(origin) ? input.slice(origin.length) || "/" : input;
  if (!rest.startsWith("/") || rest.startsWith("//")) return null;
  const url = URL.parse(rest, origin);
  if (url?.origin !== origin) return null;
  const path = `${url.pathname}${url.search}${url.hash}`;
  // Dot segments may collapse into a leading `//`, which would name another host.
  return path.startsWith("//") || path.length > maxLength ? null : path;
}

/** Returns the URL of a page that people pass through, with their destination in its query. */
export function addReturnUrl(page: string, destination: string): string {
  return destination === "/" ? page : `${page}?${new URLSearchParams({ returnUrl: destination })}`;
}

/**
 * Returns where a visitor was going. For a page, this is its own URL. For a form or a download, it is the URL of the
 * page that contains it, because the request itself can't be visited again.
 */
export function getDestination(request: Request, context: TargetContext): string {
  const { pathname, search } = new URL(request.url);
  const isRead = request.method === "GET" || request.method === "HEAD";
  const own = redirectTarget(isRead ? `${pathname}${search}` : pathname, { context, fallback: "" });
  if (isRead && own !== "") return own;
  return redirectTarget(request.headers.get("referer"), { context, fallback: own || "/" });
}
