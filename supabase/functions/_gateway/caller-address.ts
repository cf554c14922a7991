import { isIP } from "node:net";

/**
 * The caller's address as the trusted proxies in front have it (api.md, Conventions): of `X-Forwarded-For` the entry that
 * the outermost of them added, never one further out, which anybody can write.
 * @param trustedHops proxies in front; functions always have one, the platform's own
 * @returns undefined where it is not to be had
 */
export function callerAddress(headers: Headers, trustedHops: number): string | undefined {
  const chain = (headers.get("x-forwarded-for") ?? "").split(",").map((entry) => entry.trim());
  // IPv4 as an IPv6 socket writes it is IPv4 all the same.
  const address = (chain.at(-trustedHops) ?? "").replace(/^::ffff:(?=\d+\.)/i, "");
  return trustedHops > 0 && trustedHops <= chain.length && isIP(address) > 0 ? address : undefined;
}
