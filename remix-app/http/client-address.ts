import { isIP } from "node:net";

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
  const chain = (headers.get("x-forwarded-for") ?? "")
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");
  const trusted = chain.slice(-trustedProxyHops);
  return normalise(trusted[0] ?? "") ?? peer;
}

function normalise(address: string): string | null {
  const bare = address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
  return isIP(bare) === 0 ? null : bare;
}
