import { randomBytes } from "node:crypto";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { secretHashOf } from "../session/challenge.ts";

const secretBytes = 32;
const secretPattern = /^[\w-]{43}$/;

/** Marks the browser that shows the recovery page. The response to a successful recovery removes the mark. */
export function markRecoveryBrowser(context: CookieContext): void {
  const secret = readCookie(context, cookies.recoveryBrowser);
  // Renews the cookie at each visit, so that it lasts as long as the most recently opened link.
  const value = secretPattern.test(secret) ? secret : randomBytes(secretBytes).toString("base64url");
  writeCookie(context, cookies.recoveryBrowser, { value });
}

/**
 * Returns the hash of the secret in the recovery cookie as a bytea for the Data API, or null without a valid cookie.
 */
export function recoveryBrowserHash(context: CookieContext): string | null {
  const secret = readCookie(context, cookies.recoveryBrowser);
  return secretPattern.test(secret) ? secretHashOf(secret) : null;
}

/** Clears the recovery cookie once the recovery has signed the user in. */
export function clearRecoveryBrowser(context: CookieContext): void {
  clearCookie(context, cookies.recoveryBrowser);
}
