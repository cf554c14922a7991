import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { logError } from "#shared/log.ts";
import { type AdmittedAttempt, formatWait, getAttemptOutcome, guardAttempt } from "../abuse/attempts.ts";
import { recordEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import { type AuthFailure, mapGeneralError } from "../supabase/auth-errors.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { emailSchema } from "./credentials.ts";
import type { MailedLink } from "./mailed-link.ts";
import { takeMintLease } from "./mint-session.ts";
import { discardSession } from "./request-session.ts";
import type { User } from "./user.ts";

/**
 * How long a link waits while another link of its account is being redeemed, and the pause between two tries, in
 * milliseconds.
 */
const maxWaitMs = 5_000;
const retryMs = 100;
const pause = () => new Promise((resolve) => setTimeout(resolve, retryMs));
const busy = "We can’t open this link right now. Nothing has changed. Try again in a moment.";

export const changeEmailSchema = z.object({ email: emailSchema });

const pendingChange = z.object({
  /** Null if the account has no email yet. Then only the new mailbox has to confirm. */
  email: z.string().nullable(),
  newEmail: z.string(),
  sentAt: z.string(),
  /** The mailbox that has already confirmed the change. Null if neither has. */
  agreed: z.enum(["current", "new"]).nullable(),
});
const linkedChange = pendingChange.extend({ userId: z.uuid(), mailbox: z.enum(["current", "new"]) });

/** An email change that one or both mailboxes still have to confirm. */
export type PendingEmailChange = z.infer<typeof pendingChange>;

/** A {@link PendingEmailChange} found by the link from one of its emails. */
export type LinkedEmailChange = z.infer<typeof linkedChange>;

export type EmailChangeAnswer =
  | { status: "sent" }
  | { status: "refused"; httpStatus: AuthFailure["status"]; formErrors?: string[]; fieldErrors?: { email: string[] } };

/**
 * Returns an account's pending change, or null.
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function pendingEmailChange(context: AppLoadContext, userId: string): Promise<PendingEmailChange | null> {
  return pendingChange.nullable().parse(await callDatabase(context, "pending_email_change", { subject_id: userId }));
}

/**
 * Returns the change that an emailed link would confirm, or null if the link was used, was replaced or is not ours.
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function emailChangeOfLink(context: AppLoadContext, tokenHash: string): Promise<LinkedEmailChange | null> {
  return linkedChange.nullable().parse(await callDatabase(context, "email_change_of_link", { token_hash: tokenHash }));
}

const foundLink = z.object({ email: z.string().nullable(), change: linkedChange.nullable() });

/**
 * Returns the email of the account that a mailed link would sign in to, or the change that it would confirm. Returns null
 * if the link was used or replaced. Completes the attempt at the link, and does not use the link up.
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function findMailedLink(
  context: AppLoadContext,
  { link, attempt }: { link: MailedLink; attempt: AdmittedAttempt },
): Promise<z.infer<typeof foundLink> | null> {
  const values = { token_hash: link.token_hash, link_type: link.type, attempt_id: attempt.id };
  return foundLink.nullable().parse(await callDatabase(context, "find_mailed_link", values));
}

/** Requests emails to both mailboxes from the identity backend. Each mailbox has to confirm. */
export async function requestEmailChange(
  context: AppLoadContext,
  { user, email }: { user: User; email: string },
): Promise<EmailChangeAnswer> {
  if (email.toLowerCase() === user.email.toLowerCase()) {
    return { status: "refused", httpStatus: 400, fieldErrors: { email: ["This is already your email."] } };
  }
  const attempt = await guardAttempt(context, { action: "credential", mail: "email_change_mail", userId: user.id });
  if (!attempt.admitted) return { status: "refused", httpStatus: attempt.status, formErrors: [attempt.message] };
  if (attempt.mailWaitSeconds !== null) {
    await attempt.settle("succeeded");
    context.retryAfter(attempt.mailWaitSeconds);
    return { status: "refused", httpStatus: 429, formErrors: [waitMessage(attempt.mailWaitSeconds)] };
  }
  const { stored } = context.session;
  if (!stored) throw problem("UNAUTHENTICATED", { requestId: context.requestId });
  // This client sends no PKCE challenge, so no verifier stays in the browser.
  const { auth } = context.session.anonymousClient();
  const sessionResponse = await auth.setSession(stored);
  const { error } = sessionResponse.error
    ? sessionResponse
    : await auth.updateUser({ email }, { emailRedirectTo: `${context.origin}/settings/profile` });
  const failure = error && mapGeneralError(error);
  await attempt.settle(failure ? "void" : "succeeded");
  if (!error) {
    await recordEvent(context, { userId: user.id, kind: "email_change_requested", details: { to: email } });
    return { status: "sent" };
  }
  if (error.code === "over_email_send_rate_limit") {
    return { status: "refused", httpStatus: 429, formErrors: ["We just sent an email. Try again later."] };
  }
  if (failure) return { status: "refused", httpStatus: failure.status, formErrors: [failure.message] };
  if (error.code === "insufficient_aal") {
    const message = "This needs a code from your authenticator app. Sign out, sign in with a code, and try again.";
    return { status: "refused", httpStatus: 403, formErrors: [message] };
  }
  return {
    status: "refused",
    httpStatus: 400,
    fieldErrors: { email: ["This email can’t be used. Choose another one."] },
  };
}

function waitMessage(seconds: number): string {
  return `We just sent links. You can request new ones in ${formatWait(seconds)}.`;
}

/**
 * Resends both emails. The links in the earlier emails stop working, and both mailboxes have to confirm again.
 * @returns null if no change is pending
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function resendEmailChange(
  context: AppLoadContext,
  { user }: { user: User },
): Promise<EmailChangeAnswer | null> {
  // Requests the same change again, because the backend's own call for resending requires a bot challenge.
  const change = await pendingEmailChange(context, user.id);
  return change && requestEmailChange(context, { user, email: change.newEmail });
}

/**
 * Cancels a pending change. Both links stop working.
 * @returns false if there was none
 * @throws Response 503 UNAVAILABLE if the database did not answer
 */
export async function cancelEmailChange(context: AppLoadContext, { user }: { user: User }): Promise<boolean> {
  return z.boolean().parse(await callDatabase(context, "cancel_email_change", { subject_id: user.id }));
}

export type ConfirmedEmailChange =
  /** One mailbox has confirmed, and the other has not yet. */
  | { status: "half"; change: LinkedEmailChange }
  | { status: "changed"; change: LinkedEmailChange }
  | { status: "void" }
  | { status: "refused"; httpStatus: AuthFailure["status"]; message: string };

/**
 * Confirms a change of email for one mailbox. Signs no one in: opening the email does not change the session in this
 * browser. Once the change is complete, notifies the owner at the old and the new address.
 */
export async function confirmEmailChange(
  context: AppLoadContext,
  { tokenHash }: { tokenHash: string },
): Promise<ConfirmedEmailChange> {
  const attempt = await guardAttempt(context, { action: "code" });
  if (!attempt.admitted) return { status: "refused", httpStatus: attempt.status, message: attempt.message };
  const { auth } = context.session.anonymousClient();
  const redeemed = await redeemExclusively(context, tokenHash, () =>
    auth.verifyOtp({ token_hash: tokenHash, type: "email_change" }),
  );
  if (!redeemed) {
    await attempt.settle("void");
    return { status: "refused", httpStatus: 503, message: busy };
  }
  const { change, answer } = redeemed;
  const { data, error } = answer;
  await attempt.settle(getAttemptOutcome(error));
  if (error) {
    const failure = mapGeneralError(error);
    return failure ? { status: "refused", httpStatus: failure.status, message: failure.message } : { status: "void" };
  }
  // The backend accepted the link, but the database found no pending change for it.
  if (!change) return { status: "void" };
  if (!data.session) return { status: "half", change };
  await discardSession(context, data.session);
  const { userId, email, newEmail } = change;
  await recordEvent(context, {
    userId,
    kind: "email_changed",
    details: email === null ? { to: newEmail } : { from: email, to: newEmail },
  });
  return { status: "changed", change };
}

/**
 * Redeems a link while no other link of its account is being redeemed. If both links of a change were redeemed at the
 * same time, the backend would treat each as the first confirmation and invalidate both. An account without an email
 * has only one link.
 * @returns the change that the link confirms, if any, and the backend's answer; null if no lease was available in time
 */
async function redeemExclusively<Answer>(context: AppLoadContext, tokenHash: string, redeem: () => Promise<Answer>) {
  for (const deadline = Date.now() + maxWaitMs; Date.now() < deadline; await pause()) {
    const change = await emailChangeOfLink(context, tokenHash);
    if (!change || change.email === null) return { change, answer: await redeem() };
    const lease = await takeMintLease(context, change.userId);
    if (typeof lease === "string") continue;
    try {
      // The link may have been used before we acquired the lease.
      return { change: await emailChangeOfLink(context, tokenHash), answer: await redeem() };
    } finally {
      await lease.release();
    }
  }
  return null;
}

async function callDatabase(
  { env, requestId }: AppLoadContext,
  name: string,
  values: Record<string, string>,
): Promise<unknown> {
  const { data, error } = await createServiceClient(env).schema("private").rpc(name, values);
  if (!error) return data;
  logError(`the change of address could not be reached: ${error.code}`, { requestId });
  throw problem("UNAVAILABLE", { requestId });
}
