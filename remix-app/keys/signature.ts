import { createHmac, timingSafeEqual } from "node:crypto";

/** Returns the HMAC-SHA-256 of a text. */
export function hmac(key: Uint8Array, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

/** Compares a signature, as base64url, with the expected one in constant time. */
export function isSignature(given: string, expected: Buffer): boolean {
  const bytes = Buffer.from(given, "base64url");
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}
