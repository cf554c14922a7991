const maxLength = 2_048;
// Browsers drop some control characters and take a backslash for a slash.
const unsafeCharacters = /[\p{Cc}\s\\]/u;

export interface RedirectTargetOptions {
  /** Our own origin. An absolute address of it is reduced to its path. */
  origin: string;
  /** Where to go instead; a path of ours. */
  fallback: string;
}

/**
 * Makes a redirect target safe: a path on our origin (with query and fragment), else the fallback.
 * Sanitising the answer again changes nothing.
 */
export function redirectTarget(input: unknown, { origin, fallback }: RedirectTargetOptions): string {
  return pathOnOrigin(input, origin) ?? fallback;
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
