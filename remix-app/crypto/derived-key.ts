import { createHmac, createSecretKey, hkdfSync, type KeyObject, timingSafeEqual } from "node:crypto";
import type { Env } from "../config/env.server.ts";

const keyBytes = 32;

/**
 * Derives one of our server's keys for a single purpose (HKDF, RFC 5869), so that a signature for one purpose is
 * invalid for any other.
 */
export function deriveServerKey(
  { SUPABASE_SECRET_KEY }: Pick<Env, "SUPABASE_SECRET_KEY">,
  purpose: string,
): Uint8Array {
  return new Uint8Array(hkdfSync("sha256", SUPABASE_SECRET_KEY, "", `gatehouse ${purpose}`, keyBytes));
}

const keyObjects = new WeakMap<Uint8Array, KeyObject>();

/** Returns the HMAC-SHA-256 of a text. Imports each key once, which costs Node more than the HMAC. */
export function hmac(key: Uint8Array, text: string): Buffer {
  const keyObject = keyObjects.get(key) ?? createSecretKey(key);
  keyObjects.set(key, keyObject);
  return createHmac("sha256", keyObject).update(text).digest();
}

/** Compares a signature, as base64url, with the expected one in constant time. */
export function isSignature(signature: string, expected: Buffer): boolean {
  const bytes = Buffer.from(signature, "base64url");
  return bytes.length === expected.length && timingSafeEqual(bytes, expected);
}

/**
 * Keys for one purpose: the current key, and keys derived from earlier secrets, which still open data that was
 * protected before a rotation.
 */
export interface KeyRing {
  current: { id: string; key: Uint8Array<ArrayBuffer> };
  /** Keys of earlier secrets, latest first. */
  previous: readonly KeyRing["current"][];
  /** Returns the key with an id; undefined if it is not on the ring. */
  find(id: string): Uint8Array<ArrayBuffer> | undefined;
}

const idBytes = 9;

/**
 * Derives one key from each secret by HKDF-SHA-256 (RFC 5869). No two purposes share a key. The ids of keys are derived
 * too, so a rotation only needs a new secret at the front of the list.
 * @param secrets the current one first
 */
export async function openKeyRing(secrets: readonly [string, ...string[]], purpose: string): Promise<KeyRing> {
  const [current, ...previous] = await Promise.all([
    deriveKey(secrets[0], purpose),
    ...secrets.slice(1).map((secret) => deriveKey(secret, purpose)),
  ]);
  const keys = new Map([current, ...previous].map(({ id, key }) => [id, key]));
  return { current, previous, find: (id) => keys.get(id) };
}

async function deriveKey(secret: string, purpose: string): Promise<KeyRing["current"]> {
  const bytes = new TextEncoder().encode(secret);
  const material = await crypto.subtle.importKey("raw", bytes, "HKDF", false, ["deriveBits"]);
  const derive = async (info: string, length: number) => {
    const parameters = {
      name: "HKDF",
      hash: "SHA-256",
      salt: new Uint8Array(),
      info: new TextEncoder().encode(`gatehouse ${info}`),
    };
    return new Uint8Array(await crypto.subtle.deriveBits(parameters, material, length * 8));
  };
  const [key, id] = await Promise.all([derive(`key: ${purpose}`, keyBytes), derive(`key id: ${purpose}`, idBytes)]);
  return { id: Buffer.from(id).toString("base64url"), key };
}
