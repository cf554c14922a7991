import { randomBytes } from "node:crypto";

/**
 * Returns an address that no other test uses, so that tests do not share rate limits. The local stack trusts the last
 * entry of X-Forwarded-For.
 */
export function newAddress(): string {
  const [a, b] = [randomBytes(2), randomBytes(2)].map((bytes) => bytes.toString("hex").replace(/^0+(?=.)/, ""));
  return `2001:db8:${a}:${b}::1`;
}

/** Returns the headers of a form that our own page posts, by default from a new address. */
export function visitorHeaders(address: string = newAddress()): Record<string, string> {
  return { "sec-fetch-site": "same-origin", "x-forwarded-for": address };
}
