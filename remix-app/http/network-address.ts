import { isIPv4, isIPv6 } from "node:net";

/**
 * Returns whether Postgres accepts a text as an IP address, or as a CIDR network whose bits after the prefix are all
 * zero. Rejects IPv4 addresses written as IPv6 (RFC 4291, 2.5.5.2), because the servers see such callers with their
 * IPv4 address.
 */
export function isNetworkAddress(text: string): boolean {
  const [, address = "", prefix] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(text) ?? [];
  const bits = bitsOf(address);
  if (bits === null) return false;
  const length = prefix === undefined ? bits.length : Number(prefix);
  return length <= bits.length && !bits.slice(length).includes("1");
}

/** Returns an address's bits as digits, or null for an address that no caller can have. */
function bitsOf(address: string): string | null {
  if (isIPv4(address)) return toBinaryDigits(address.split(".").map(Number), 8);
  if (!isIPv6(address) || address.includes("%")) return null;
  // URL normalizes IPv6 addresses (RFC 5952).
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = "", tail] = canonical.split("::");
  const groups = (part: string) => part.split(":").filter(Boolean);
  const [before, after] = [groups(head), groups(tail ?? "")];
  const between = Array<string>(8 - before.length - after.length).fill("0");
  const bits = toBinaryDigits(
    [...before, ...between, ...after].map((group) => Number.parseInt(group, 16)),
    16,
  );
  return bits.startsWith("0".repeat(80) + "1".repeat(16)) ? null : bits;
}

function toBinaryDigits(numbers: number[], size: number): string {
  return numbers.map((number) => number.toString(2).padStart(size, "0")).join("");
}
