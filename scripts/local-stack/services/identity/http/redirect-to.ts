import type { Deps } from "../core/deps.ts";
import { isAllowedRedirect } from "../core/redirect-target.ts";
import type { Request } from "./context.ts";

/** Where a flow ends: what the request names, else where it came from, else the site. Others are passed over. */
export function redirectTarget(c: Request, { config }: Deps): string {
  const named = c.req.header("redirect_to") || c.req.query("redirect_to") || "";
  const candidates = [named, c.req.header("referer") ?? ""];
  return candidates.find((candidate) => isAllowedRedirect(candidate, config)) ?? config.GOTRUE_SITE_URL;
}

/** Leads on. What is not ASCII is escaped, and nothing else, so that clients find what they have asked for. */
export function redirect(c: Request, target: string, status: 302 | 303): Response {
  const location = target.replace(/[^\p{ASCII}]+/gu, (text) => encodeURI(text.toWellFormed()));
  return c.body(null, status, { Location: location });
}
