import { type Sql, transaction } from "../../db.ts";
import { isUuid } from "../admin-users.ts";
import { confirmUser } from "../confirm.ts";
import type { Deps } from "../deps.ts";
import { AuthError } from "../errors.ts";
import { findIdentity, insertIdentity, listIdentities, refreshProviders } from "../identities.ts";
import { clearOneTimeTokens } from "../one-time-tokens.ts";
import { sendEmailToken } from "../send-email.ts";
import { findUserByEmail, getUserById, mergeMetadata, type User, updateUser } from "../users.ts";
import { identityClaims } from "./profile.ts";
import type { ExternalSignIn } from "./resolve-account.ts";

/**
 * Adds an identity to the account that requested it.
 * @throws AuthError 422 identity_already_exists if the identity is already linked to any account, including this
 * account
 * @throws AuthError 422 email_not_confirmed if the account had no email and now has the identity's unverified email
 */
export async function linkIdentity(tx: Sql, signIn: ExternalSignIn & { userId: string }): Promise<User> {
  const { deps, provider, profile, userId, redirectTo } = signIn;
  const linked = await findIdentity(tx, { provider, subject: profile.subject });
  if (linked) {
    const owner = linked.user_id === userId ? "" : " to another user";
    throw new AuthError(422, "identity_already_exists", `Identity is already linked${owner}`);
  }
  const user = await getUserById(tx, { id: userId, lock: true });
  const data = identityClaims(profile);
  await insertIdentity(tx, { deps, userId, provider, data });
  if (user.email) return refreshProviders(tx, user, deps.clock());
  const promoted = await promoteAddress(tx, { deps, user });
  if (data.email_verified === true) {
    const confirmed = await confirmUser(tx, deps, promoted);
    const now = deps.clock();
    const permanent = await updateUser(tx, { id: userId, now, changes: { is_anonymous: false } });
    return refreshProviders(tx, { ...confirmed, ...permanent }, now);
  }
  await sendEmailToken(tx, { deps, user: promoted, type: "signup", redirectTo, pkce: false });
  throw new AuthError(
    422,
    "email_not_confirmed",
    `Unverified email with ${provider}. A confirmation email has been sent to your ${provider} email`,
    { commits: true },
  );
}

/**
 * Removes an identity from an account. If no remaining identity has the account's email, the account gets the email of
 * another identity.
 * @throws AuthError 404 validation_failed; 422 single_identity_not_deletable, identity_not_found,
 * email_conflict_identity_not_deletable
 */
export async function unlinkIdentity(deps: Deps, { user, identityId }: { user: User; identityId: string }) {
  if (!isUuid(identityId)) throw new AuthError(404, "validation_failed", "identity_id must be an UUID");
  await transaction(deps.db, async (tx) => {
    const locked = await getUserById(tx, { id: user.id, lock: true });
    const identities = await listIdentities(tx, user.id);
    if (identities.length <= 1) {
      throw new AuthError(422, "single_identity_not_deletable", "User must have at least 1 identity after unlinking");
    }
    const identity = identities.find((other) => other.id === identityId.toLowerCase());
    if (!identity) throw new AuthError(422, "identity_not_found", "Identity doesn't exist");
    await tx.query("delete from auth.identities where id = $1", [identity.id]);
    const current = await promoteAddress(tx, { deps, user: locked });
    await refreshProviders(tx, current, deps.clock());
  });
}

/** Replaces an account's email if no identity has it anymore. Prefers verified emails, then the oldest identity. */
async function promoteAddress(tx: Sql, { deps, user }: { deps: Deps; user: User }): Promise<User> {
  const identities = await listIdentities(tx, user.id);
  if (identities.some((identity) => identity.email !== null && identity.email === user.email)) return user;
  const rank = (identity: (typeof identities)[number]) => {
    if (!identity.email) return 2;
    return identity.identity_data.email_verified === true ? 0 : 1;
  };
  for (const identity of identities.toSorted((one, two) => rank(one) - rank(two))) {
    const { email } = identity;
    if (email && (await findUserByEmail(tx, { email, aud: user.aud }))) continue;
    const trusted = !!email && (rank(identity) === 0 || deps.config.GOTRUE_MAILER_AUTOCONFIRM);
    await clearOneTimeTokens(tx, user.id);
    return updateUser(tx, {
      id: user.id,
      now: deps.clock(),
      changes: {
        email,
        confirmation_token: "",
        confirmation_sent_at: null,
        recovery_token: "",
        recovery_sent_at: null,
        email_change: "",
        email_change_token_current: "",
        email_change_token_new: "",
        email_change_sent_at: null,
        email_change_confirm_status: 0,
        reauthentication_token: "",
        reauthentication_sent_at: null,
        ...(trusted
          ? {}
          : {
              email_confirmed_at: null,
              raw_user_meta_data: mergeMetadata(user.raw_user_meta_data, { email_verified: false }),
            }),
      },
    });
  }
  throw new AuthError(422, "email_conflict_identity_not_deletable", "Unable to unlink identity due to email conflict");
}
