import { randomUUID } from "node:crypto";
import { createUser, type Database, one, signIn } from "../database.ts";
import { createIdentity } from "../sign-in/oauth-fixtures.ts";

const usableProviders = ["google", "github"];

/** A way to sign in to an account or to act for it, as `private.account_access` lists it. */
export interface Way {
  key: string;
  kind: string;
  id: string | null;
  name: string | null;
  addedAt: string;
  lastUsedAt: string | null;
  device: string | null;
  address: string | null;
  bySession: string | null;
  isNew: boolean;
  unconfirmed: boolean;
  proven: boolean;
}

/** Returns the account's access list as the service role reads it. */
export async function accessOf(db: Database, userId: string, sessionId: string | null = null) {
  const { answer } = await one<{
    answer: { listedAt: string; confirmedAt: string | null; email: string; ways: Way[] } | null;
  }>(db, { sql: "select private.account_access($1, $2) as answer", values: [userId, sessionId] });
  if (!answer) throw new Error("there is no such account");
  return answer;
}

/** Confirms the current access list, with the owner's decision on each entry. */
export async function confirm(
  db: Database,
  {
    userId,
    sessionId,
    remove = [],
    listedAt,
    listed,
  }: {
    userId: string;
    sessionId: string;
    remove?: string[];
    listedAt?: string;
    listed?: string[];
  },
) {
  const access = await accessOf(db, userId);
  const removals = {
    listedAt: listedAt ?? access.listedAt,
    listed: listed ?? access.ways.map(({ key }) => key),
    remove,
  };
  const { answer } = await one<{
    answer: { outcome: string; removed?: Way[]; endedSessions?: { id: string; device: string | null }[] };
  }>(db, {
    sql: "select private.confirm_access($1, $2, $3, $4) as answer",
    values: [userId, sessionId, JSON.stringify(removals), usableProviders],
  });
  return answer;
}

/**
 * Creates a confirmed account that is a week old, with a password unless `password` is false. Starts a session for the
 * account.
 */
export async function createOwner(
  db: Database,
  { password = true, policy }: { password?: boolean; policy?: object } = {},
) {
  const { id: userId, email } = await createUser(db, policy ? { appMetadata: { platform_required_mfa: policy } } : {});
  await db.query(
    `update auth.users set encrypted_password = $2, email_confirmed_at = now(), created_at = now() - interval '7 days'
     where id = $1`,
    [userId, password ? "$2a$10$hash" : ""],
  );
  return { userId, email, claims: await signIn(db, { userId }) };
}

/** Adds a passkey. @returns its id */
export async function addPasskey(db: Database, { userId }: { userId: string }): Promise<string> {
  const { id } = await one<{ id: string }>(db, {
    sql: `insert into auth.webauthn_credentials (user_id, credential_id, public_key, friendly_name)
          values ($1, decode(md5(random()::text), 'hex'), '', 'Laptop') returning id`,
    values: [userId],
  });
  return id;
}

/** Links a Google account. @returns its id */
export function linkGoogle(
  db: Database,
  { userId, createdIn = 0 }: { userId: string; createdIn?: number },
): Promise<string> {
  return createIdentity(db, { userId, email: `${randomUUID()}@gmail.example`, createdIn });
}

/**
 * Starts a session with an authentication method of Supabase Auth. The recorded sign-in event shows `logged` as its
 * method. @returns the session's id
 */
export async function signInBy(
  db: Database,
  { userId, method, factorId, logged }: { userId: string; method: string; factorId?: string; logged: string },
): Promise<string> {
  const { session_id: id } = await signIn(db, { userId, factorId });
  await db.query(
    `insert into auth.mfa_amr_claims (id, session_id, authentication_method, created_at, updated_at)
     values (gen_random_uuid(), $1, $2, now(), now())`,
    [id, method],
  );
  // Adds the method, device and address to the event that the trigger recorded, as our page does.
  await db.query(
    `update public.security_events set method = $2, device = 'Firefox on Windows', ip = '198.51.100.9'
     where session_id = $1 and kind = 'sign_in'`,
    [id, logged],
  );
  return id;
}

/** Marks an identity, passkey or authenticator as added by a direct call of the identity backend. */
export async function markUnconfirmed(
  db: Database,
  { userId, targetId, kind }: { userId: string; targetId: string; kind: string },
): Promise<void> {
  await db.query(
    `insert into private.unconfirmed_additions (target_id, user_id, kind) values ($1, $2, $3) on conflict do nothing`,
    [targetId, userId, kind],
  );
}

export async function sessionsOf(db: Database, userId: string): Promise<string[]> {
  const rows = await db.query<{ id: string }>("select id from auth.sessions where user_id = $1", [userId]);
  return rows.map(({ id }) => id).sort();
}
