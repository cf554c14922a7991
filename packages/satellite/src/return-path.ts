const maxLength = 2_048;
// Browsers drop some control characters and treat a backslash as a slash.
const unsafeCharacters = /[\p{Cc}\s\\]/u;

/** Returns a path of this origin (with query and fragment) that a person may be sent to, else `/`. */
export function returnPath(input: unknown, origin: string, isOwnEndpoint: (pathname: string) => boolean): string {
  if (typeof input !== "string" || input.length > maxLength || unsafeCharacters.test(input)) return "/";
  const rest = input === origin || input.startsWith(`${origin}/`) ? input.slice(origin.length) || "/" : input;
  if (!rest.startsWith("/") || rest.startsWith("//") || !URL.canParse(rest, origin)) return "/";
  const url = new URL(rest, origin);
  const path = `${url.pathname}${url.search}${url.hash}`;
  // Dot segments may collapse into a leading `//`, which would name another host.
  if (url.origin !== origin || path.startsWith("//") || path.length > maxLength) return "/";
  return isOwnEndpoint(url.pathname) ? "/" : path;
}
