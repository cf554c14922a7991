import { createHash } from "node:crypto";
import type { Sql } from "../db.ts";
import type { Deps } from "./deps.ts";
import { clearOneTimeTokens } from "./one-time-tokens.ts";
import { endSessions } from "./sessions.ts";
import { many, mergeMetadata, type User, updateUser } from "./users.ts";

/** Marks the email as confirmed, and invalidates all emailed tokens. */
export async function confirmUser(sql: Sql, deps: Deps, user: User): Promise<User> {
  const now = deps.clock();
  await clearOneTimeTokens(sql, user.id);
  return updateUser(sql, {
    id: user.id,
    now,
    changes: {
      confirmation_token: "",
      email_confirmed_at: now,
      raw_user_meta_data: mergeMetadata(user.raw_user_meta_data, { email_verified: true }),
    },
  });
}

/**
 * Stores a new password's hash. Invalidates all emailed tokens and ends the user's sessions except `keepSession`, since
 * someone who knew the old password must not stay signed in. The order of statements is Supabase Auth's: triggers
 * depend on it.
 */
export async function storePassword(
  sql: Sql,
  { deps, user, hash, keepSession }: { deps: Deps; user: User; hash: string | null; keepSession?: string | undefined },
): Promise<User> {
  const stored = await updateUser(sql, {
    id: user.id,
    now: deps.clock(),
    changes: {
      encrypted_password: hash,
      confirmation_token: "",
      confirmation_sent_at: null,
      recovery_token: "",
      recovery_sent_at: null,
      email_change_token_current: "",
      email_change_token_new: "",
      email_change_sent_at: null,
      phone_change_token: "",
      phone_change_sent_at: null,
      reauthentication_token: "",
      reauthentication_sent_at: null,
    },
  });
  await clearOneTimeTokens(sql, user.id);
  await endSessions(sql, { userId: user.id, ...(keepSession ? { exceptId: keepSession } : {}) });
  return stored;
}

/** Disables an account but keeps its row: removes all personal data and frees the email. */
export async function softDeleteUser(sql: Sql, deps: Deps, user: User): Promise<void> {
  const now = deps.clock();
  const blur = (value: string) =>
    createHash("sha256")
      .update(user.id + value)
      .digest("base64url");
  await updateUser(sql, {
    id: user.id,
    now,
    changes: {
      email: blur(user.email ?? ""),
      phone: blur(user.phone ?? "").slice(0, 15),
      email_change: blur(user.email_change),
      phone_change: blur(user.phone_change).slice(0, 15),
      encrypted_password: null,
      confirmation_token: "",
      recovery_token: "",
      email_change_token_current: "",
      email_change_token_new: "",
      phone_change_token: "",
      deleted_at: now,
      raw_user_meta_data: {},
      raw_app_meta_data: {},
    },
  });
  await clearOneTimeTokens(sql, user.id);
  await endSessions(sql, { userId: user.id });
  const identities = await many<{ id: string; provider: string; provider_id: string }>(
    sql,
    "select id, provider, provider_id from auth.identities where user_id = $1",
    [user.id],
  );
  for (const { id, provider, provider_id } of identities) {
    await sql.query("update auth.identities set provider_id = $2, identity_data = '{}' where id = $1", [
      id,
      blur(`${provider}:${provider_id}`),
    ]);
  }
  await sql.query("delete from auth.mfa_factors where user_id = $1", [user.id]);
  await sql.query("delete from auth.webauthn_credentials where user_id = $1", [user.id]);
}
