import { one, type Sql } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { unexpected } from "./errors.ts";
import { randomRefreshToken } from "./random.ts";
import { encodeRefreshToken } from "./refresh-token-v2.ts";
import { type AuthMethod, addAmr, assurance, insertSession, type Session } from "./sessions.ts";
import { instanceId, type User, updateUser } from "./users.ts";
import { listFactors, loadWireUser, type WireUser } from "./wire-user.ts";

export type TokenResponse = {
  access_token: string;
  token_type: "bearer";
  expires_in: number;
  expires_at: number;
  refresh_token: string;
  user: WireUser;
  provider_token?: string;
  provider_refresh_token?: string;
  weak_password?: { message: string; reasons: string[] } | null;
};

/** The response to a sign-in: its body, and the ids for its headers. */
export type SignedIn = { body: TokenResponse; userId: string; sessionId: string };

export type RefreshToken = {
  id: string;
  token: string;
  user_id: string;
  parent: string | null;
  session_id: string | null;
  revoked: boolean;
  updated_at: Date;
};

/** Adds a version 1 refresh token to a session. */
async function insertRefreshToken(
  sql: Sql,
  { deps, userId, sessionId, parent }: { deps: Deps; userId: string; sessionId: string; parent?: string },
): Promise<string> {
  const token = randomRefreshToken(deps.random);
  await sql.query(
    `insert into auth.refresh_tokens (instance_id, token, user_id, session_id, parent, revoked, created_at, updated_at)
     values ($1, $2, $3, $4, $5, false, $6, $6)`,
    [instanceId, token, userId, sessionId, parent ?? null, deps.clock()],
  );
  return token;
}

/** Returns the session's latest unrevoked token. */
export function findLiveRefreshToken(sql: Sql, sessionId: string): Promise<RefreshToken | undefined> {
  return one<RefreshToken>(
    sql,
    "select * from auth.refresh_tokens where session_id = $1 and not revoked order by id desc limit 1",
    [sessionId],
  );
}

/** Returns the key that signs a session's version 2 refresh tokens. */
export function hmacKeyOf(session: Session): Buffer {
  return Buffer.from(session.refresh_token_hmac_key ?? "", "base64url");
}

/** Signs in: starts a session with `method` in its amr, and issues its tokens. */
export async function signIn(
  sql: Sql,
  { deps, user, method, caller }: { deps: Deps; user: User; method: AuthMethod; caller: Caller },
): Promise<SignedIn> {
  const now = deps.clock();
  const version2 = deps.config.GOTRUE_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION === 2;
  const hmacKey = version2 ? deps.random.bytes(32).toString("base64url") : undefined;
  const session = await insertSession(sql, { deps, userId: user.id, caller, ...(hmacKey ? { hmacKey } : {}) });
  const refreshToken = hmacKey
    ? encodeRefreshToken(session.id, 0n, hmacKeyOf(session))
    : await insertRefreshToken(sql, { deps, userId: user.id, sessionId: session.id });
  const current = await updateUser(sql, { id: user.id, now, changes: { last_sign_in_at: now } });
  await addAmr(sql, { deps, sessionId: session.id, method });
  return tokenResponse(sql, { deps, user: current, session, refreshToken });
}

/** Returns the response with a new access token for a session, and the given refresh token. */
export async function tokenResponse(
  sql: Sql,
  { deps, user, session, refreshToken }: { deps: Deps; user: User; session: Session; refreshToken: string },
): Promise<SignedIn> {
  const issuedAt = Math.floor(deps.clock().getTime() / 1_000);
  const expiresAt = Math.min(issuedAt + deps.config.GOTRUE_JWT_EXP, await lowAalLimit(sql, { deps, user, session }));
  const { aal, amr } = await assurance(sql, session.id);
  const { GOTRUE_JWT_ISSUER: iss } = deps.config;
  const access_token = await deps.keys.sign({
    ...(iss ? { iss } : {}),
    sub: user.id,
    aud: user.aud,
    exp: expiresAt,
    iat: issuedAt,
    email: user.email ?? "",
    phone: user.phone ?? "",
    app_metadata: user.raw_app_meta_data ?? {},
    user_metadata: user.raw_user_meta_data ?? {},
    role: user.role,
    aal,
    amr,
    session_id: session.id,
    is_anonymous: user.is_anonymous,
  });
  return {
    userId: user.id,
    sessionId: session.id,
    body: {
      access_token,
      token_type: "bearer",
      expires_in: expiresAt - issuedAt,
      expires_at: expiresAt,
      refresh_token: refreshToken,
      user: await loadWireUser(sql, user),
    },
  };
}

/**
 * Returns the latest allowed expiry, in Unix seconds, of the access tokens of an AAL1 session whose user has a second
 * factor. Returns infinity if no limit applies.
 */
async function lowAalLimit(
  sql: Sql,
  { deps, user, session }: { deps: Deps; user: User; session: Session },
): Promise<number> {
  const limitMs = deps.config.GOTRUE_SESSIONS_ALLOW_LOW_AAL;
  if (!limitMs || !(await hasSecondFactor(sql, user.id))) return Number.POSITIVE_INFINITY;
  const { aal } = await assurance(sql, session.id);
  return aal === "aal1" ? Math.floor((session.created_at.getTime() + limitMs) / 1_000) : Number.POSITIVE_INFINITY;
}

/** Returns whether the user has a verified second factor. */
export async function hasSecondFactor(sql: Sql, userId: string): Promise<boolean> {
  return (await listFactors(sql, userId)).some((factor) => factor.status === "verified");
}

/** Revokes a version 1 token and replaces it with a child. @returns the child */
export async function swapRefreshToken(
  sql: Sql,
  { deps, token }: { deps: Deps; token: RefreshToken },
): Promise<string> {
  if (!token.session_id) throw unexpected("Refresh token without a session");
  await sql.query("update auth.refresh_tokens set revoked = true, updated_at = $2 where id = $1", [
    token.id,
    deps.clock(),
  ]);
  return insertRefreshToken(sql, {
    deps,
    userId: token.user_id,
    sessionId: token.session_id,
    parent: token.token,
  });
}
