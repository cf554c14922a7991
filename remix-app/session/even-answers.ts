import type { AppLoadContext } from "@remix-run/server-runtime";
import type { AuthError } from "@supabase/supabase-js";
import type { AdmittedAttempt } from "../abuse/attempts.ts";
import { generalFailure } from "../supabase/auth-errors.ts";

/**
 * What an answer about an address takes at least, whether the address is known or not. It lies above the slowest of
 * the cases with a local backend: a new account's sign-up, which hashes a password and hands over a mail, measured at
 * up to 400 ms. Slower ones wait for the next multiple, so that a slow mail server shows as a step, not as a figure.
 */
export const answerStepMs = 750;
/** Drawn anew for each answer and added, to drown what differs by a few milliseconds after the wait. */
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
 * Starts to time an answer which must not tell by its speed whether an address is known: the identity backend hashes
 * passwords and sends mails for known addresses alone.
 * @returns to be awaited before answering: waits until the answer is due
 */
export function startEvenTiming({ now, sleep, random }: Clock = systemClock): () => Promise<void> {
  const startedMs = now();
  return async () => {
    const elapsedMs = now() - startedMs;
    const steps = Math.max(1, Math.ceil(elapsedMs / answerStepMs));
    await sleep(steps * answerStepMs + random() * answerJitterMs - elapsedMs);
  };
}

/** No account has it: no mail reaches a name below `.invalid` (RFC 2606). */
const nobody = "nobody@gatehouse.invalid";

/**
 * Answers an attempt whose mail is held back as the identity backend answers an unknown address: it judges the bot
 * challenge, limits requests, or fails. Without that, a wrong challenge would tell which addresses are known.
 */
export async function holdMailBack(
  { session }: Pick<AppLoadContext, "session">,
  { challenge }: Pick<AdmittedAttempt, "challenge">,
): Promise<{ error: AuthError | null }> {
  const { error } = await session.mailClient().auth.resetPasswordForEmail(nobody, challenge);
  return { error: error && generalFailure(error) ? error : null };
}
