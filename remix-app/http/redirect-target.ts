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
