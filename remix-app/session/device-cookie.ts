import { createHash, randomBytes, randomUUID } from "node:crypto";
import { cookies } from "../http/cookie-table.ts";
import { type CookieJar, readCookie, writeCookie } from "../http/cookies.ts";
import { hmac, isSignature } from "../keys/derived-key.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import type { AccountKeys } from "./account-keys.ts";

/** A browser, as its cookie names it: which one, and that it is that one. */
export interface Device {
  id: string;
  /** 256 random bits as base64url. The database has its hash alone. */
  secret: string;
}

const shape =
  /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.([\w-]{43})\.([\w-]{1,64})\.([\w-]{43})$/;

/** A browser that nobody has seen before. */
export function newDevice(): Device {
  return { id: randomUUID(), secret: randomBytes(32).toString("base64url") };
}

/**
 * The secret that follows this one at the next sign-in or switch. Only our servers can tell, and all of them come to the
 * same, so that what is sent twice, or answered late, leaves the browser with the one that holds.
 */
export function successorOf({ id, secret }: Device, { successor }: Pick<AccountKeys, "successor">): Device {
  return { id, secret: hmac(successor.current.key, `${id} ${secret}`).toString("base64url") };
}

/** The secret's hash as the database takes it: hex of SHA-256. */
export function secretHash({ secret }: Device): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Reads the device from a request's cookie. Null if there is none or we did not sign it. */
export function readDeviceCookie(
  jar: CookieJar,
  { origin, cookie }: { origin: string; cookie: KeyRing },
): Device | null {
  const [, id, secret, keyId, signature] = shape.exec(readCookie({ jar, origin }, cookies.device)) ?? [];
  if (!id || !secret || !keyId || !signature) return null;
  const key = cookie.find(keyId);
  return key && isSignature(signature, sign({ id, secret }, key)) ? { id, secret } : null;
}

/** Has the browser keep the device. */
export function writeDeviceCookie(
  jar: CookieJar,
  { origin, cookie, device }: { origin: string; cookie: KeyRing; device: Device },
): void {
  const { id, key } = cookie.current;
  const value = [device.id, device.secret, id, sign(device, key).toString("base64url")].join(".");
  writeCookie({ jar, origin }, cookies.device, { value });
}

function sign({ id, secret }: Device, key: Uint8Array): Buffer {
  return hmac(key, `${id}.${secret}`);
}
