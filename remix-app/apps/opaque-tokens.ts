import { createHash, createHmac, randomBytes } from "node:crypto";
import type { KeyRing } from "../crypto/derived-key.ts";

const secretBytes = 32;

/** Generates an opaque token: a prefix and 256 random bits. */
export function newOpaqueToken(prefix: string): string {
  return prefix + randomBytes(secretBytes).toString("base64url");
}

/** Returns a text's SHA-256 as a bytea for the Data API. Texts of 256 random bits need no slow hash. */
export function hashToBytea(text: string): string {
  return `\\x${createHash("sha256").update(text).digest("hex")}`;
}

/**
 * Derives a token's successor with a secret key. Servers that refresh one token concurrently derive the same successor,
 * and the database accepts it once.
 */
export function deriveSuccessor(token: string, { key, part }: { key: Uint8Array; part: string }): Buffer {
  return createHmac("sha256", key).update(`${part} ${token}`).digest();
}

/**
 * Refreshes a token with the current key. If the database rejects the token, tries the earlier keys. An earlier key
 * works only if the token was first refreshed before the secret changed and the grace period has not ended.
 */
export async function refreshWithKeyRing<Refreshed extends { answer: object }>(
  { current, previous }: KeyRing,
  refresh: (key: Uint8Array) => Promise<Refreshed>,
): Promise<Refreshed> {
  let refreshed = await refresh(current.key);
  for (const { key } of previous) {
    if (!("refused" in refreshed.answer) || refreshed.answer.refused !== "token") break;
    refreshed = await refresh(key);
  }
  return refreshed;
}
