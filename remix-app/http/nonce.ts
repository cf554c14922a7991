import { randomFillSync } from "node:crypto";

/** 128 bits each, as CSP Level 3 asks for (section 7.1). */
const nonceBytes = 16;
/** Randomness is fetched for this many at once: to ask for it takes longer than everything else about a nonce. */
const kept = 64;
const bytes = Buffer.alloc(kept * nonceBytes);
let next = bytes.length;

/** A nonce for the scripts of one answer, in Base64. */
export function createNonce(): string {
  if (next === bytes.length) {
    randomFillSync(bytes);
    next = 0;
  }
  const begin = next;
  next += nonceBytes;
  return bytes.toString("base64", begin, next);
}
