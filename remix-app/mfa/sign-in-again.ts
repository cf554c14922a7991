import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { getAttemptOutcome, guardAttempt } from "../abuse/attempts.ts";
import { type OfferedProviders, offeredProviders } from "../oauth/offered-providers.ts";
import { type StoredSession, storedSession } from "../session/cookies.ts";
import { startEvenTiming } from "../session/even-answers.ts";
import { readSignInMethods } from "../session/sign-in-methods.ts";
import type { User } from "../session/user.ts";
import { type AuthFailure, mapAuthError } from "../supabase/auth-errors.ts";

/** The ways in which the user of an account can sign in again. */
export interface ReauthenticationMethods {
  password: boolean;
  passkey: boolean;
  offered: OfferedProviders;
}

export const signInAgainSchema = z.object({ password: z.string({ error: "Enter your password." }) });

/** @throws Response 503 UNAVAILABLE */
export async function getReauthenticationMethods(
  context: AppLoadContext,
  user: User,
): Promise<ReauthenticationMethods> {
  const { password, passkeys, identities } = await readSignInMethods(context, user.id);
  const linked = new Set(identities.map(({ provider }) => provider));
  const { providers, lastUsed } = offeredProviders(context);
  return {
    password,
    passkey: passkeys > 0,
    offered: {
      providers: providers.filter(({ name }) => linked.has(name)),
      lastUsed: lastUsed !== null && linked.has(lastUsed) ? lastUsed : null,
    },
  };
}

/**
 * Signs in the user of this request again by password.
 * @returns the new session, for `completeSignIn`, or the error to show
 */
export async function signInAgain(
  context: AppLoadContext,
  { user, password, botChallenge }: { user: User; password: string; botChallenge: FormDataEntryValue | null },
): Promise<{ session: StoredSession } | AuthFailure> {
  const { email } = user;
  const whenDue = startEvenTiming();
  const attempt = await guardAttempt(context, { action: "password", email, botChallenge });
  if (!attempt.admitted) return attempt;
  const { auth } = context.session.anonymousClient();
  const { data, error } = await auth.signInWithPassword({ email, password, options: attempt.challenge });
  await attempt.settle(getAttemptOutcome(error));
  if (!error) return { session: storedSession.parse(data.session) };
  await whenDue();
  return mapAuthError(error, "That password is incorrect. Try again.");
}
