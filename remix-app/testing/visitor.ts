import { randomBytes } from "node:crypto";

/**
 * An address that no other test comes from, so that none meets the limits that another has used up. The local stack
 * believes the last entry of X-Forwarded-For.
 */
export function newAddress(): string {
  const [a, b] = [randomBytes(2), randomBytes(2)].map((bytes) => bytes.toString("hex").replace(/^0+(?=.)/, ""));
  return `2001:db8:${a}:${b}::1`;
}

/** Headers of a form that our own page posts, from such an address. */
export function visitorHeaders(address: string = newAddress()): Record<string, string> {
  return { "sec-fetch-site": "same-origin", "x-forwarded-for": address };
}
