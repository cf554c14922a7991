import { createHash, timingSafeEqual } from "node:crypto";

/** Compares a text with a secret in constant time, also if their lengths differ. An empty secret equals nothing. */
export function isSameSecret(given: string | null, secret: string): boolean {
  if (given === null || !secret) return false;
  const [one, other] = [given, secret].map((text) => createHash("sha256").update(text).digest());
  return one !== undefined && other !== undefined && timingSafeEqual(one, other);
}
