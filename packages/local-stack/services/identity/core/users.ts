import type { QueryResultRow } from "pg";
import { one, type Sql } from "../db.ts";
import { unexpected } from "./errors.ts";

/** Supabase Auth's only instance. Rows of other instances are invisible. */
export const instanceId = "00000000-0000-0000-0000-000000000000";

export type Metadata = Record<string, unknown>;

export type User = {
  id: string;
  aud: string;
  role: string;
  email: string | null;
  encrypted_password: string | null;
  email_confirmed_at: Date | null;
  invited_at: Date | null;
  confirmation_token: string;
  confirmation_sent_at: Date | null;
  recovery_token: string;
  recovery_sent_at: Date | null;
  email_change_token_new: string;
  email_change_token_current: string;
  email_change: string;
  email_change_sent_at: Date | null;
  email_change_confirm_status: number;
  reauthentication_token: string;
  reauthentication_sent_at: Date | null;
  last_sign_in_at: Date | null;
  raw_app_meta_data: Metadata | null;
  raw_user_meta_data: Metadata | null;
  phone: string | null;
  phone_confirmed_at: Date | null;
  phone_change: string;
  phone_change_token: string;
  phone_change_sent_at: Date | null;
  confirmed_at: Date | null;
  banned_until: Date | null;
  deleted_at: Date | null;
  is_sso_user: boolean;
  is_anonymous: boolean;
  created_at: Date;
  updated_at: Date;
};

/** An account with nothing set. */
export const blankUser: Omit<User, "id" | "aud" | "created_at" | "updated_at"> = {
  role: "",
  email: null,
  encrypted_password: null,
  email_confirmed_at: null,
  invited_at: null,
  confirmation_token: "",
  confirmation_sent_at: null,
  recovery_token: "",
  recovery_sent_at: null,
  email_change_token_new: "",
  email_change_token_current: "",
  email_change: "",
  email_change_sent_at: null,
  email_change_confirm_status: 0,
  reauthentication_token: "",
  reauthentication_sent_at: null,
  last_sign_in_at: null,
  raw_app_meta_data: null,
  raw_user_meta_data: null,
  phone: null,
  phone_confirmed_at: null,
  phone_change: "",
  phone_change_token: "",
  phone_change_sent_at: null,
  confirmed_at: null,
  banned_until: null,
  deleted_at: null,
  is_sso_user: false,
  is_anonymous: false,
};

export type UserChanges = Partial<Omit<User, "id" | "confirmed_at" | "created_at" | "updated_at">>;

/** Columns that Supabase Auth cannot read if they are null, as in a row seeded by hand. */
const neverNull = [
  "aud",
  "role",
  "confirmation_token",
  "recovery_token",
  "email_change_token_new",
  "email_change_token_current",
  "email_change",
  "phone_change",
  "phone_change_token",
  "reauthentication_token",
] as const;

function readable(row: User | undefined): User | undefined {
  const missing = row && neverNull.find((column) => row[column] === null);
  if (missing) throw unexpected("Database error querying schema", new Error(`auth.users.${missing} is null`));
  return row;
}

type Lock = { lock?: boolean };

/** Returns the account with this email. Ignores SSO accounts, which may share an email with another account. */
export async function findUserByEmail(
  sql: Sql,
  { email, aud, lock }: { email: string; aud: string } & Lock,
): Promise<User | undefined> {
  const text = `select * from auth.users
    where instance_id = $1 and lower(email) = $2 and aud = $3 and not is_sso_user limit 1 ${lock ? "for update" : ""}`;
  return readable(await one<User>(sql, text, [instanceId, email.toLowerCase(), aud]));
}

/**
 * Returns the account with this id. With `lock`, no other transaction changes the account before the current
 * transaction ends.
 */
export async function findUserById(sql: Sql, { id, lock }: { id: string } & Lock): Promise<User | undefined> {
  const text = `select * from auth.users where instance_id = $1 and id = $2 ${lock ? "for update" : ""}`;
  return readable(await one<User>(sql, text, [instanceId, id]));
}

/** Returns the account like `findUserById`. @throws AuthError 500 if it does not exist */
export async function getUserById(sql: Sql, options: { id: string } & Lock): Promise<User> {
  const user = await findUserById(sql, options);
  if (!user) throw unexpected("Database error finding user");
  return user;
}

/** Updates columns of an account. @returns the updated row, including changes by triggers */
export async function updateUser(
  sql: Sql,
  { id, now, changes }: { id: string; now: Date; changes: UserChanges },
): Promise<User> {
  const row = await one<User>(sql, ...updateStatement({ table: "auth.users", id, now, changes }));
  const user = readable(row);
  if (!user) throw unexpected("Database error updating user");
  return user;
}

/** Builds an `update … set …` of the named columns and updated_at, by id. */
function updateStatement({
  table,
  id,
  now,
  changes,
}: {
  table: string;
  id: string;
  now: Date;
  changes: Record<string, unknown>;
}): [string, unknown[]] {
  const columns = Object.keys(changes);
  const assignments = columns.map((column, index) => `${column} = $${index + 3}`);
  const text = `update ${table} set ${["updated_at = $2", ...assignments].join(", ")} where id = $1 returning *`;
  return [text, [id, now, ...columns.map((column) => changes[column])]];
}

export async function insertUser(
  sql: Sql,
  user: Pick<User, "id" | "aud" | "role" | "email" | "encrypted_password"> & {
    now: Date;
    appMetadata: Metadata;
    userMetadata: Metadata;
  } & Partial<Pick<User, "is_sso_user" | "is_anonymous">>,
): Promise<User> {
  const row = await one<User>(
    sql,
    `insert into auth.users (instance_id, id, aud, role, email, encrypted_password, raw_app_meta_data,
       raw_user_meta_data, created_at, updated_at, confirmation_token, recovery_token, email_change_token_new,
       email_change, is_super_admin, is_sso_user, is_anonymous)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, '', '', '', '', false, $10, $11) returning *`,
    [
      instanceId,
      user.id,
      user.aud,
      user.role,
      user.email,
      user.encrypted_password,
      user.appMetadata,
      user.userMetadata,
      user.now,
      user.is_sso_user ?? false,
      user.is_anonymous ?? false,
    ],
  );
  if (!row) throw unexpected("Database error saving new user");
  return row;
}

/** Merges top-level keys and deletes those set to null. */
export function mergeMetadata(stored: Metadata | null, updates: Metadata): Metadata {
  const merged = { ...stored };
  for (const [key, value] of Object.entries(updates)) {
    if (value === null || value === undefined) delete merged[key];
    else merged[key] = value;
  }
  return merged;
}

/** Returns whether the user is banned at this time. */
export function isBanned(user: User, now: Date): boolean {
  return user.banned_until !== null && now < user.banned_until;
}

/** Returns the rows, with values converted by column type. */
export async function many<Row extends QueryResultRow>(sql: Sql, text: string, values: unknown[]): Promise<Row[]> {
  return (await sql.query<Row>(text, values)).rows;
}
