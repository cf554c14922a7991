import type { AppLoadContext } from "@remix-run/node";
import type { z } from "zod";
import { getAttemptOutcome, requireAttempt } from "../abuse/attempts.ts";
import { type StoredSession, storedSession } from "../session/cookies.ts";
import { createUnknownPasskeyProblem, passkeyProblem, requireBackendError } from "./passkey-problem.ts";
import { passkeyExists } from "./passkeys.ts";
import type { finishSignInSchema } from "./payloads.ts";
import { requireRelyingParty } from "./require-relying-party.ts";

/**
 * Requests a sign-in challenge from the identity backend. Any passkey of this site may answer it once, within minutes.
 * @throws Response a problem, see {@link passkeyProblem}
 */
export async function startSignIn(context: AppLoadContext, { captchaToken }: { captchaToken?: string | undefined }) {
  const attempt = await requireAttempt(context, { action: "passkey", botChallenge: captchaToken ?? null });
  const { data, error } = await context.session
    .anonymousClient()
    .auth.passkey.startAuthentication({ options: attempt.challenge });
  // Every visit of the sign-in page requests a challenge for autofill, so this does not count as an attempt.
  await attempt.settle("void");
  if (error) throw passkeyProblem(error, context);
  requireRelyingParty(context, data.options.rpId);
  return { challengeId: data.challenge_id, options: data.options };
}

/**
 * Verifies the browser's answer to a challenge through the identity backend.
 * @returns the new session, for `completeSignIn`
 * @throws Response a problem, see {@link passkeyProblem}, with `unknownPasskey: true` if no account has the passkey
 */
export async function finishSignIn(
  context: AppLoadContext,
  { challengeId, credential }: Omit<z.infer<typeof finishSignInSchema>, "returnUrl">,
): Promise<StoredSession> {
  const attempt = await requireAttempt(context, { action: "passkey" });
  const response = await context.session
    .anonymousClient()
    .auth.passkey.verifyAuthentication({ challengeId, credential });
  const error = requireBackendError(response.error);
  // An expired challenge is not a guess at a credential.
  await attempt.settle(error?.code?.startsWith("webauthn_challenge_") ? "void" : getAttemptOutcome(error));
  if (!error) return storedSession.parse(response.data?.session);
  // If the lookup fails, the passkey counts as existing, because the browser would forget an unknown passkey.
  if (error.code === "webauthn_verification_failed" && (await passkeyExists(context.env, credential.id)) === false) {
    throw createUnknownPasskeyProblem(context.requestId);
  }
  throw passkeyProblem(error, context);
}
