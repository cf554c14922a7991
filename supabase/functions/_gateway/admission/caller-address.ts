import { createHash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import { withoutPort } from "../../_shared/forwarded-for.ts";

export type AddressOptions = {
  /** Proxies in front; functions always have one, the platform's own. */
  trustedHops: number;
  /** The project's secret keys. Our own web server proves itself with any of them. */
  secretKeys: readonly string[];
};

/**
 * The caller's address. As the trusted proxies in front have it: of `X-Forwarded-For` the entry
 * that the outermost of them added, never one further out, which anybody can write. Of a call that our own web server
 * passes on, what that server says; of one that only claims to be such, nothing.
 * @returns undefined where it is not to be had
 */
export function callerAddress(headers: Headers, { trustedHops, secretKeys }: AddressOptions): string | undefined {
  const told = headers.get("x-platform-forwarded-for");
  if (told !== null) {
    const key = headers.get("apikey");
    return secretKeys.some((secret) => isSame(key, secret)) ? readAddress(told) : undefined;
  }
  const chain = (headers.get("x-forwarded-for") ?? "").split(",").map((entry) => entry.trim());
  if (trustedHops === 0 || trustedHops > chain.length) return undefined;
  return readAddress(withoutPort(chain.at(-trustedHops) ?? ""));
}

/** An address as Postgres compares it; IPv4 as an IPv6 socket writes it (RFC 4291, 2.5.5.2) is IPv4 all the same. */
function readAddress(text: string): string | undefined {
  // A zone is of the machine that wrote it.
  if (isIP(text) === 0 || text.includes("%")) return undefined;
  if (isIP(text) === 4) return text;
  // URL writes each IPv6 address in one way (RFC 5952).
  const canonical = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical);
  if (!mapped) return canonical;
  const [high = 0, low = 0] = mapped.slice(1).map((group) => Number.parseInt(group, 16));
  return [high >> 8, high & 255, low >> 8, low & 255].join(".");
}

function isSame(given: string | null, secret: string): boolean {
  if (given === null || !secret) return false;
  const [one, other] = [given, secret].map((text) => createHash("sha256").update(text).digest());
  return one !== undefined && other !== undefined && timingSafeEqual(one, other);
}
