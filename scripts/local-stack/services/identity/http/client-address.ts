import { isIP } from "node:net";
import type { Caller, Deps } from "../core/deps.ts";
import type { Request } from "./context.ts";

/** Who asks, as sessions and challenges record it. */
export function callerOf(c: Request, deps: Deps): Caller {
  return { ip: clientAddress(c, deps), userAgent: c.req.header("user-agent") ?? "" };
}

/** The address that Sb-Forwarded-For names, where the server trusts it. */
export function forwardedAddress(c: Request, { config }: Deps): string | undefined {
  if (!config.GOTRUE_SECURITY_SB_FORWARDED_FOR_ENABLED) return undefined;
  return canonicalAddress(c.req.header("sb-forwarded-for")?.split(",")[0]?.trim() ?? "");
}

function clientAddress(c: Request, deps: Deps): string {
  const trusted = forwardedAddress(c, deps);
  if (trusted) return trusted;
  for (const value of c.req.header("x-forwarded-for")?.split(",") ?? []) {
    const address = canonicalAddress(value.trim());
    if (address) return address;
  }
  return canonicalAddress(c.env?.incoming?.socket?.remoteAddress ?? "") ?? "";
}

/** One spelling for one address, so that two requests compare; undefined when it is none. */
function canonicalAddress(value: string): string | undefined {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(value)?.[1];
  if (mapped && isIP(mapped)) return mapped;
  if (value.includes("%")) return undefined;
  switch (isIP(value)) {
    case 4:
      return value;
    case 6:
      return new URL(`http://[${value}]`).hostname.slice(1, -1);
    default:
      return undefined;
  }
}
