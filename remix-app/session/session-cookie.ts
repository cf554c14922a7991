import { combineChunks, createChunks, isChunkLike, stringToBase64URL } from "@supabase/ssr";
import { z } from "zod";
import { cookies } from "../http/cookie-table.ts";
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
  const [, text] = encoded.exec((await combineChunks(name, (chunk) => jar.get(chunk))) ?? "") ?? [];
  if (text === undefined) return null;
  try {
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
 * Writes the session and expires what an earlier, longer or host-only one left behind. A session that is too large is
 * cleared instead: the token contains its user's own metadata, and servers refuse requests with headers of that size.
 * @returns what the browser holds then
 */
export function writeSessionCookie(
  jar: CookieJar,
  scope: SessionCookieScope,
  session: StoredSession,
): StoredSession | null {
  const value = encodingPrefix + stringToBase64URL(JSON.stringify(session));
  if (value.length > maxSessionCookieBytes) {
    clearSessionCookie(jar, scope);
    return null;
  }
  const chunks = createChunks(scope.name, value);
  const written = new Set(chunks.map((chunk) => chunk.name));
  for (const name of staleNames(jar, scope)) {
    if (!written.has(name)) expire(jar, scope, name);
    else if (scope.domain)
      jar.set(name, "", { ...sessionCookieAttributes({ ...scope, domain: undefined }), maxAge: 0 });
  }
  for (const chunk of chunks) jar.set(chunk.name, chunk.value, sessionCookieAttributes(scope));
  return session;
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
