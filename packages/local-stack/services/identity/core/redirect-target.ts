import { BlockList, isIP } from "node:net";
import type { Config } from "../config/config.ts";
import { parseRedirectUrl } from "./redirect-url.ts";

type Settings = Pick<Config, "GOTRUE_SITE_URL" | "GOTRUE_URI_ALLOW_LIST">;

/**
 * Returns whether a flow may end at this URL. The URL must be on the site, on a loopback address, or in the allow-list.
 */
export function isAllowedRedirect(target: string, { GOTRUE_SITE_URL, GOTRUE_URI_ALLOW_LIST }: Settings): boolean {
  const site = parseRedirectUrl(GOTRUE_SITE_URL);
  const requested = parseRedirectUrl(target);
  if (!site || !requested) return false;
  const samePort = requested.port === site.port || isLoopbackName(requested.host);
  if (requested.host === site.host && requested.scheme === site.scheme && samePort) return true;
  if (/^\d+$/.test(requested.host)) return false;
  if (isIP(requested.host)) return isLoopback(requested.host);
  const isHttp = requested.scheme === "http" || requested.scheme === "https";
  if (isHttp && !/^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$/.test(requested.host)) return false;
  const [withoutFragment = ""] = target.split("#");
  return GOTRUE_URI_ALLOW_LIST.some((pattern) => globToRegExp(pattern).test(withoutFragment));
}

/** Returns whether an address that `isIP` accepts is a loopback address, in any spelling. */
function isLoopback(address: string): boolean {
  if (address.includes("%")) return false;
  const loopback = new BlockList();
  loopback.addSubnet("127.0.0.0", 8);
  loopback.addAddress("::1", "ipv6");
  return loopback.check(address, isIP(address) === 6 ? "ipv6" : "ipv4");
}

function isLoopbackName(host: string): boolean {
  return host === "localhost" || host === "127.0.0.1" || host === "::1";
}

/** Translates a glob: `*` and `?` stop at `.` and `/`, `**` does not; `[…]`, `[!…]` and `{a,b}` work as usual. */
function globToRegExp(pattern: string): RegExp {
  let depth = 0;
  const source = pattern.replace(/\*\*|\[!?[^\]]*\]|\\.|[\s\S]/g, (token) => {
    if (token === "**") return ".*";
    if (token === "*") return "[^./]*";
    if (token === "?") return "[^./]";
    if (token === "{") {
      depth++;
      return "(?:";
    }
    if (token === "}" && depth > 0) {
      depth--;
      return ")";
    }
    if (token === "," && depth > 0) return "|";
    if (/^\[.+\]$/.test(token)) return token.replace(/^\[!/, "[^").replaceAll("\\", "\\\\");
    return (token.length === 2 ? token.slice(1) : token).replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  });
  return new RegExp(`^${source}${")".repeat(depth)}$`, "s");
}
