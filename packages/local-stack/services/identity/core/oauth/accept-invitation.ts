import type { Sql } from "../../db.ts";
import { confirmUser } from "../confirm.ts";
import { AuthError, invalid } from "../errors.ts";
import { dropUnconfirmedIdentities, insertIdentity } from "../identities.ts";
import { findOneTimeToken } from "../one-time-tokens.ts";
import { getUserById, mergeMetadata, type User, updateUser } from "../users.ts";
import { identityClaims } from "./profile.ts";
import type { ExternalSignIn } from "./resolve-account.ts";

/** Returns the account of an emailed invitation, if the invitation is still valid. */
export async function findInvited(sql: Sql, token: string): Promise<string | undefined> {
  return (await findOneTimeToken(sql, token, ["confirmation_token"]))?.user_id;
}

/**
 * Accepts an invitation with an identity that has the invited email, and confirms the account.
 * @throws AuthError 404 invite_not_found; 400 validation_failed if the identity lacks the invited email
 */
export async function acceptInvitation(tx: Sql, signIn: ExternalSignIn & { token: string }): Promise<User> {
  const { deps, provider, profile, token } = signIn;
  const userId = await findInvited(tx, token);
  if (!userId) throw new AuthError(404, "invite_not_found", "Invite not found");
  const user = await getUserById(tx, { id: userId, lock: true });
  if (!profile.emails.some(({ email }) => email === user.email)) {
    throw invalid("Invited email does not match emails from external provider");
  }
  const data = identityClaims(profile);
  const identity = await insertIdentity(tx, { deps, userId, provider, data });
  const raw_user_meta_data = mergeMetadata(user.raw_user_meta_data, data);
  const updated = await updateUser(tx, { id: userId, now: deps.clock(), changes: { raw_user_meta_data } });
  // Somebody else may have created this account without owning the email, so all other identities are removed.
  return confirmUser(tx, deps, await dropUnconfirmedIdentities(tx, { user: updated, identity, now: deps.clock() }));
}
