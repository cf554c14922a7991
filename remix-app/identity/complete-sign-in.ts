import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { recordEvent } from "../activity/record-event.ts";
import { rememberMethod } from "./last-used-method.ts";
import { requireKeptSession } from "./request-session.ts";
import { revokeSession } from "./revoke-session.ts";
import { mfaFactsOf, secondStepPath } from "./second-step.ts";

export interface CompletedSignIn {
  /** By what they signed in, as the security log names it. */
  method: "password" | "email_link" | "password_reset" | "recovery" | "sign_up" | "passkey" | "qr" | `oauth:${string}`;
  /** Where they were going: a path of ours, sanitised by the caller. */
  destination: string;
}

/**
 * What every sign-in ends with, once the backend's session is in the cookie jar: the session this browser came with is
 * ended, the account's log has an entry, and the visitor goes on, to the second step first where one is due.
 * @returns the redirect to answer with
 * @throws Response 403 FORBIDDEN where the session was too large for a cookie
 */
export async function completeSignIn(
  context: AppLoadContext,
  { method, destination }: CompletedSignIn,
): Promise<Response> {
  const { sub, session_id } = await requireKeptSession(context);
  rememberMethod(context, method);
  const [state] = await Promise.all([
    context.session.issuedState(),
    revokeSession(context),
    recordEvent(context, { userId: sub, kind: "sign_in", method, sessionId: session_id }),
  ]);
  // Where nothing is known of it, the page that they go to finds out.
  const mfa = state.status === "alive" ? mfaFactsOf(state.facts) : null;
  return redirect(mfa && !mfa.satisfied ? secondStepPath(mfa, destination) : destination);
}
