import { isIP } from "node:net";
import { withoutPort } from "#shared/forwarded-for.ts";

export interface ClientAddressOptions {
  /** The peer of the connection. */
  remoteAddress: string;
  /** How many proxies of ours stand in front; each appended one entry to X-Forwarded-For. */
  trustedProxyHops: number;
}

/**
 * The caller's address: the entry that our outermost proxy wrote, and never one further left, since a caller
 * writes those. Falls back towards the peer's address where the header has fewer entries, or an entry is no address.
 */
export function clientAddress(headers: Headers, { remoteAddress, trustedProxyHops }: ClientAddressOptions): string {
  const peer = normalise(remoteAddress) ?? "0.0.0.0";
  if (trustedProxyHops === 0) return peer;
  const trusted = forwardedEntries(headers).slice(-trustedProxyHops);
  return normalise(trusted[0] ?? "") ?? peer;
}

/** The entries of X-Forwarded-For; each proxy appends one. */
export function forwardedEntries(headers: Headers): string[] {
  return (headers.get("x-forwarded-for") ?? "")
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

function normalise(entry: string): string | null {
  const address = withoutPort(entry);
  const bare = address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
  return isIP(bare) === 0 ? null : bare;
}

/**
 * Our origin as the browser names it: the configured one whose host the request names, else the first. Host alone is
 * never believed.
 * @param origins configured; not empty
 */
export function requestOrigin(host: string | null, origins: readonly [string, ...string[]]): string {
  return origins.find((origin) => new URL(origin).host === host) ?? origins[0];
}

const sane = /^[A-Za-z0-9._:-]{1,128}$/;

/** The request's id: the caller's where it is 1–128 of `A-Z a-z 0-9 . _ : -`, else a new one. */
export function requestIdOf(headers: Headers): string {
  const given = headers.get("x-request-id");
  return given !== null && sane.test(given) ? given : crypto.randomUUID();
}

/** Whether it is a browser that asks, to show the answer to somebody: scripts and programs want none of our pages. */
export function asksForPage({ headers }: Request): boolean {
  return headers.get("accept")?.includes("text/html") ?? false;
}
