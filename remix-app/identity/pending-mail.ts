import type { CookieJar } from "../http/cookies.ts";

const cookieName = "gh_pending_mail";
const maxAgeSeconds = 60 * 60;
const path = "/signup";

/** The address that a confirmation was sent to; kept in a cookie, since an address in a URL would travel into logs. */
export function readPendingMail(jar: CookieJar): string | null {
  const value = jar.get(cookieName);
  return value === undefined || value === "" ? null : value;
}

/** Remembers the address for the page that says "check your mail", for an hour. */
export function writePendingMail(jar: CookieJar, email: string, { secure }: { secure: boolean }): void {
  jar.set(cookieName, email, { path, httpOnly: true, sameSite: "lax", secure, maxAge: maxAgeSeconds });
}
