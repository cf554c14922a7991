import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import { recordEvent } from "../activity/record-event.ts";
import { keepSignIn } from "./keep-sign-in.ts";
import { rememberMethod } from "./last-used-method.ts";
import { requireKeptSession } from "./request-session.ts";
import { mfaFactsOf, secondStepPath } from "./second-step.ts";

export interface CompletedSignIn {
  /** By what they signed in, as the security log names it. */
  method: "password" | "email_link" | "password_reset" | "recovery" | "sign_up" | "passkey" | "qr" | `oauth:${string}`;
  /** Where they were going: a path of ours, sanitised by the caller. */
  destination: string;
  /** The session of this browser that the new one continues, where nobody has signed in anew ({@link keepSignIn}). */
  inPlaceOf?: string;
}

/**
 * What every sign-in ends with, once the backend's session is stored: it joins this browser's accounts as the
 * active one, in the place of the same account's session from before; the account's log has an entry, and the visitor
 * goes on, to the second step first where one is due.
 * @returns the redirect to answer with
 * @throws Response 403 FORBIDDEN where the session was too large for a cookie, and what {@link keepSignIn} throws
 */
export async function completeSignIn(
  context: AppLoadContext,
  { method, destination, inPlaceOf }: CompletedSignIn,
): Promise<Response> {
  const { session, claims } = requireKeptSession(context);
  await keepSignIn(context, { session, claims, inPlaceOf });
  rememberMethod(context, method);
  const { sub, session_id } = claims;
  const [state] = await Promise.all([
    context.session.issuedState(),
    recordEvent(context, { userId: sub, kind: "sign_in", method, sessionId: session_id }),
  ]);
  // Where nothing is known of it, the page that they go to finds out.
  const mfa = state.status === "alive" ? mfaFactsOf(state.facts) : null;
  return redirect(mfa && !mfa.satisfied ? secondStepPath(mfa, destination) : destination);
}
