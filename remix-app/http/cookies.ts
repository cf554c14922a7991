import { parseCookieHeader, serializeCookieHeader } from "@supabase/ssr";

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

/** A request's cookies, and those that its answer sets. What is set is read back at once. */
export interface CookieJar {
  getAll(): Cookie[];
  get(name: string): string | undefined;
  set(name: string, value: string, attributes?: CookieAttributes): void;
  /** One `Set-Cookie` value for each cookie, the last write of each name and scope. */
  setCookieHeaders(): string[];
}

/** Opens the jar of a request. Of cookies sent twice the first counts, as browsers send the closest one first. */
export function createCookieJar(cookieHeader: string | null): CookieJar {
  const current = new Map<string, string>();
  for (const { name, value } of parseCookieHeader(cookieHeader ?? "")) {
    if (!current.has(name)) current.set(name, value);
  }
  const written = new Map<string, string>();
  return {
    getAll: () => [...current].map(([name, value]) => ({ name, value })),
    get: (name) => current.get(name),
    set(name, value, attributes = {}) {
      const { path = "/", domain } = attributes;
      if (attributes.maxAge === 0) current.delete(name);
      else current.set(name, value);
      const scope = `${name};${domain ?? ""};${path}`;
      written.delete(scope);
      written.set(scope, serializeCookieHeader(name, value, { ...attributes, path }));
    },
    setCookieHeaders: () => [...written.values()],
  };
}
