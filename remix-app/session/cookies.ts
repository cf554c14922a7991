import { createHash, randomBytes, randomUUID } from "node:crypto";
import { combineChunks, createChunks, isChunkLike, stringToBase64URL } from "@supabase/ssr";
import { z } from "zod";
import type { Env } from "../config/env.server.ts";
import { deriveServerKey, hmac, isSignature, type KeyRing } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import {
  type CookieAttributes,
  type CookieContext,
  type CookieJar,
  clearCookie,
  readCookie,
  writeCookie,
} from "../http/cookies.ts";
import type { AccountKeys } from "./vault.ts";

/** The part of a session in the browser's cookie: only tokens, in the format that auth-js stores. */
export const storedSession = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1),
  expires_at: z.number(),
  expires_in: z.number(),
  token_type: z.literal("bearer"),
});

export type StoredSession = z.infer<typeof storedSession>;

/** Returns whether two sessions have the same tokens. */
export function isSameSession(one: StoredSession, other: StoredSession): boolean {
  return one.refresh_token === other.refresh_token && one.access_token === other.access_token;
}

/** The name and scope of this project's canonical auth cookie for one request. */
export interface SessionCookieScope {
  name: string;
  /** Set only if the request's host is under the parent domain. */
  domain?: string;
  secure: boolean;
}

const encodingPrefix = "base64-";
const encodedSessionPattern = /^base64-([\w-]+)$/;
/** Leaves room for the other cookies, since all of our cookies together must stay below 8 KB. */
export const maxSessionCookieBytes = 6 * 1024;

/**
 * Returns the name, Domain and Secure attribute of the session cookie. The name depends only on the project. Domain is
 * set only if the host is the parent domain or one of its subdomains, and Secure only on https.
 */
export function sessionCookieScope(options: {
  supabaseUrl: string;
  parentDomain?: string | undefined;
  origin: string;
}): SessionCookieScope {
  const { hostname, protocol } = new URL(options.origin);
  const { parentDomain } = options;
  const underParent =
    parentDomain !== undefined && (hostname === parentDomain || hostname.endsWith(`.${parentDomain}`));
  return {
    name: `sb-${new URL(options.supabaseUrl).hostname.split(".")[0]}-auth-token`,
    ...(underParent ? { domain: parentDomain } : {}),
    secure: protocol === "https:",
  };
}

function sessionCookieAttributes({ domain, secure }: SessionCookieScope): CookieAttributes {
  return {
    path: "/",
    httpOnly: true,
    sameSite: "lax",
    secure,
    maxAge: cookies.session.maxAgeSeconds,
    ...(domain ? { domain } : {}),
  };
}

/** Reads the session from the request's cookies. Null if it is missing or incomplete. */
export async function readSessionCookie(jar: CookieJar, { name }: SessionCookieScope): Promise<StoredSession | null> {
  const [, text] = encodedSessionPattern.exec((await combineChunks(name, (chunk) => jar.get(chunk))) ?? "") ?? [];
  if (text === undefined) return null;
  try {
    return storedSession.parse(JSON.parse(Buffer.from(text, "base64url").toString("utf8")));
  } catch {
    return null;
  }
}

/** Returns whether the request has any part of the auth cookie. */
export function hasSessionCookie(jar: CookieJar, { name }: SessionCookieScope): boolean {
  return jar.getAll().some((cookie) => isChunkLike(cookie.name, name));
}

function cookieValueOf(session: StoredSession): string {
  return encodingPrefix + stringToBase64URL(JSON.stringify(session));
}

/** Returns whether a session is small enough for the cookie. Servers refuse requests with larger headers. */
export function fitsCookie(session: StoredSession): boolean {
  return cookieValueOf(session).length <= maxSessionCookieBytes;
}

/**
 * Writes the session and expires leftover parts of earlier cookies. If the session is too large, clears the cookie
 * instead.
 * @returns the session that the browser holds afterwards, or null
 */
export function writeSessionCookie(
  jar: CookieJar,
  scope: SessionCookieScope,
  session: StoredSession,
): StoredSession | null {
  if (!fitsCookie(session)) {
    clearSessionCookie(jar, scope);
    return null;
  }
  const chunks = createChunks(scope.name, cookieValueOf(session));
  const written = new Set(chunks.map((chunk) => chunk.name));
  for (const name of listAuthCookieNames(jar, scope)) {
    if (!written.has(name)) expire(jar, scope, name);
    else if (scope.domain)
      jar.set(name, "", { ...sessionCookieAttributes({ ...scope, domain: undefined }), maxAge: 0 });
  }
  for (const chunk of chunks) jar.set(chunk.name, chunk.value, sessionCookieAttributes(scope));
  return session;
}

/** Expires every part of the auth cookie, both as a host-only cookie and for the scope's domain. */
export function clearSessionCookie(jar: CookieJar, scope: SessionCookieScope): void {
  for (const name of new Set([scope.name, ...listAuthCookieNames(jar, scope)])) expire(jar, scope, name);
}

/** Returns the names of the auth cookie's parts, and of the code verifiers derived from its name. */
function listAuthCookieNames(jar: CookieJar, { name }: SessionCookieScope): string[] {
  return jar
    .getAll()
    .map((cookie) => cookie.name)
    .filter((candidate) => isChunkLike(candidate, name));
}

function expire(jar: CookieJar, scope: SessionCookieScope, name: string): void {
  jar.set(name, "", { ...sessionCookieAttributes({ ...scope, domain: undefined }), maxAge: 0 });
  if (scope.domain) jar.set(name, "", { ...sessionCookieAttributes(scope), maxAge: 0 });
}

/** A browser as identified by its signed cookie. */
export interface Device {
  id: string;
  /** 256 random bits as base64url. The database stores only the hash. */
  secret: string;
}

const deviceCookiePattern =
  /^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.([\w-]{43})\.([\w-]{1,64})\.([\w-]{43})$/;

/** Creates a device for an unknown browser. */
export function newDevice(): Device {
  return { id: randomUUID(), secret: newSecret() };
}

/** Generates a device secret that cannot be derived from anything the browser has sent. */
export function newSecret(): string {
  return randomBytes(32).toString("base64url");
}

/**
 * Derives the secret that replaces a device's secret at the next account switch. Only our servers can compute it, and
 * all of them derive the same secret, so a repeated or late request leaves the browser with the valid secret.
 */
export function deriveSuccessor({ id, secret }: Device, { successor }: Pick<AccountKeys, "successor">): Device {
  return { id, secret: hmac(successor.current.key, `${id} ${secret}`).toString("base64url") };
}

/** Returns the secret's hash as the database takes it: SHA-256 in hex. */
export function secretHash({ secret }: Device): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** Reads the device from a request's cookie. Null if there is none or we did not sign it. */
export function readDeviceCookie(
  jar: CookieJar,
  { origin, cookie }: { origin: string; cookie: KeyRing },
): Device | null {
  return parseDeviceCookie(readCookie({ jar, origin }, cookies.device), cookie);
}

/** Returns the device that a cookie's value names. Null if we did not sign it. */
export function parseDeviceCookie(value: string, cookie: KeyRing): Device | null {
  const [, id, secret, keyId, signature] = deviceCookiePattern.exec(value) ?? [];
  if (!id || !secret || !keyId || !signature) return null;
  const key = cookie.find(keyId);
  return key && isSignature(signature, sign({ id, secret }, key)) ? { id, secret } : null;
}

/** Stores the device in the browser's cookie. */
export function writeDeviceCookie(
  jar: CookieJar,
  { origin, cookie, device }: { origin: string; cookie: KeyRing; device: Device },
): void {
  writeCookie({ jar, origin }, cookies.device, { value: deviceCookieValue(device, cookie) });
}

/** Returns the signed value of a device's cookie. */
export function deviceCookieValue(device: Device, cookie: KeyRing): string {
  const { id, key } = cookie.current;
  return [device.id, device.secret, id, sign(device, key).toString("base64url")].join(".");
}

function sign({ id, secret }: Device, key: Uint8Array): Buffer {
  return hmac(key, `${id}.${secret}`);
}

export type ApprovalContext = CookieContext & { env: Pick<Env, "SUPABASE_SECRET_KEY" | "PARENT_DOMAIN"> };

/**
 * The validity of a request's approval cookie. A `stale` cookie belongs to another session, has expired, or is not
 * ours.
 */
export type ApprovalValidity = "none" | "valid" | "stale";

/** Stores an approval in the browser, for one session and until it expires. It is not a remember-me token. */
export function writeApprovalCookie(
  context: ApprovalContext,
  { sessionId, validUntil }: { sessionId: string; validUntil: string },
): void {
  const until = Date.parse(validUntil);
  writeCookie(context, cookies.mobileApproval, {
    value: `${until}.${signatureOf(context, { sessionId, until }).toString("base64url")}`,
    maxAgeSeconds: Math.max(0, Math.floor((until - Date.now()) / 1000)),
  });
}

/** Returns whether the browser holds this session's approval. The database decides whether it is still valid. */
export function readApprovalValidity(context: ApprovalContext, sessionId: string): ApprovalValidity {
  if (context.jar.get(cookies.mobileApproval.name) === undefined) return "none";
  const value = readCookie(context, cookies.mobileApproval);
  const [, until = "", signature = ""] = /^(\d{1,15})\.([\w-]{43})$/.exec(value) ?? [];
  const genuine = isSignature(signature, signatureOf(context, { sessionId, until: Number(until) }));
  return genuine && Number(until) > Date.now() ? "valid" : "stale";
}

/** Removes the approval from the browser, including a cookie that a sibling host set for the whole domain. */
export function clearApprovalCookie(context: ApprovalContext): void {
  clearCookie(context, cookies.mobileApproval, context.env.PARENT_DOMAIN);
}

function signatureOf(
  { env }: Pick<ApprovalContext, "env">,
  { sessionId, until }: { sessionId: string; until: number },
): Buffer {
  return hmac(deriveServerKey(env, "mobile approval cookie"), `${sessionId} ${until}`);
}
