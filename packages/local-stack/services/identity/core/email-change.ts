import type { Sql } from "../db.ts";
import { confirmUser } from "./confirm.ts";
import type { Deps } from "./deps.ts";
import { AuthError } from "./errors.ts";
import { emailClaims, findIdentity, insertIdentity, mergeIdentityData } from "./identities.ts";
import { clearOneTimeTokens } from "./one-time-tokens.ts";
import { isUniqueViolation } from "./sign-up.ts";
import { type User, updateUser } from "./users.ts";

/**
 * Records one mailbox's confirmation of an email change.
 * @returns the account with its new email; undefined until the other mailbox has confirmed
 */
export async function confirmEmailChange(
  tx: Sql,
  { deps, user, hash }: { deps: Deps; user: User; hash: string },
): Promise<User | undefined> {
  const { GOTRUE_MAILER_AUTOCONFIRM, GOTRUE_MAILER_SECURE_EMAIL_CHANGE_ENABLED } = deps.config;
  const needsBoth = !GOTRUE_MAILER_AUTOCONFIRM && GOTRUE_MAILER_SECURE_EMAIL_CHANGE_ENABLED && !!user.email;
  if (needsBoth && user.email_change_confirm_status === 0) {
    await recordFirstHalf(tx, { deps, user, hash });
    return undefined;
  }
  return completeEmailChange(tx, { deps, user });
}

async function recordFirstHalf(tx: Sql, { deps, user, hash }: { deps: Deps; user: User; hash: string }): Promise<void> {
  const redeemed = user.email_change_token_current === hash ? "email_change_token_current" : "email_change_token_new";
  await clearOneTimeTokens(tx, user.id, redeemed);
  await updateUser(tx, {
    id: user.id,
    now: deps.clock(),
    changes: { email_change_confirm_status: 1, [redeemed]: "" },
  });
}

async function completeEmailChange(tx: Sql, { deps, user }: { deps: Deps; user: User }): Promise<User> {
  const email = user.email_change;
  const identity = await findIdentity(tx, { provider: "email", subject: user.id });
  if (identity) await mergeIdentityData(tx, identity, { email, email_verified: true });
  else await insertIdentity(tx, { deps, userId: user.id, provider: "email", data: emailClaims(user.id, email, true) });
  await clearOneTimeTokens(tx, user.id);
  try {
    const changed = await updateUser(tx, {
      id: user.id,
      now: deps.clock(),
      changes: {
        email,
        email_change: "",
        email_change_token_current: "",
        email_change_token_new: "",
        email_change_confirm_status: 0,
        is_anonymous: false,
      },
    });
    return changed.email_confirmed_at ? changed : confirmUser(tx, deps, changed);
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
  }
}
