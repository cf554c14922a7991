import { combineChunks, createChunks, isChunkLike, stringToBase64URL } from "@supabase/ssr";
import { z } from "zod";
import type { CookieAttributes, CookieJar } from "../http/cookies.ts";

/** The part of a session that the browser's cookie holds: tokens only, in the shape that auth-js stores. */
export const storedSession = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1),
  expires_at: z.number(),
  expires_in: z.number(),
  token_type: z.literal("bearer"),
});

export type StoredSession = z.infer<typeof storedSession>;

/** How the canonical auth cookie of this project is named and scoped for one request. */
export interface SessionCookieScope {
  name: string;
  /** Present only where the request's host lies under the parent domain. */
  domain?: string;
  secure: boolean;
}

const encodingPrefix = "base64-";
const encoded = /^base64-([\w-]+)$/;
/** All cookies of ours together stay below 8 KB. */
export const maxSessionCookieBytes = 6 * 1024;
/** 400 days, the longest that browsers keep a cookie; the session itself ends at the identity backend. */
const maxAgeSeconds = 400 * 24 * 60 * 60;

/**
 * The canonical cookie's scope: one name per project; Domain only where the host is the parent domain or lies under it,
 * else host-only; Secure on https.
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

/** The cookie's attributes, as @supabase/ssr takes them too. */
export function sessionCookieAttributes({ domain, secure }: SessionCookieScope): CookieAttributes {
  return { path: "/", httpOnly: true, sameSite: "lax", secure, maxAge: maxAgeSeconds, ...(domain ? { domain } : {}) };
}

/** What a request's cookies were read as, as long as they are the same. */
const readings = new WeakMap<CookieJar, { value: string; session: StoredSession | null }>();

/** Reads the session from the request's cookies. Null where there is none, or it is not whole. */
export async function readSessionCookie(jar: CookieJar, { name }: SessionCookieScope): Promise<StoredSession | null> {
  const value = (await combineChunks(name, (chunk) => jar.get(chunk))) ?? "";
  const known = readings.get(jar);
  if (known?.value === value) return known.session;
  const session = sessionOf(value);
  readings.set(jar, { value, session });
  return session;
}

function sessionOf(value: string): StoredSession | null {
  const [, text] = encoded.exec(value) ?? [];
  if (text === undefined) return null;
  try {
    // Node's own decoder: the one of @supabase/ssr goes from character to character, which is the cost of a small page.
    return storedSession.parse(JSON.parse(Buffer.from(text, "base64url").toString("utf8")));
  } catch {
    return null;
  }
}

/** Whether the request brought any part of the auth cookie. */
export function hasSessionCookie(jar: CookieJar, { name }: SessionCookieScope): boolean {
  return jar.getAll().some((cookie) => isChunkLike(cookie.name, name));
}

/**
 * Writes the session, and expires what an earlier, longer or host-only one left behind. One that is too large is not
 * written at all: its user's own metadata is part of the token, and servers refuse requests with headers of that size.
 */
export function writeSessionCookie(jar: CookieJar, scope: SessionCookieScope, session: StoredSession): void {
  const value = encodingPrefix + stringToBase64URL(JSON.stringify(session));
  if (value.length > maxSessionCookieBytes) {
    clearSessionCookie(jar, scope);
    return;
  }
  const chunks = createChunks(scope.name, value);
  const written = new Set(chunks.map((chunk) => chunk.name));
  for (const name of staleNames(jar, scope)) {
    if (!written.has(name)) expire(jar, scope, name);
    else if (scope.domain)
      jar.set(name, "", { ...sessionCookieAttributes({ ...scope, domain: undefined }), maxAge: 0 });
  }
  for (const chunk of chunks) jar.set(chunk.name, chunk.value, sessionCookieAttributes(scope));
}

/** Expires every part of the auth cookie, host-only and by domain. */
export function clearSessionCookie(jar: CookieJar, scope: SessionCookieScope): void {
  for (const name of new Set([scope.name, ...staleNames(jar, scope)])) expire(jar, scope, name);
}

/** The auth cookie's parts, and the code verifiers that hang on its name. */
function staleNames(jar: CookieJar, { name }: SessionCookieScope): string[] {
  return jar
    .getAll()
    .map((cookie) => cookie.name)
    .filter((candidate) => isChunkLike(candidate, name));
}

function expire(jar: CookieJar, scope: SessionCookieScope, name: string): void {
  jar.set(name, "", { ...sessionCookieAttributes({ ...scope, domain: undefined }), maxAge: 0 });
  if (scope.domain) jar.set(name, "", { ...sessionCookieAttributes(scope), maxAge: 0 });
}
