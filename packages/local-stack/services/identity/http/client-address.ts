import { isIP } from "node:net";
import type { Caller, Deps } from "../core/deps.ts";
import type { Request } from "./context.ts";

/** Returns the client's address and user agent, as sessions and challenges record them. */
export function callerOf(c: Request, deps: Deps): Caller {
  return { ip: clientAddress(c, deps), userAgent: c.req.header("user-agent") ?? "" };
}

/** Returns the address in Sb-Forwarded-For if the server trusts that header. */
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

/** Normalizes an address, so that the addresses of two requests can be compared; undefined if it is invalid. */
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
