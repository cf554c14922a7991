import { createHash, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import type { CookieJar } from "../http/cookies.ts";
import { hmacBy } from "../keys/hmac.ts";
import type { KeyRing } from "../keys/key-ring.ts";
import type { AccountKeys } from "./account-keys.ts";
import { deviceCookieSeconds } from "./limits.ts";

/** A browser, as its cookie names it: which one, and that it is that one. */
export interface Device {
  id: string;
  /** 256 random bits as base64url. The database has its hash alone. */
  secret: string;
}

const shape =
  /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.([\w-]{43})\.([\w-]{1,64})\.([\w-]{43})$/;

/**
 * Host-only on every host (docs/accounts.md, The device cookie); on https no sibling subdomain can plant one of this
 * prefix.
 */
const nameFor = (origin: string) => `${origin.startsWith("https:") ? "__Host-" : ""}gh_device`;

/** A browser that nobody has seen before. */
export function newDevice(): Device {
  return { id: randomUUID(), secret: randomBytes(32).toString("base64url") };
}

/**
 * The secret that follows this one at the next sign-in or switch. Only our servers can tell, and all of them come to the
 * same, so that what is sent twice, or answered late, leaves the browser with the one that holds.
 */
export function successorOf({ id, secret }: Device, { successor }: Pick<AccountKeys, "successor">): Device {
  const next = hmacBy(successor.current.key).update(`${id} ${secret}`).digest("base64url");
  return { id, secret: next };
}

/** The secret's hash as the database takes it: hex of SHA-256. */
export function secretHash({ secret }: Device): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** The device of a request's cookie. Null where there is none, or it is none that we signed. */
export function readDeviceCookie(
  jar: CookieJar,
  { origin, cookie }: { origin: string; cookie: KeyRing },
): Device | null {
  const [, id, secret, keyId, signature] = shape.exec(jar.get(nameFor(origin)) ?? "") ?? [];
  if (!id || !secret || !keyId || !signature) return null;
  const key = cookie.find(keyId);
  if (!key) return null;
  const given = Buffer.from(signature, "base64url");
  const expected = sign({ id, secret }, key);
  return given.length === expected.length && timingSafeEqual(given, expected) ? { id, secret } : null;
}

/** Has the browser keep the device. */
export function writeDeviceCookie(
  jar: CookieJar,
  { origin, cookie, device }: { origin: string; cookie: KeyRing; device: Device },
): void {
  const { id, key } = cookie.current;
  const value = [device.id, device.secret, id, sign(device, key).toString("base64url")].join(".");
  jar.set(nameFor(origin), value, { ...attributes(origin), maxAge: deviceCookieSeconds });
}

/** Takes the device from the browser, host-only as it is and in the variant that a domain could have planted. */
export function clearDeviceCookie(jar: CookieJar, { origin, domain }: { origin: string; domain?: string | undefined }) {
  jar.set(nameFor(origin), "", { ...attributes(origin), maxAge: 0 });
  if (domain && !origin.startsWith("https:")) {
    jar.set(nameFor(origin), "", { ...attributes(origin), maxAge: 0, domain });
  }
}

function attributes(origin: string) {
  return { path: "/", httpOnly: true, sameSite: "lax", secure: origin.startsWith("https:") } as const;
}

function sign({ id, secret }: Device, key: Uint8Array): Buffer {
  return hmacBy(key).update(`${id}.${secret}`).digest();
}
