import type { Sql } from "../../db.ts";
import { confirmUser } from "../confirm.ts";
import type { Deps } from "../deps.ts";
import { AuthError, unexpected } from "../errors.ts";
import {
  dropUnconfirmedIdentities,
  findIdentity,
  type Identity,
  insertIdentity,
  refreshProviders,
} from "../identities.ts";
import { sendEmailToken } from "../send-email.ts";
import { createUser, findEmailOwner, isUniqueViolation } from "../sign-up.ts";
import { getUserById, isBanned, many, mergeMetadata, type User, updateUser } from "../users.ts";
import { identityClaims, type Profile } from "./profile.ts";

export type ExternalSignIn = {
  deps: Deps;
  provider: string;
  profile: Profile;
  aud: string;
  emailOptional: boolean;
  redirectTo: string;
};

type Resolved = { user: User; identity: Identity; email: { address: string; verified: boolean } };

/**
 * Returns the account of an external sign-in. This is the account that has the identity, otherwise the account with one
 * of the profile's verified emails, otherwise a new account. An unverified email never leads to an existing account.
 * @throws AuthError 403 user_banned; 422 signup_disabled, provider_email_needs_verification (after a confirmation email
 * is sent)
 */
export async function resolveAccount(tx: Sql, signIn: ExternalSignIn): Promise<User> {
  const { deps, provider, emailOptional } = signIn;
  const { user, identity, email } = await findOrCreate(tx, signIn);
  if (isBanned(user, deps.clock())) throw new AuthError(403, "user_banned", "User is banned");
  const withoutEmail = emailOptional && email.address === "";
  if (user.email_confirmed_at || withoutEmail) return user;
  // The creator of this account has not proven ownership of its email, so only the current identity stays.
  const updatedUser = await dropUnconfirmedIdentities(tx, { user, identity, now: deps.clock() });
  if (email.verified || deps.config.GOTRUE_MAILER_AUTOCONFIRM) return confirmUser(tx, deps, updatedUser);
  if (email.address) {
    await sendEmailToken(tx, { deps, user: updatedUser, type: "signup", redirectTo: signIn.redirectTo, pkce: false });
  }
  if (deps.config.GOTRUE_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS) return getUserById(tx, { id: user.id });
  throw new AuthError(
    422,
    "provider_email_needs_verification",
    email.address
      ? `Unverified email with ${provider}. A confirmation email has been sent to your ${provider} email`
      : `Unverified email with ${provider}. Verify the email with ${provider} in order to sign in`,
    { commits: true },
  );
}

async function findOrCreate(tx: Sql, signIn: ExternalSignIn): Promise<Resolved> {
  const { deps, provider, profile } = signIn;
  const primary = profile.emails.find((entry) => entry.primary);
  const verified = primary?.verified ?? false;
  const known = await findIdentity(tx, { provider, subject: profile.subject });
  if (known) {
    const user = await getUserById(tx, { id: known.user_id, lock: true });
    const identity = await refreshIdentity(tx, { deps, identity: known, profile });
    const updated = await mergeClaims(tx, { deps, user, profile });
    return { user: updated, identity, email: { address: user.email ?? "", verified } };
  }
  const email = { address: primary?.email.toLowerCase() ?? "", verified };
  const owner = await findLinkable(tx, signIn);
  if (owner) {
    const user = await getUserById(tx, { id: owner, lock: true });
    const identity = await insertIdentity(tx, { deps, userId: user.id, provider, data: identityClaims(profile) });
    return { user: await mergeClaims(tx, { deps, user, profile }), identity, email };
  }
  return createAccount(tx, { ...signIn, email });
}

function trustedAddresses({ deps, profile }: ExternalSignIn): string[] {
  return profile.emails
    .filter((entry) => entry.verified || deps.config.GOTRUE_MAILER_AUTOCONFIRM)
    .map((entry) => entry.email.toLowerCase());
}

/** Returns the account that has one of the profile's verified emails. @throws AuthError 500 if there are several */
async function findLinkable(tx: Sql, signIn: ExternalSignIn): Promise<string | undefined> {
  const trusted = trustedAddresses(signIn);
  if (trusted.length === 0) return undefined;
  const byIdentity = await many<{ id: string }>(
    tx,
    "select distinct user_id as id from auth.identities where email = any($1) and provider not like 'sso:%'",
    [trusted],
  );
  const byAccount = await many<{ id: string }>(
    tx,
    "select id from auth.users where email = any($1) and not is_sso_user",
    [trusted],
  );
  const candidates = byIdentity.length > 0 ? byIdentity : byAccount;
  if (candidates.length > 1) {
    throw unexpected("Multiple accounts with the same email address in the same linking domain detected: default");
  }
  return candidates[0]?.id;
}

async function createAccount(
  tx: Sql,
  signIn: ExternalSignIn & { email: { address: string; verified: boolean } },
): Promise<Resolved> {
  const { deps, provider, profile, aud, email } = signIn;
  if (deps.config.GOTRUE_DISABLE_SIGNUP) {
    throw new AuthError(422, "signup_disabled", "Signups not allowed for this instance");
  }
  // An email that belongs to an account is never given to a second account, not even unconfirmed. If the email is taken
  // and the profile has no verified email, the new account gets no email. If the email is taken and the profile has a
  // verified email, the insert fails.
  const isTaken = email.address !== "" && !!(await findEmailOwner(tx, { email: email.address, aud }));
  const address = isTaken && trustedAddresses(signIn).length === 0 ? "" : email.address;
  const claims = identityClaims(profile);
  const created = await createUser(tx, {
    deps,
    email: address || null,
    aud,
    passwordHash: "",
    provider,
    userMetadata: claims,
  }).catch((error: unknown) => {
    throw isUniqueViolation(error) ? unexpected("Database error saving new user", error) : error;
  });
  const identity = await insertIdentity(tx, { deps, userId: created.id, provider, data: claims });
  const user = await getUserById(tx, { id: created.id, lock: true });
  return { user, identity, email: { address, verified: email.verified } };
}

async function refreshIdentity(
  tx: Sql,
  { deps, identity, profile }: { deps: Deps; identity: Identity; profile: Profile },
): Promise<Identity> {
  const data = identityClaims(profile);
  const now = deps.clock();
  await tx.query("update auth.identities set identity_data = $2, last_sign_in_at = $3, updated_at = $3 where id = $1", [
    identity.id,
    typeof data.email === "string" ? { ...data, email: data.email.toLowerCase() } : data,
    now,
  ]);
  return { ...identity, identity_data: data };
}

async function mergeClaims(
  tx: Sql,
  { deps, user, profile }: { deps: Deps; user: User; profile: Profile },
): Promise<User> {
  const now = deps.clock();
  const raw_user_meta_data = mergeMetadata(user.raw_user_meta_data, identityClaims(profile));
  const merged = await updateUser(tx, { id: user.id, now, changes: { raw_user_meta_data } });
  return refreshProviders(tx, merged, now);
}
