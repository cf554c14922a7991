import { parseCookieHeader, serializeCookieHeader } from "@supabase/ssr";
import type { CookieDefinition } from "./cookie-table.ts";

export interface CookieAttributes {
  path?: string;
  domain?: string;
  maxAge?: number;
  httpOnly?: boolean;
  secure?: boolean;
  sameSite?: "lax" | "strict" | "none" | boolean;
}

export interface Cookie {
  name: string;
  value: string;
}

/** A request's cookies, and the cookies that its answer sets. Writes can be read back immediately. */
export interface CookieJar {
  getAll(): Cookie[];
  get(name: string): string | undefined;
  set(name: string, value: string, attributes?: CookieAttributes): void;
  /** Returns the last `Set-Cookie` value written for each name, domain and path. */
  setCookieHeaders(): string[];
}

/**
 * Creates the cookie jar of a request. If a cookie was sent twice, uses the first value, because browsers send the
 * cookie with the longest path first.
 */
export function createCookieJar(cookieHeader: string | null): CookieJar {
  const current = new Map<string, string>();
  for (const { name, value } of parseCookieHeader(cookieHeader ?? "")) {
    if (!current.has(name)) current.set(name, value);
  }
  const writes = new Map<string, string>();
  return {
    getAll: () => [...current].map(([name, value]) => ({ name, value })),
    get: (name) => current.get(name),
    set(name, value, attributes = {}) {
      const { path = "/", domain } = attributes;
      if (attributes.maxAge === 0) current.delete(name);
      else current.set(name, value);
      const scope = `${name};${domain ?? ""};${path}`;
      writes.delete(scope);
      writes.set(scope, serializeCookieHeader(name, value, { ...attributes, path }));
    },
    setCookieHeaders: () => [...writes.values()],
  };
}

/** The request's cookie jar, and our origin as the request names it. */
export interface CookieContext {
  jar: CookieJar;
  origin: string;
}

/** Reads one of our cookies; empty if the browser has none. */
export function readCookie({ jar, origin }: CookieContext, cookie: CookieDefinition): string {
  return jar.get(nameOf(cookie, origin)) ?? "";
}

const nameSuffix = /^\w+$/;

/** Returns the browser's cookies whose names are this cookie's name plus a suffix. */
export function cookiesWithPrefix({ jar, origin }: CookieContext, cookie: CookieDefinition): CookieDefinition[] {
  const start = nameOf(cookie, origin);
  return (
    jar
      .getAll()
      // Skips cookies that aren't ours. Their names may be invalid in Set-Cookie, which would fail the request.
      .filter(({ name }) => name.startsWith(start) && nameSuffix.test(name.slice(start.length)))
      .map(({ name }) => ({ ...cookie, name: cookie.name + name.slice(start.length) }))
  );
}

/** Sets one of our cookies for this host. */
export function writeCookie(
  { jar, origin }: CookieContext,
  cookie: CookieDefinition,
  { value, maxAgeSeconds = cookie.maxAgeSeconds ?? 0 }: { value: string; maxAgeSeconds?: number },
): void {
  jar.set(nameOf(cookie, origin), value, { ...attributesOf(cookie, origin), maxAge: maxAgeSeconds });
}

/**
 * Clears one of our cookies.
 * @param parentDomain also clears the cookie for this domain, where a sibling host may have set it
 */
export function clearCookie(context: CookieContext, cookie: CookieDefinition, parentDomain?: string): void {
  writeCookie(context, cookie, { value: "", maxAgeSeconds: 0 });
  const { jar, origin } = context;
  const name = nameOf(cookie, origin);
  if (!parentDomain || name.startsWith("__Host-")) return;
  jar.set(name, "", { ...attributesOf(cookie, origin), maxAge: 0, domain: parentDomain });
}

function nameOf({ name, prefix }: CookieDefinition, origin: string): string {
  return prefix && isSecure(origin) ? `${prefix}${name}` : name;
}

function attributesOf({ path, sameSite }: CookieDefinition, origin: string): CookieAttributes {
  return { path, httpOnly: true, sameSite: sameSite ?? "lax", secure: isSecure(origin) };
}

function isSecure(origin: string): boolean {
  return origin.startsWith("https:");
}
