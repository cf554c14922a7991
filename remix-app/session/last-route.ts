import { redirectTarget } from "../http/redirect-target.ts";

const maxLength = 2_048;
const nowhere = /^\/+(login|add-account|logout|auth|api)(\/|$)/i;

/**
 * A page to come back to with an account.
 * @returns null for what is no path of ours, and for those that an account never rests on
 */
export function lastRoute(input: unknown, { origin }: { origin: string }): string | null {
  const path = redirectTarget(input, { origin, fallback: "" });
  return path === "" || path.length > maxLength || nowhere.test(pageOf(path)) ? null : path;
}

/** The page that a path leads to, as the router reads it: decoded, and without what asks for its data alone. */
function pageOf(path: string): string {
  const [pathname = ""] = path.split(/[?#]/, 1);
  return decoded(pathname).replace(/\.data$/i, "");
}

function decoded(pathname: string): string {
  try {
    return decodeURIComponent(pathname);
  } catch {
    return pathname;
  }
}
