import type { Env } from "../config/env.server.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { derivedKey, hmac, isSignature } from "../keys/derived-key.ts";

type ApprovalContext = CookieContext & { env: Pick<Env, "SUPABASE_SECRET_KEY" | "PARENT_DOMAIN"> };

/** What the cookie of a request is worth. `stale`: it is another session's, too old or no cookie of ours. */
export type HeldApproval = "none" | "held" | "stale";

/** Puts an approval into the browser, for one session and until it ends. It is not a remember-me token. */
export function writeApprovalCookie(
  context: ApprovalContext,
  { sessionId, validUntil }: { sessionId: string; validUntil: string },
): void {
  const until = Date.parse(validUntil);
  writeCookie(context, cookies.mobileApproval, {
    value: `${until}.${signatureOf(context, { sessionId, until }).toString("base64url")}`,
    maxAgeSeconds: Math.max(0, Math.floor((until - Date.now()) / 1000)),
  });
}

/** Whether the browser holds the approval of this session. The database decides whether that still counts. */
export function heldApproval(context: ApprovalContext, sessionId: string): HeldApproval {
  if (context.jar.get(cookies.mobileApproval.name) === undefined) return "none";
  const value = readCookie(context, cookies.mobileApproval);
  const [, until = "", signature = ""] = /^(\d{1,15})\.([\w-]{43})$/.exec(value) ?? [];
  const genuine = isSignature(signature, signatureOf(context, { sessionId, until: Number(until) }));
  return genuine && Number(until) > Date.now() ? "held" : "stale";
}

/** Removes it from the browser, and what a sibling may have set for the whole domain. */
export function clearApprovalCookie(context: ApprovalContext): void {
  clearCookie(context, cookies.mobileApproval, context.env.PARENT_DOMAIN);
}

function signatureOf(
  { env }: Pick<ApprovalContext, "env">,
  { sessionId, until }: { sessionId: string; until: number },
): Buffer {
  return hmac(derivedKey(env, "mobile approval cookie"), `${sessionId} ${until}`);
}
