import { createHash, createHmac, randomBytes } from "node:crypto";
import type { KeyRing } from "../keys/key-ring.ts";

const secretBytes = 32;

/** A new opaque text of 256 random bits behind a prefix. */
export function newOpaqueToken(prefix: string): string {
  return prefix + randomBytes(secretBytes).toString("base64url");
}

/** SHA-256 of a text as the Data API takes a bytea. Texts of 256 random bits need no slow hash. */
export function hashOf(text: string): string {
  return `\\x${createHash("sha256").update(text).digest("hex")}`;
}

/**
 * Bytes that follow from a token and that only our servers can tell: whoever refreshes it at the same moment, on
 * whichever server, comes to the same next one, and the database lets it in once.
 */
export function successorBytes(token: string, { key, part }: { key: Uint8Array; part: string }): Buffer {
  return createHmac("sha256", key).update(`${part} ${token}`).digest();
}

/**
 * Refreshes by the successor that follows from the current key; where the token leads nowhere by it, by those of earlier
 * secrets. The database makes none of these new: it knows one only where the token was refreshed before our secret was
 * changed, and within that refresh's grace.
 */
export async function refreshByAnyKey<Refreshed extends { answer: object }>(
  { current, earlier }: KeyRing,
  refresh: (key: Uint8Array) => Promise<Refreshed>,
): Promise<Refreshed> {
  let refreshed = await refresh(current.key);
  for (const { key } of earlier) {
    if (!("refused" in refreshed.answer) || refreshed.answer.refused !== "token") break;
    refreshed = await refresh(key);
  }
  return refreshed;
}
