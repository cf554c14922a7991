import type { AppLoadContext } from "@remix-run/server-runtime";
import type { z } from "zod";
import { outcomeOf, requireAttempt } from "../abuse/attempts.ts";
import { backendError, passkeyProblem, unknownPasskey } from "./passkey-problem.ts";
import { passkeyExists } from "./passkeys.ts";
import type { finishSignInSchema } from "./payloads.ts";
import { requireRelyingParty } from "./require-relying-party.ts";

/**
 * Asks the identity backend for a challenge that any passkey of this site may answer, once, within minutes.
 * @throws Response a problem, as {@link passkeyProblem}
 */
export async function startSignIn(context: AppLoadContext, { captchaToken }: { captchaToken?: string | undefined }) {
  const attempt = await requireAttempt(context, { action: "passkey", botChallenge: captchaToken ?? null });
  const { data, error } = await context.session
    .authClient()
    .auth.passkey.startAuthentication({ options: attempt.challenge });
  // Every visit of the sign-in page asks, for autofill: nothing is tried until a passkey answers.
  await attempt.settle("void");
  if (error) throw passkeyProblem(error, context);
  requireRelyingParty(context, data.options.rpId);
  return { challengeId: data.challenge_id, options: data.options };
}

/**
 * Has a browser's answer to the challenge checked; the session that it yields is then in the request's cookies.
 * @throws Response a problem, as {@link passkeyProblem}, with `unknownPasskey: true` where no account has the passkey
 */
export async function finishSignIn(
  context: AppLoadContext,
  { challengeId, credential }: Omit<z.infer<typeof finishSignInSchema>, "returnUrl">,
): Promise<void> {
  const attempt = await requireAttempt(context, { action: "passkey" });
  const { error: given } = await context.session
    .authClient()
    .auth.passkey.verifyAuthentication({ challengeId, credential });
  const error = backendError(given);
  // A page that was open for too long is nobody's guess at a credential.
  await attempt.settle(error?.code?.startsWith("webauthn_challenge_") ? "void" : outcomeOf(error));
  if (!error) return;
  // Where nobody can say, it is taken to exist: a browser that is told otherwise forgets it.
  if (error.code === "webauthn_verification_failed" && (await passkeyExists(context.env, credential.id)) === false) {
    throw unknownPasskey(context.requestId);
  }
  throw passkeyProblem(error, context);
}
