import { one, type Sql } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { unexpected } from "./errors.ts";
import { many } from "./users.ts";

export type Aal = "aal1" | "aal2" | "aal3";

/** The names of authentication methods in a session's amr. */
export type AuthMethod =
  | "oauth"
  | "password"
  | "otp"
  | "totp"
  | "recovery"
  | "invite"
  | "magiclink"
  | "email/signup"
  | "email_change"
  | "passkey";

export type Session = {
  id: string;
  user_id: string;
  created_at: Date;
  factor_id: string | null;
  aal: Aal | null;
  not_after: Date | null;
  refreshed_at: Date | null;
  tag: string | null;
  refresh_token_hmac_key: string | null;
  refresh_token_counter: string | null;
};

export type AmrEntry = { method: string; timestamp: number };

const secondFactorMethods = ["totp", "mfa/phone", "mfa/webauthn"];

// refreshed_at is stored in UTC, without a time zone.
const columns = `id, user_id, created_at, factor_id, aal, not_after, refreshed_at at time zone 'UTC' as refreshed_at,
  tag, refresh_token_hmac_key, refresh_token_counter`;

/**
 * Returns the session, unless it has ended. With `lock`, no other transaction changes or ends the session before the
 * current transaction ends.
 */
export function findSession(sql: Sql, { id, lock }: { id: string; lock?: boolean }): Promise<Session | undefined> {
  return one<Session>(sql, `select ${columns} from auth.sessions where id = $1 ${lock ? "for update" : ""}`, [id]);
}

/** Returns all of a user's sessions. */
export function listSessions(sql: Sql, userId: string): Promise<Session[]> {
  return many<Session>(sql, `select ${columns} from auth.sessions where user_id = $1`, [userId]);
}

/** Starts a session. `hmacKey` is for version 2 refresh tokens. */
export async function insertSession(
  sql: Sql,
  { deps, userId, caller, hmacKey }: { deps: Deps; userId: string; caller: Caller; hmacKey?: string },
): Promise<Session> {
  const session = await one<Session>(
    sql,
    `insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip, refresh_token_hmac_key,
       refresh_token_counter)
     values ($1, $2, $3, $3, 'aal1', $4, $5, $6, $7) returning ${columns}`,
    [
      deps.random.uuid(),
      userId,
      deps.clock(),
      caller.userAgent || null,
      caller.ip || null,
      hmacKey ?? null,
      hmacKey ? 0 : null,
    ],
  );
  if (!session) throw unexpected("Database error creating new session");
  return session;
}

/** Records a refresh of the session, with the client's address and user agent. */
export async function touchSession(
  sql: Sql,
  { deps, id, caller }: { deps: Deps; id: string; caller: Caller },
): Promise<void> {
  await sql.query(
    `update auth.sessions set refreshed_at = $2::timestamptz at time zone 'UTC', updated_at = $2, user_agent = $3, ip = $4
     where id = $1`,
    [id, deps.clock(), caller.userAgent || null, caller.ip || null],
  );
}

/** Adds a method to the session's amr, or updates its time. */
export async function addAmr(
  sql: Sql,
  { deps, sessionId, method }: { deps: Deps; sessionId: string; method: AuthMethod },
): Promise<void> {
  await sql.query(
    `insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
     values ($1, $2, $3, $3, $4)
     on conflict (session_id, authentication_method) do update set updated_at = excluded.updated_at`,
    [deps.random.uuid(), sessionId, deps.clock(), method],
  );
}

/** Returns the methods of a session, newest first, and the assurance level that they add up to. */
export async function assurance(sql: Sql, sessionId: string): Promise<{ aal: Aal; amr: AmrEntry[] }> {
  const claims = await many<{ method: string; updated_at: Date }>(
    sql,
    `select authentication_method as method, updated_at from auth.mfa_amr_claims where session_id = $1
     order by updated_at desc`,
    [sessionId],
  );
  return {
    aal: claims.some((claim) => secondFactorMethods.includes(claim.method)) ? "aal2" : "aal1",
    amr: claims.map((claim) => ({
      method: claim.method,
      timestamp: Math.floor(claim.updated_at.getTime() / 1_000),
    })),
  };
}

/** Ends one session. */
export async function endSession(sql: Sql, id: string): Promise<void> {
  await sql.query("delete from auth.sessions where id = $1", [id]);
}

/**
 * Ends a user's sessions except `exceptId`. Triggers recognize the kind of sign-out by these statements, which are the same
 * as Supabase Auth's.
 */
export async function endSessions(
  sql: Sql,
  { userId, exceptId }: { userId: string; exceptId?: string },
): Promise<void> {
  if (exceptId) await sql.query("delete from auth.sessions where id != $1 and user_id = $2", [exceptId, userId]);
  else await sql.query("delete from auth.sessions where user_id = $1", [userId]);
}

/** Returns the time of a session's last refresh, or of its start if the session was never refreshed. */
export function lastRefreshedAt(session: Session, tokenUsedAt?: Date): Date {
  if (session.refreshed_at) return session.refreshed_at;
  return tokenUsedAt && tokenUsedAt > session.created_at ? tokenUsedAt : session.created_at;
}

/**
 * Returns why a session has expired, or undefined. Callers check this when a session is refreshed, and when an
 * administrator's token contains a session id.
 */
export function sessionExpiry(
  session: Session,
  { deps, tokenUsedAt, hasSecondFactor }: { deps: Deps; tokenUsedAt?: Date; hasSecondFactor: boolean },
): string | undefined {
  const { GOTRUE_SESSIONS_TIMEBOX, GOTRUE_SESSIONS_INACTIVITY_TIMEOUT, GOTRUE_SESSIONS_ALLOW_LOW_AAL } = deps.config;
  const now = deps.clock().getTime();
  const after = (start: Date, ms: number | undefined) => !!ms && now > start.getTime() + ms;
  if (session.not_after && now > session.not_after.getTime()) return "Session Expired";
  if (after(session.created_at, GOTRUE_SESSIONS_TIMEBOX)) return "Session Expired";
  if (after(lastRefreshedAt(session, tokenUsedAt), GOTRUE_SESSIONS_INACTIVITY_TIMEOUT)) {
    return "Session Expired (Inactivity)";
  }
  const low = hasSecondFactor && (session.aal ?? "aal1") === "aal1";
  if (low && after(session.created_at, GOTRUE_SESSIONS_ALLOW_LOW_AAL)) {
    return "Session Expired (Low AAL: User Needs MFA Verification)";
  }
  return undefined;
}
