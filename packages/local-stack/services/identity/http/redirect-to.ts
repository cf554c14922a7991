import type { Deps } from "../core/deps.ts";
import { isAllowedRedirect } from "../core/redirect-target.ts";
import type { Request } from "./context.ts";

/**
 * Returns the URL at which a flow ends: the requested URL, otherwise the referrer, otherwise the site. URLs that are
 * not allowed are skipped.
 */
export function redirectTarget(c: Request, { config }: Deps): string {
  const named = c.req.header("redirect_to") || c.req.query("redirect_to") || "";
  const candidates = [named, c.req.header("referer") ?? ""];
  return candidates.find((candidate) => isAllowedRedirect(candidate, config)) ?? config.GOTRUE_SITE_URL;
}

/** Redirects. Escapes only non-ASCII characters, so that clients get back the URL they asked for. */
export function redirect(c: Request, target: string, status: 302 | 303): Response {
  const location = target.replace(/[^\p{ASCII}]+/gu, (text) => encodeURI(text.toWellFormed()));
  return c.body(null, status, { Location: location });
}
