import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import type { Env } from "../config/env.server.ts";

const keyBytes = 32;

/** A key of our server's own for one purpose (HKDF, RFC 5869), so that what one purpose signs is worth nothing to another. */
export function derivedKey({ SUPABASE_SECRET_KEY }: Pick<Env, "SUPABASE_SECRET_KEY">, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", SUPABASE_SECRET_KEY, "", `gatehouse ${purpose}`, keyBytes));
}

/** Returns the HMAC-SHA-256 of a text. */
export function hmac(key: Uint8Array, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}

/** Compares a signature, as base64url, with the expected one in constant time. */
export function isSignature(given: string, expected: Buffer): boolean {
  const bytes = Buffer.from(given, "base64url");
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}
