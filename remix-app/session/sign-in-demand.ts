import type { Env } from "../config/env.server.ts";
import { deriveServerKey, hmac, isSignature } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";

type DemandContext = CookieContext & { env: Pick<Env, "SUPABASE_SECRET_KEY"> };

/**
 * Records in this browser that a page requires a sign-in or step-up made at or after a given second, for example
 * because an app asked for a new sign-in. The record's signature covers the page, so the record is invalid for any
 * other URL.
 * @param page a path of ours, with its query
 */
export function demandSignIn(context: DemandContext, { page, since }: { page: string; since: number }): void {
  const signature = signatureOf(context, { page, since }).toString("base64url");
  writeCookie(context, cookies.signInDemand, { value: `${since}.${signature}` });
}

/**
 * Returns the earliest time, in Unix seconds, of a sign-in that the page accepts. Returns null unless this browser
 * holds a demand for the page that is less than ten minutes old.
 */
export function readSignInDemand(context: DemandContext, page: string): number | null {
  const [since = "", signature = ""] = readCookie(context, cookies.signInDemand).split(".");
  const second = Number(since);
  if (!Number.isSafeInteger(second)) return null;
  if (!isSignature(signature, signatureOf(context, { page, since: second }))) return null;
  const isCurrent = second > Date.now() / 1_000 - (cookies.signInDemand.maxAgeSeconds ?? 0);
  return isCurrent ? second : null;
}

/** Removes a satisfied demand, so that the same URL starts a new one. */
export function forgetSignInDemand(context: DemandContext): void {
  clearCookie(context, cookies.signInDemand);
}

function signatureOf({ env, origin }: DemandContext, { page, since }: { page: string; since: number }): Buffer {
  // Signs the query in canonical form, because Remix re-encodes the query of a URL.
  const { pathname, searchParams } = new URL(page, origin);
  return hmac(deriveServerKey(env, "sign-in demand"), `${since} ${pathname}?${searchParams}`);
}
