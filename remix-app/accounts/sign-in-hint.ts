import type { AppLoadContext } from "@remix-run/server-runtime";

const cookieName = "gh_sign_in_email";
const path = "/add-account";
const maxAgeSeconds = 10 * 60;

/** Remembers whose sign-in is due again; in a cookie, since an address in a URL would travel into logs. */
export function writeSignInHint({ jar, origin }: AppLoadContext, email: string): void {
  const secure = origin.startsWith("https:");
  jar.set(cookieName, email, { path, httpOnly: true, sameSite: "lax", secure, maxAge: maxAgeSeconds });
}

/** Whose sign-in is due again: the listed account that the page's address names, or the one that a switch lost. */
export function readSignInHint({ jar, session }: AppLoadContext, query: URLSearchParams): string {
  const named = session.accounts.find(({ id }) => id === query.get("account"));
  return named?.email ?? (query.has("ended") ? (jar.get(cookieName) ?? "") : "");
}
