import { createHmac, createSecretKey, type Hmac, type KeyObject } from "node:crypto";

const prepared = new WeakMap<Uint8Array, KeyObject>();

/**
 * Begins an HMAC-SHA-256 by a key that lives as long as the process, as those of a key ring do. To make Node's own object
 * of a key takes five times as long as the HMAC, so that it is made once.
 */
export function hmacBy(key: Uint8Array): Hmac {
  const known = prepared.get(key) ?? createSecretKey(key);
  prepared.set(key, known);
  return createHmac("sha256", known);
}
