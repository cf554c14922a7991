import { createHmac, timingSafeEqual } from "node:crypto";
import type { Env } from "../env.server.ts";
import type { CookieAttributes, CookieJar } from "../http/cookies.ts";
import { derivedKey } from "../keys/derived-key.ts";

/** It is no remember-me token: it counts beside the one session that it was made for. */
const cookieName = "ttr_mfa_mobile_approval";

type CookieContext = { env: Pick<Env, "SUPABASE_SECRET_KEY" | "PARENT_DOMAIN">; jar: CookieJar; origin: string };

/** What the cookie of a request is worth. `stale`: it is another session's, too old or no cookie of ours. */
export type HeldApproval = "none" | "held" | "stale";

/** Puts an approval into the browser, for one session and until it is over. */
export function writeApprovalCookie(
  context: CookieContext,
  { sessionId, validUntil }: { sessionId: string; validUntil: string },
): void {
  const until = Date.parse(validUntil);
  const maxAge = Math.max(0, Math.floor((until - Date.now()) / 1000));
  const value = `${until}.${signatureOf(context.env, { sessionId, until }).toString("base64url")}`;
  context.jar.set(cookieName, value, { ...attributesOf(context), maxAge });
}

/** Whether the browser holds the approval of this session. Whether that still counts is the database's to say. */
export function heldApproval({ env, jar }: CookieContext, sessionId: string): HeldApproval {
  const value = jar.get(cookieName);
  if (value === undefined) return "none";
  const [, until = "", signature = ""] = /^(\d{1,15})\.([\w-]{43})$/.exec(value) ?? [];
  const expected = signatureOf(env, { sessionId, until: Number(until) });
  const given = Buffer.from(signature, "base64url");
  const genuine = given.length === expected.length && timingSafeEqual(given, expected);
  return genuine && Number(until) > Date.now() ? "held" : "stale";
}

/** Takes it from the browser, and what a sibling may have set for the whole domain. */
export function clearApprovalCookie(context: CookieContext): void {
  const attributes = attributesOf(context);
  context.jar.set(cookieName, "", { ...attributes, maxAge: 0 });
  const domain = context.env.PARENT_DOMAIN;
  if (domain) context.jar.set(cookieName, "", { ...attributes, domain, maxAge: 0 });
}

function attributesOf({ origin }: CookieContext): CookieAttributes {
  return { path: "/", httpOnly: true, sameSite: "lax", secure: origin.startsWith("https:") };
}

function signatureOf(
  env: Pick<Env, "SUPABASE_SECRET_KEY">,
  { sessionId, until }: { sessionId: string; until: number },
): Buffer {
  return createHmac("sha256", derivedKey(env, "mobile approval cookie")).update(`${sessionId} ${until}`).digest();
}
