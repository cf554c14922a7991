import type { AppLoadContext } from "@remix-run/server-runtime";
import type { AuthError } from "@supabase/supabase-js";
import type { AdmittedAttempt } from "../abuse/attempts.ts";
import { generalFailure } from "../supabase/auth-errors.ts";

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
