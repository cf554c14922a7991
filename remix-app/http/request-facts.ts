import { isIP } from "node:net";
import { withoutPort } from "#shared/forwarded-for.ts";

export interface ClientAddressOptions {
  /** The connection's peer. */
  remoteAddress: string;
  /** Number of our own proxies in front of this server. Each appends one entry to X-Forwarded-For. */
  trustedProxyHops: number;
}

/**
 * Returns the caller's address: the entry that our outermost proxy wrote. Entries further left are never used, because
 * callers can write them. If the header has fewer entries than there are proxies, returns the first entry. If the
 * chosen entry is missing or is not an address, returns the peer's address.
 */
export function clientAddress(headers: Headers, { remoteAddress, trustedProxyHops }: ClientAddressOptions): string {
  const peer = normaliseAddress(remoteAddress) ?? "0.0.0.0";
  if (trustedProxyHops === 0) return peer;
  const trusted = forwardedEntries(headers).slice(-trustedProxyHops);
  return normaliseAddress(trusted[0] ?? "") ?? peer;
}

/** Returns the entries of X-Forwarded-For; each proxy appends one. */
export function forwardedEntries(headers: Headers): string[] {
  return (headers.get("x-forwarded-for") ?? "")
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
}

function normaliseAddress(entry: string): string | null {
  const address = withoutPort(entry);
  const bare = address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
  return isIP(bare) === 0 ? null : bare;
}

/**
 * Returns our origin as the browser names it: the configured origin that matches the request's Host, else the first. An
 * unconfigured Host is never used.
 * @param origins the configured origins
 */
export function requestOrigin(host: string | null, origins: readonly [string, ...string[]]): string {
  return origins.find((origin) => new URL(origin).host === host) ?? origins[0];
}

const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/;

/** Returns the request's id: the caller's if it has 1–128 of `A-Z a-z 0-9 . _ : -`, else a new one. */
export function readRequestId(headers: Headers): string {
  const requestId = headers.get("x-request-id");
  return requestId !== null && validRequestId.test(requestId) ? requestId : crypto.randomUUID();
}

/** Returns whether the request comes from a browser that will show the answer. Other callers don't need a page. */
export function acceptsHtml({ headers }: Request): boolean {
  return headers.get("accept")?.includes("text/html") ?? false;
}

/** Returns whether a browser loads a page in advance and also runs its scripts. */
export function isPrerender({ headers }: Request): boolean {
  return headers.get("sec-purpose")?.includes("prerender") ?? false;
}

/** Returns whether a browser loads a page in advance, which the visitor may never open. */
export function isPrefetch({ headers }: Request): boolean {
  return headers.get("sec-purpose")?.includes("prefetch") ?? false;
}
