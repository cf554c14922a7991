import type { Deps } from "../core/deps.ts";
import { isAllowedRedirect } from "../core/redirect-target.ts";
import type { Request } from "./context.ts";

/** Where a flow ends: what the request names, else where it came from, else the site. Others are passed over. */
export function redirectTarget(c: Request, { config }: Deps): string {
  const named = c.req.header("redirect_to") || c.req.query("redirect_to") || "";
  const candidates = [named, c.req.header("referer") ?? ""];
  return candidates.find((candidate) => isAllowedRedirect(candidate, config)) ?? config.GOTRUE_SITE_URL;
}
