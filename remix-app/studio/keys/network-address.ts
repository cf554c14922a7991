import { isIPv4, isIPv6 } from "node:net";

/**
 * Whether a text is one address, or a network in CIDR notation without bits beside its prefix, as Postgres takes it.
 * IPv4 in the spelling of an IPv6 socket (RFC 4291, 2.5.5.2) is none: callers have it as IPv4, and no key would match.
 */
export function isNetworkAddress(text: string): boolean {
  const [, address = "", prefix] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const bits = bitsOf(address);
  if (bits === null) return false;
  const length = prefix === undefined ? bits.length : Number(prefix);
  return length <= bits.length && !bits.slice(length).includes("1");
}

/** An address's bits as digits; null where it is no address that a caller can have. */
function bitsOf(address: string): string | null {
  if (isIPv4(address)) return digits(address.split(".").map(Number), 8);
  if (!isIPv6(address) || address.includes("%")) return null;
  // URL writes each IPv6 address in one way (RFC 5952).
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = "", tail] = canonical.split("::");
  const groups = (part: string) => part.split(":").filter(Boolean);
  const [before, after] = [groups(head), groups(tail ?? "")];
  const between = Array<string>(8 - before.length - after.length).fill("0");
  const bits = digits(
    [...before, ...between, ...after].map((group) => Number.parseInt(group, 16)),
    16,
  );
  return bits.startsWith("0".repeat(80) + "1".repeat(16)) ? null : bits;
}

function digits(numbers: number[], size: number): string {
  return numbers.map((number) => number.toString(2).padStart(size, "0")).join("");
}
