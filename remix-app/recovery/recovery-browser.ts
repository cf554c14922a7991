import { randomBytes } from "node:crypto";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { secretHashOf } from "../session/challenge.ts";

const secretBytes = 32;
const shape = /^[\w-]{43}$/;

/**
 * Marks the browser that shows the recovery page. The mark remains until the browser has received the response to its
 * form.
 */
export function markRecoveryBrowser(context: CookieContext): void {
  const held = readCookie(context, cookies.recoveryBrowser);
  // Written at each visit, so that the mark lasts as long as the link in the most recently opened email.
  const value = shape.test(held) ? held : randomBytes(secretBytes).toString("base64url");
  writeCookie(context, cookies.recoveryBrowser, { value });
}

/** Returns the hash of the browser's mark as a bytea for the Data API, or null without a mark. */
export function recoveryBrowserHash(context: CookieContext): string | null {
  const secret = readCookie(context, cookies.recoveryBrowser);
  return shape.test(secret) ? secretHashOf(secret) : null;
}

/** Removes the mark in the response that signs in. */
export function clearRecoveryBrowser(context: CookieContext): void {
  clearCookie(context, cookies.recoveryBrowser);
}
