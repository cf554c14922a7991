import { one, type Sql } from "../db.ts";
import type { Deps } from "./deps.ts";
import { unexpected } from "./errors.ts";
import { type Metadata, many, mergeMetadata, type User, updateUser } from "./users.ts";

export type Identity = {
  id: string;
  provider_id: string;
  user_id: string;
  identity_data: Metadata;
  provider: string;
  last_sign_in_at: Date | null;
  created_at: Date;
  updated_at: Date;
  email: string | null;
};

/** Returns a user's identities, oldest first. */
export function listIdentities(sql: Sql, userId: string): Promise<Identity[]> {
  return many<Identity>(sql, "select * from auth.identities where user_id = $1 order by created_at, id", [userId]);
}

/** Finds the identity of a provider's subject. The email provider's subject is the user's own id. */
export function findIdentity(
  sql: Sql,
  { provider, subject }: { provider: string; subject: string },
): Promise<Identity | undefined> {
  return one<Identity>(sql, "select * from auth.identities where provider_id = $1 and provider = $2", [
    subject,
    provider,
  ]);
}

/** Adds an identity; `data.sub` is the provider's subject. */
export async function insertIdentity(
  sql: Sql,
  { deps, userId, provider, data }: { deps: Deps; userId: string; provider: string; data: Metadata & { sub: string } },
): Promise<Identity> {
  const now = deps.clock();
  const stored = typeof data.email === "string" ? { ...data, email: data.email.toLowerCase() } : data;
  const row = await one<Identity>(
    sql,
    `insert into auth.identities (id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
     values ($1, $2, $3, $4, $5, $6, $6, $6) returning *`,
    [deps.random.uuid(), data.sub, userId, stored, provider, now],
  ).catch((error: unknown) => {
    throw unexpected("Error creating identity", error);
  });
  if (!row) throw unexpected("Error creating identity");
  return row;
}

/** Merges keys into an identity's data. */
export async function mergeIdentityData(sql: Sql, identity: Identity, updates: Metadata): Promise<void> {
  await sql.query("update auth.identities set identity_data = $2 where id = $1", [
    identity.id,
    mergeMetadata(identity.identity_data, updates),
  ]);
}

/** Returns the claims of an email identity. */
export function emailClaims(userId: string, email: string, emailVerified = false): Metadata & { sub: string } {
  return { sub: userId, email, email_verified: emailVerified, phone_verified: false };
}

/** Sets app_metadata's `providers` and `provider` from the user's identities. */
export async function refreshProviders(sql: Sql, user: User, now: Date): Promise<User> {
  const identities = await listIdentities(sql, user.id);
  const providers = [...new Set(identities.map((identity) => identity.provider))];
  const raw_app_meta_data = mergeMetadata(user.raw_app_meta_data, {
    providers,
    ...(providers[0] ? { provider: providers[0] } : {}),
  });
  return updateUser(sql, { id: user.id, now, changes: { raw_app_meta_data } });
}

/**
 * Removes all identities but one from an unconfirmed account, and replaces the account's metadata with that identity's
 * data. The removed identities were created without proof of owning the email. Also removes the password, unless the
 * remaining identity is the email or phone identity.
 */
export async function dropUnconfirmedIdentities(
  sql: Sql,
  { user, identity, now }: { user: User; identity: Identity; now: Date },
): Promise<User> {
  await sql.query("delete from auth.identities where user_id = $1 and id <> $2", [user.id, identity.id]);
  const updatedUser = await updateUser(sql, {
    id: user.id,
    now,
    changes: {
      raw_user_meta_data: mergeMetadata(null, identity.identity_data),
      ...(identity.provider === "email" || identity.provider === "phone" ? {} : { encrypted_password: null }),
    },
  });
  return refreshProviders(sql, updatedUser, now);
}
