import { createHash } from "node:crypto";
import { one, type Sql } from "../db.ts";
import type { Deps } from "./deps.ts";

export type OneTimeTokenType =
  | "confirmation_token"
  | "recovery_token"
  | "email_change_token_new"
  | "email_change_token_current"
  | "reauthentication_token";

/**
 * The prefix of a token from a PKCE flow. Redeeming the token returns a code that the client exchanges for a session.
 */
export const pkcePrefix = "pkce_";

/** Returns the hash that is stored for a code and emailed in links: the lower-case hex SHA-224 of email and code. */
export function hashToken(email: string, code: string): string {
  return createHash("sha224")
    .update(email.toLowerCase() + code)
    .digest("hex");
}

/** Stores a token as valid, replacing the user's previous token of this type. */
export async function storeOneTimeToken(
  sql: Sql,
  token: { deps: Deps; userId: string; type: OneTimeTokenType; hash: string; relatesTo: string },
): Promise<void> {
  await sql.query(
    `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
     values ($1, $2, $3, $4, $5)
     on conflict (user_id, token_type) do update set
       id = excluded.id, token_hash = excluded.token_hash, relates_to = excluded.relates_to, updated_at = now()`,
    [token.deps.random.uuid(), token.userId, token.type, token.hash, token.relatesTo.toLowerCase()],
  );
}

/** Returns the token with this hash, if it has one of these types and is still valid. */
export function findOneTimeToken(
  sql: Sql,
  hash: string,
  types: OneTimeTokenType[],
): Promise<{ user_id: string; token_type: OneTimeTokenType } | undefined> {
  return one(
    sql,
    "select user_id, token_type from auth.one_time_tokens where token_hash = $1 and token_type::text = any($2) limit 1",
    [hash, types],
  );
}

/** Deletes a user's tokens of a type, or all of them if no type is given. */
export async function clearOneTimeTokens(sql: Sql, userId: string, type?: OneTimeTokenType): Promise<void> {
  await sql.query(
    "delete from auth.one_time_tokens where user_id = $1 and ($2::text is null or token_type::text = $2)",
    [userId, type ?? null],
  );
}
