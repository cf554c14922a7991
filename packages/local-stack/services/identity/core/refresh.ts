import { one, type Sql, sqlState, transaction } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { AuthError, invalid } from "./errors.ts";
import { decodeRefreshToken, encodeRefreshToken, type SignedRefreshToken } from "./refresh-token-v2.ts";
import {
  endSession,
  findSession,
  lastRefreshedAt,
  listSessions,
  type Session,
  sessionExpiry,
  touchSession,
} from "./sessions.ts";
import {
  findLiveRefreshToken,
  hasSecondFactor,
  hmacKeyOf,
  type RefreshToken,
  type SignedIn,
  swapRefreshToken,
  tokenResponse,
} from "./tokens.ts";
import { findUserById, isBanned } from "./users.ts";

/** How long a refresh waits for another refresh of the same session. */
const lockTimeoutMs = 5_000;
const lockNotAvailable = "55P03";

/**
 * Exchanges a refresh token. Refreshes of one session run one after the other, under a lock on its row.
 * @throws AuthError 400 refresh_token_not_found, refresh_token_already_used, session_expired, session_not_found,
 * user_banned, validation_failed; 409 conflict if the session stays locked for too long
 */
export async function refresh(
  deps: Deps,
  { refreshToken, caller }: { refreshToken: string; caller: Caller },
): Promise<SignedIn> {
  const signed = parseRefreshToken(refreshToken);
  try {
    return await transaction(deps.db, async (tx) => {
      await tx.query(`set local lock_timeout = '${lockTimeoutMs}ms'`);
      return signed
        ? refreshSigned(tx, { deps, token: signed, caller })
        : refreshStored(tx, { deps, token: refreshToken, caller });
    });
  } catch (error) {
    if (sqlState(error) !== lockNotAvailable) throw error;
    throw new AuthError(
      409,
      "conflict",
      "Too many concurrent token refresh requests on the same session or refresh token",
    );
  }
}

function parseRefreshToken(refreshToken: string): SignedRefreshToken | undefined {
  if (/^[a-z0-9]{12}$/.test(refreshToken)) return undefined;
  const signed = refreshToken.length > 12 ? decodeRefreshToken(refreshToken) : undefined;
  if (!signed) throw invalid("Refresh token is not valid");
  return signed;
}

function unknown(): AuthError {
  return new AuthError(400, "refresh_token_not_found", "Invalid Refresh Token: Refresh Token Not Found");
}

function alreadyUsed(): AuthError {
  return new AuthError(400, "refresh_token_already_used", "Invalid Refresh Token: Already Used", { commits: true });
}

type Stored = { deps: Deps; token: string; caller: Caller };

/** Refreshes with a version 1 token, which is a row in the database. A child row replaces it. */
async function refreshStored(tx: Sql, { deps, token: text, caller }: Stored): Promise<SignedIn> {
  const find = () => one<RefreshToken>(tx, "select * from auth.refresh_tokens where token = $1", [text]);
  const seen = await find();
  if (!seen) throw unknown();
  if (!seen.session_id) {
    throw new AuthError(400, "session_not_found", "Invalid Refresh Token: No Valid Session Found");
  }
  const session = await findSession(tx, { id: seen.session_id, lock: true });
  // The previous holder of the lock may have exchanged the token, or deleted the session and its tokens.
  const token = await find();
  if (!session || !token) throw unknown();
  const user = await requireMayRefresh(tx, { deps, session, tokenUsedAt: token.updated_at });
  const next = token.revoked ? await reuse(tx, { deps, token, session }) : await swapRefreshToken(tx, { deps, token });
  const answer = await tokenResponse(tx, { deps, user, session, refreshToken: next });
  await touchSession(tx, { deps, id: session.id, caller });
  return answer;
}

/**
 * Exchanges a revoked token for the token that replaced it or, within the reuse interval, for a new token.
 * @throws AuthError 400 refresh_token_already_used for any other revoked token
 */
async function reuse(
  tx: Sql,
  { deps, token, session }: { deps: Deps; token: RefreshToken; session: Session },
): Promise<string> {
  const live = await findLiveRefreshToken(tx, session.id);
  if (live && live.parent === token.token) return live.token;
  const { GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: intervalS, GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED } =
    deps.config;
  const now = deps.clock();
  if (now.getTime() <= token.updated_at.getTime() + intervalS * 1_000) return swapRefreshToken(tx, { deps, token });
  if (GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED) {
    await tx.query(
      "update auth.refresh_tokens set revoked = true, updated_at = $2 where session_id = $1 and not revoked",
      [session.id, now],
    );
  }
  throw alreadyUsed();
}

/** Refreshes with a version 2 token, which is signed. The session counts the tokens issued. */
async function refreshSigned(
  tx: Sql,
  { deps, token, caller }: { deps: Deps; token: SignedRefreshToken; caller: Caller },
): Promise<SignedIn> {
  const session = await findSession(tx, { id: token.sessionId, lock: true });
  if (!session?.refresh_token_hmac_key || session.refresh_token_counter === null) throw unknown();
  const key = hmacKeyOf(session);
  if (!token.isSignedWith(key)) throw unknown();
  const user = await requireMayRefresh(tx, { deps, session });
  const issued = BigInt(session.refresh_token_counter);
  const lag = issued - token.counter;
  if (lag < 0n) throw invalid("Invalid Refresh Token: Not Issued By This Server");
  const counter = lag === 0n ? issued + 1n : issued;
  if (lag > 0n && !maySignedReuse(lag, session, deps)) {
    if (deps.config.GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED) await endSession(tx, session.id);
    throw alreadyUsed();
  }
  await tx.query("update auth.sessions set refresh_token_counter = $2, updated_at = $3 where id = $1", [
    session.id,
    counter,
    deps.clock(),
  ]);
  const refreshToken = encodeRefreshToken(session.id, counter, key);
  const answer = await tokenResponse(tx, { deps, user, session, refreshToken });
  await touchSession(tx, { deps, id: session.id, caller });
  return answer;
}

/**
 * Returns whether an outdated token may be reused. A token that is one step behind may be reused, since the client may
 * have lost the response. Any token may be reused shortly after a refresh, since several tabs may refresh concurrently.
 */
function maySignedReuse(lag: bigint, session: Session, deps: Deps): boolean {
  const { GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: intervalS, GOTRUE_SECURITY_REFRESH_TOKEN_ALLOW_REUSE } =
    deps.config;
  const sinceMs = Math.abs(deps.clock().getTime() - lastRefreshedAt(session).getTime());
  return lag === 1n || GOTRUE_SECURITY_REFRESH_TOKEN_ALLOW_REUSE || sinceMs < intervalS * 1_000;
}

async function requireMayRefresh(
  tx: Sql,
  { deps, session, tokenUsedAt }: { deps: Deps; session: Session; tokenUsedAt?: Date },
) {
  const user = await findUserById(tx, { id: session.user_id });
  if (!user) throw unknown();
  if (isBanned(user, deps.clock())) throw new AuthError(400, "user_banned", "Invalid Refresh Token: User Banned");
  const secondFactor = await hasSecondFactor(tx, user.id);
  const expiry = sessionExpiry(session, {
    deps,
    hasSecondFactor: secondFactor,
    ...(tokenUsedAt ? { tokenUsedAt } : {}),
  });
  if (expiry) throw new AuthError(400, "session_expired", `Invalid Refresh Token: ${expiry}`);
  if (deps.config.GOTRUE_SESSIONS_SINGLE_PER_USER) {
    const refreshedAt = lastRefreshedAt(session, tokenUsedAt);
    const newer = (await listSessions(tx, user.id)).some(
      (other) =>
        other.id !== session.id &&
        !sessionExpiry(other, { deps, hasSecondFactor: secondFactor }) &&
        lastRefreshedAt(other) > refreshedAt,
    );
    if (newer) {
      throw new AuthError(400, "session_expired", "Invalid Refresh Token: Session Expired (Revoked by Newer Login)");
    }
  }
  return user;
}
