/** Reads and sets the cookies of one request. A cookie that was set can be read back. */
export interface CookieJar {
  get(name: string): string;
  set(name: string, value: string, maxAgeSeconds: number): void;
  clear(name: string): void;
}

/** Receives each `Set-Cookie` value. */
export type CookieSink = (header: string) => void;

/**
 * Opens the jar of a request. If a cookie was sent twice, the first one counts, because browsers send the cookie with
 * the most specific path first.
 */
export function openJar(
  cookieHeader: string | null,
  { secure, sink }: { secure: boolean; sink: CookieSink },
): CookieJar {
  const held = new Map<string, string>();
  for (const pair of (cookieHeader ?? "").split(";")) {
    const at = pair.indexOf("=");
    const name = pair.slice(0, Math.max(at, 0)).trim();
    if (name && !held.has(name)) held.set(name, pair.slice(at + 1).trim());
  }
  function set(name: string, value: string, maxAgeSeconds: number): void {
    if (maxAgeSeconds > 0) held.set(name, value);
    else held.delete(name);
    sink(`${name}=${value}; Max-Age=${maxAgeSeconds}; Path=/; HttpOnly${secure ? "; Secure" : ""}; SameSite=Lax`);
  }
  return {
    get: (name) => held.get(name) ?? "",
    set,
    clear(name) {
      if (held.has(name)) set(name, "", 0);
    },
  };
}
