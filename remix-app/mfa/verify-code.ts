import type { AppLoadContext } from "@remix-run/node";
import type { AuthError } from "@supabase/supabase-js";
import { guardAttempt } from "../abuse/attempts.ts";
import type { StoredSession } from "../session/cookies.ts";
import { tooLargeForCookie } from "../session/request-session.ts";
import type { User } from "../session/user.ts";
import { mapGeneralError } from "../supabase/auth-errors.ts";
import { type CodeOutcome, claimCode, releaseCode } from "./used-codes.ts";

/** The session at AAL2, or the status and the message for the form. */
export type Verification =
  | { verified: true; session: StoredSession }
  | { verified: false; status: 400 | 403 | 429 | 503; message: string };

const wrongCodeError = "mfa_verification_failed";
const wrongCode = "That code is incorrect. Codes change every 30 seconds: enter the current one.";
const usedCode = "That code was already used. Wait for your app to show the next one, then enter that.";
const unavailable = "We can’t check codes right now. Try again in a moment.";
const missingFactor = "This authenticator app was removed or its setup was restarted. Open the page again.";
const endedSession = "Your session has ended. Sign in again.";

/**
 * Verifies a code for the session of this request. If the code is right, the answer's cookie holds the session at AAL2,
 * and the user's other sessions at AAL1 end. Challenge and verification share one call, because the backend binds both
 * to one IP address. A code counts only once, regardless of who sends it.
 */
export async function verifyCode(
  context: AppLoadContext,
  { user, factorId, code }: { user: User; factorId: string; code: string },
): Promise<Verification> {
  const attempt = await guardAttempt(context, { action: "code", userId: user.id, sessionId: user.sessionId });
  if (!attempt.admitted) return refusal(attempt.status, attempt.message);
  const use = { factorId, code, sessionId: user.sessionId };
  const isClaimed = await claimCode(context, use);
  if (!isClaimed) {
    await attempt.settle(isClaimed === null ? "void" : "failed");
    return isClaimed === null ? refusal(503, unavailable) : refusal(400, usedCode);
  }
  const { error } = await context.session.sessionClient().auth.mfa.challengeAndVerify({ factorId, code });
  const outcome = error ? outcomeOf(error) : "right";
  await Promise.all([
    releaseCode(context, { ...use, outcome }),
    attempt.settle(outcome === "right" ? "succeeded" : error?.code === wrongCodeError ? "failed" : "void"),
  ]);
  if (error) return mapErrorToRefusal(error);
  // The client has stored the session that the backend rotated.
  const { stored } = context.session;
  if (!stored) throw tooLargeForCookie(context);
  return { verified: true, session: stored };
}

function outcomeOf(error: AuthError): CodeOutcome {
  const isRejection = error.status !== undefined && error.status >= 400 && error.status < 500;
  return isRejection ? "wrong" : "unknown";
}

function mapErrorToRefusal(error: AuthError): Verification {
  const failure = mapGeneralError(error);
  if (failure) return refusal(failure.status, failure.message);
  if (error.code === wrongCodeError) return refusal(400, wrongCode);
  if (error.code === "mfa_factor_not_found") return refusal(400, missingFactor);
  return error.status === 401 || error.status === 403 ? refusal(403, endedSession) : refusal(400, wrongCode);
}

function refusal(status: 400 | 403 | 429 | 503, message: string): Verification {
  return { verified: false, status, message };
}
