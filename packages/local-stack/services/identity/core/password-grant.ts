import { transaction } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { AuthError, invalid } from "./errors.ts";
import { passwordHook } from "./hooks.ts";
import { passwordMatches, passwordWeakness } from "./passwords.ts";
import { type SignedIn, signIn } from "./tokens.ts";
import { findUserByEmail, isBanned } from "./users.ts";

function wrongCredentials(): AuthError {
  return new AuthError(400, "invalid_credentials", "Invalid login credentials");
}

/**
 * Signs in with email and password. A correct but weak password still signs in, with a warning in the response.
 * @throws AuthError 400 invalid_credentials, user_banned, email_not_confirmed; 422 email_provider_disabled
 */
export async function signInWithPassword(
  deps: Deps,
  { email, password, aud, caller }: { email: string; password: string; aud: string; caller: Caller },
): Promise<SignedIn> {
  if (!email) throw invalid("missing email or phone");
  if (!deps.config.GOTRUE_EXTERNAL_EMAIL_ENABLED) {
    throw new AuthError(422, "email_provider_disabled", "Email logins are disabled");
  }
  const user = await findUserByEmail(deps.db, { email, aud });
  if (!user?.encrypted_password) throw wrongCredentials();
  if (isBanned(user, deps.clock())) throw new AuthError(400, "user_banned", "User is banned");
  const valid = await passwordMatches(password, user.encrypted_password);
  await passwordHook(deps, { userId: user.id, valid, caller });
  if (!valid) throw wrongCredentials();
  if (!user.email_confirmed_at) throw new AuthError(400, "email_not_confirmed", "Email not confirmed");
  const signedIn = await transaction(deps.db, (tx) => signIn(tx, { deps, user, method: "password", caller }));
  return { ...signedIn, body: { ...signedIn.body, weak_password: weaknessOf(password, deps) } };
}

function weaknessOf(password: string, { config }: Deps): { message: string; reasons: string[] } | null {
  // bcrypt ignores everything after the first 72 bytes, so a longer password can be correct. The strength check would
  // throw for such a password.
  if (Buffer.byteLength(password) > 72) return null;
  const weakness = passwordWeakness(password, config);
  return weakness ? { message: weakness.message, reasons: weakness.reasons ?? [] } : null;
}
