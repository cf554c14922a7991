import type { AppLoadContext } from "@remix-run/node";
import type { AuthError } from "@supabase/supabase-js";
import type { AdmittedAttempt } from "../abuse/attempts.ts";
import { mapGeneralError } from "../supabase/auth-errors.ts";

/**
 * The minimum response time of a request whose timing must not reveal whether an email is known. It exceeds the slowest
 * case with a local backend: a sign-up that hashes a password and sends an email in up to 400 ms. Slower responses are
 * delayed to the next multiple, which hides smaller differences.
 */
export const answerStepMs = 750;
/** Maximum random delay added to each response, to hide timing differences of a few milliseconds. */
export const answerJitterMs = 100;

export interface Clock {
  /** Milliseconds from any fixed point. */
  now: () => number;
  sleep: (ms: number) => Promise<unknown>;
  /** From 0 up to 1. */
  random: () => number;
}

const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
  random: Math.random,
};

/**
 * Times a response that must not reveal by its speed whether an email is known. The identity backend hashes passwords
 * and sends emails only for known emails.
 * @returns a function to await before answering, which waits until the answer is due
 */
export function startEvenTiming({ now, sleep, random }: Clock = systemClock): () => Promise<void> {
  const startedMs = now();
  return async () => {
    const elapsedMs = now() - startedMs;
    const steps = Math.max(1, Math.ceil(elapsedMs / answerStepMs));
    await sleep(steps * answerStepMs + random() * answerJitterMs - elapsedMs);
  };
}

/** No account has this email, and no message reaches a name below `.invalid` (RFC 2606). */
const unknownEmail = "unknown@gatehouse.invalid";

/**
 * Handles a request to email an address that must wait for its next email. Asks the identity backend to email an
 * unknown address instead, so that the backend sends nothing but still checks the bot challenge. Without that check,
 * the response to a wrong challenge would reveal which emails are known.
 */
export async function withholdMail(
  { session }: Pick<AppLoadContext, "session">,
  { challenge }: Pick<AdmittedAttempt, "challenge">,
): Promise<{ error: AuthError | null }> {
  const { error } = await session.anonymousClient().auth.resetPasswordForEmail(unknownEmail, challenge);
  return { error: error && mapGeneralError(error) ? error : null };
}
