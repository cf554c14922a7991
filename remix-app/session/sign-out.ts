import type { AppLoadContext } from "@remix-run/node";
import { isAuthSessionMissingError } from "@supabase/supabase-js";
import { z } from "zod";
import { logWarning } from "#shared/log.ts";
import { recordEvent } from "../activity/record-event.ts";
import { cookies } from "../http/cookie-table.ts";
import { clearCookie } from "../http/cookies.ts";
import type { SignOutResponse } from "./account-operations.ts";
import { settleAdditions } from "./addition-cookies.ts";
import { clearApprovalCookie } from "./cookies.ts";
import { explainMissingDevice, switchAccount } from "./switch-account.ts";
import { VaultUnavailable } from "./vault.ts";

export type SignOutResult =
  | ({ status: "signed_out" } & SignOutResponse)
  | { status: "no_account" | "no_device" | "unavailable" };

const accountResult = z.discriminatedUnion("status", [
  z.object({ status: z.literal("unknown") }),
  z.object({ status: z.literal("no_account") }),
  z.object({
    status: z.literal("signed_out"),
    sessionId: z.uuid(),
    wasActive: z.boolean(),
    next: z.array(z.uuid()),
  }),
]);

const deviceResult = z.array(z.object({ userId: z.uuid(), sessionId: z.uuid() })).nullable();

/** The page that shows the remaining accounts. */
const chooser = "/accounts";

/**
 * Signs this browser out of one account: ends its session and removes its entry in one transaction. If it was the
 * active one, the most recently used account with a valid session becomes active.
 */
export async function signOutAccount(context: AppLoadContext, accountId: string): Promise<SignOutResult> {
  const { session } = context;
  const { device, auth, vault } = session;
  if (!device) return { status: explainMissingDevice(context) };
  const { id, secret } = device.device;
  const answer = await vault
    .call("sign_out_account", { args: { device_id: id, secret, target_id: accountId }, schema: accountResult })
    .catch(ignoreVaultOutage(context));
  if (answer === null) return { status: "unavailable" };
  if (answer.status === "unknown") return { status: "no_device" };
  if (answer.status === "no_account") return { status: "no_account" };
  await recordEvent(context, { userId: accountId, kind: "sign_out", sessionId: answer.sessionId });
  const active = auth.status === "authenticated" ? auth.claims.sub : null;
  if (active !== accountId && !answer.wasActive) {
    return { status: "signed_out", activeAccountId: active, redirectTo: chooser };
  }
  session.clear();
  for (const next of answer.next) {
    const outcome = await switchAccount(context, { accountId: next, leaving: null });
    if (outcome.status === "switched") {
      // The response to a sign-out expires the cookie, even if the next account has an approval.
      clearApprovalCookie(context);
      return { status: "signed_out", activeAccountId: next, redirectTo: outcome.lastRoute ?? "/" };
    }
    // Tries the next account only if this account's session has ended. After any other failure, the person chooses an
    // account.
    if (outcome.status !== "ended") break;
  }
  const redirectTo = device.view.accounts.length > 1 ? chooser : "/login";
  return { status: "signed_out", activeAccountId: null, redirectTo };
}

/**
 * Signs this browser out of all its accounts: deletes their sessions in this browser, and the browser's device record.
 * Always clears the browser's cookies.
 * @returns false if one of the sessions may still be active
 */
export async function signOutAll(context: AppLoadContext): Promise<boolean> {
  const { vault, deviceCookie: device } = context.session;
  const args = device && { device_id: device.id, secret: device.secret };
  const sessions = args
    ? await vault.call("sign_out_device", { args, schema: deviceResult }).catch(ignoreVaultOutage(context))
    : null;
  // If the vault is unreachable, the current session can be ended at the backend itself, but no other account's.
  const hasOthers = device !== null && context.session.device?.view.accounts.length !== 1;
  const isRevoked = sessions !== null || ((await revokeSession(context)) && !hasOthers);
  context.session.clear();
  for (const cookie of Object.values(cookies)) {
    if (cookie.ofAccounts) clearCookie(context, cookie, context.env.PARENT_DOMAIN);
  }
  settleAdditions({ ...context, cookie: vault.keys.cookie }, { device: null, merged: [] });
  for (const { userId, sessionId } of sessions ?? []) {
    await recordEvent(context, { userId, kind: "sign_out", sessionId });
  }
  return isRevoked;
}

function ignoreVaultOutage({ requestId }: AppLoadContext) {
  return (error: unknown): null => {
    if (!(error instanceof VaultUnavailable)) throw error;
    logWarning(`a sign-out was not finished: ${error.message}`, { requestId });
    return null;
  };
}

/**
 * The identity backend's statuses for a session that has ended. Its client may report an AuthSessionMissingError
 * instead.
 */
const endedStatuses: readonly (number | undefined)[] = [401, 403, 404];

/**
 * Ends the request's session at the identity backend, but none of the user's other sessions.
 * @returns false if the session may still be active because the backend did not answer; this is logged
 */
export async function revokeSession({ session, requestId }: AppLoadContext): Promise<boolean> {
  const { auth } = session;
  if (auth.status === "anonymous") return true;
  if (auth.status === "authenticated") {
    const { error } = await session.anonymousClient().auth.admin.signOut(auth.accessToken, "local");
    if (!error || isAuthSessionMissingError(error) || endedStatuses.includes(error.status)) return true;
  }
  logWarning("the session was not revoked: the identity backend did not answer", { requestId });
  return false;
}
