import { type AppLoadContext, redirect } from "@remix-run/node";
import { decodeIssuedClaims } from "#shared/claims.ts";
import { logError } from "#shared/log.ts";
import { recordEvent } from "../activity/record-event.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { fitsCookie, type StoredSession } from "./cookies.ts";
import { rememberMethod } from "./last-used-method.ts";
import { isEasyToGuess } from "./password-fault.ts";
import { discardSession, tooLargeForCookie } from "./request-session.ts";
import { type NewSession, storeSignIn } from "./store-sign-in.ts";
import { mfaFactsOf, replacePasswordPath, secondStepPath } from "./user.ts";

export interface SignInCompletion {
  /** The session that the identity backend returned for the proven credential. */
  session: StoredSession;
  /** The sign-in method, as named in the security log. */
  method:
    | "password"
    | "email_code"
    | "email_link"
    | "password_reset"
    | "recovery"
    | "sign_up"
    | "passkey"
    | "qr"
    | `oauth:${string}`;
  /** Where to redirect: a path of ours, sanitized by the caller. */
  destination: string;
  /** The typed password. A person whose password is easy to guess must replace it before the destination opens. */
  password?: string;
  /** The id of this browser's session that the new session continues and replaces ({@link storeSignIn}). */
  inPlaceOf?: string;
}

/**
 * Signs this browser in with a new session. Makes the account the active one in this browser, replaces the account's
 * earlier session in this browser, and records the sign-in. The browser gets the session's cookie only if no step failed;
 * every failure ends the session.
 * @returns a redirect to the destination, or to a step that is required first
 * @throws Response 403 FORBIDDEN if the session is too large for a cookie, and what {@link storeSignIn} throws
 */
export async function completeSignIn(
  context: AppLoadContext,
  { session, method, destination, password, inPlaceOf }: SignInCompletion,
): Promise<Response> {
  if (!fitsCookie(session)) {
    await discardSession(context, session);
    throw tooLargeForCookie(context);
  }
  const claims = decodeIssuedClaims(session.access_token);
  await storeSignIn(context, { session, claims, inPlaceOf });
  const { sub: userId, session_id: sessionId, email = null } = claims;
  const [state] = await Promise.all([
    context.session.stateOf(session),
    recordEvent(context, { userId, kind: "sign_in", method, sessionId }),
  ]);
  // If the session's state is unknown, leaves the MFA check to the destination page.
  const facts = state.status === "alive" ? state.facts : null;
  const name = facts?.user.displayName ?? null;
  const mustReplacePassword =
    password !== undefined && isEasyToGuess({ password, email, name }, { product: context.env.BRAND_NAME });
  if (mustReplacePassword) await restrictToPasswordReplacement(context, { session, claims });
  context.session.store(session);
  rememberMethod(context, method);
  const next = mustReplacePassword ? replacePasswordPath(destination) : destination;
  const mfa = facts && mfaFactsOf(facts);
  return redirect(mfa && !mfa.satisfied ? secondStepPath(mfa, next) : next);
}

/**
 * Restricts a session to replacing the account's password. Ends the session if it can't be restricted.
 * @throws Response 503 AUTH_UNAVAILABLE if the session can't be restricted
 */
async function restrictToPasswordReplacement(context: AppLoadContext, { session, claims }: NewSession): Promise<void> {
  const { env, requestId } = context;
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("require_password_replacement", { subject_id: claims.sub, target_id: claims.session_id });
  if (!error) return;
  logError(`a session was not restricted to a new password: ${error.code}`, { requestId });
  await discardSession(context, session);
  throw problem("AUTH_UNAVAILABLE", { requestId });
}
