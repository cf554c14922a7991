import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { guardAttempt, outcomeOf } from "../abuse/attempts.ts";
import { type AuthFailure, generalFailure } from "../identity/auth-errors.ts";
import { startEvenTiming } from "../identity/even-timing.ts";
import type { User } from "../identity/user.ts";

export const signInAgainSchema = z.object({ password: z.string({ error: "Enter your password" }) });

/**
 * Signs the user of this request in again by password: a session of its own, in the cookie of the answer, which takes
 * the place of the one they came with once the sign-in is completed.
 * @returns what to say where that failed
 */
export async function signInAgain(
  context: AppLoadContext,
  { user, password, botChallenge }: { user: User; password: string; botChallenge: FormDataEntryValue | null },
): Promise<AuthFailure | null> {
  const { email } = user;
  const whenDue = startEvenTiming();
  const attempt = await guardAttempt(context, { action: "password", email, botChallenge });
  if (!attempt.admitted) return attempt;
  const { error } = await context.session.authClient().auth.signInWithPassword({
    email,
    password,
    options: attempt.challenge,
  });
  await attempt.settle(outcomeOf(error));
  if (!error) return null;
  await whenDue();
  return generalFailure(error) ?? { status: 400, message: "That password is not right. Try again." };
}
