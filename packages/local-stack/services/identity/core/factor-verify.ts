import { one, type Sql, transaction } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { AuthError, invalid, unexpected } from "./errors.ts";
import { requireTotp, totpOf } from "./factors.ts";
import { mfaHook } from "./hooks.ts";
import { encodeRefreshToken } from "./refresh-token-v2.ts";
import { addAmr, findSession, type Session } from "./sessions.ts";
import { hmacKeyOf, type RefreshToken, type SignedIn, swapRefreshToken, tokenResponse } from "./tokens.ts";
import { getUserById } from "./users.ts";
import type { Factor } from "./wire-user.ts";

type Challenge = { id: string; created_at: Date; verified_at: Date | null; ip_address: string };
export type FactorAttempt = { factor: Factor; session: Session; challengeId: string; code: string; caller: Caller };

/**
 * Verifies a second factor: raises the session to aal2 with new tokens, ends the user's other sessions at aal1, and
 * deletes other unverified factors. A wrong code does not use up the challenge.
 * @throws AuthError 422 mfa_verification_failed, mfa_factor_not_found (unknown challenge), mfa_challenge_expired,
 * mfa_ip_address_mismatch (another address, or used already); 403 mfa_verification_rejected; 400 validation_failed
 */
export async function verifyFactor(deps: Deps, attempt: FactorAttempt): Promise<SignedIn> {
  const { factor, session, challengeId, code, caller } = attempt;
  if (!code) throw invalid("Code needs to be non-empty");
  requireTotp(factor);
  if (!deps.config.GOTRUE_MFA_TOTP_VERIFY_ENABLED) {
    throw new AuthError(422, "mfa_totp_verify_not_enabled", "MFA verification is disabled for TOTP");
  }
  await requireChallenge(deps.db, { deps, factor, challengeId, caller });
  const valid = isRightCode(factor, code, deps);
  await mfaHook(deps, { userId: factor.user_id, factorId: factor.id, factorType: factor.factor_type, valid, caller });
  if (!valid) throw new AuthError(422, "mfa_verification_failed", "Invalid TOTP code entered");
  return transaction(deps.db, async (tx) => {
    // Locks the user, so that only the first of concurrent requests can use the challenge.
    await getUserById(tx, { id: factor.user_id, lock: true });
    await requireChallenge(tx, { deps, factor, challengeId, caller });
    return raise(tx, { deps, factor, sessionId: session.id, challengeId });
  });
}

/** Accepts codes one 30-second step before or after the current one. */
function isRightCode(factor: Factor, code: string, { clock }: Deps): boolean {
  const token = code.trim();
  if (!/^\d{6}$/.test(token)) return false;
  return totpOf(factor.secret ?? "").validate({ token, timestamp: clock().getTime(), window: 1 }) !== null;
}

async function requireChallenge(
  sql: Sql,
  { deps, factor, challengeId, caller }: { deps: Deps; factor: Factor; challengeId: string; caller: Caller },
): Promise<void> {
  const challenge = await one<Challenge>(
    sql,
    `select id, created_at, verified_at, host(ip_address) as ip_address from auth.mfa_challenges
     where id = $1 and factor_id = $2`,
    [challengeId, factor.id],
  );
  if (!challenge) {
    throw new AuthError(422, "mfa_factor_not_found", "MFA factor with the provided challenge ID not found");
  }
  if (challenge.verified_at || challenge.ip_address !== (caller.ip || "0.0.0.0")) {
    throw new AuthError(422, "mfa_ip_address_mismatch", "Challenge and verify IP addresses mismatch.");
  }
  const lifeMs = deps.config.GOTRUE_MFA_CHALLENGE_EXPIRY_DURATION * 1_000;
  if (deps.clock().getTime() > challenge.created_at.getTime() + lifeMs) {
    await sql.query("delete from auth.mfa_challenges where id = $1", [challengeId]);
    throw new AuthError(
      422,
      "mfa_challenge_expired",
      `MFA challenge ${challengeId} has expired, verify against another challenge or create a new challenge.`,
      { commits: true },
    );
  }
}

async function raise(
  tx: Sql,
  { deps, factor, sessionId, challengeId }: { deps: Deps; factor: Factor; sessionId: string; challengeId: string },
): Promise<SignedIn> {
  const now = deps.clock();
  await tx.query("update auth.mfa_challenges set verified_at = $2 where id = $1", [challengeId, now]);
  await tx.query("update auth.mfa_factors set status = 'verified', updated_at = $2 where id = $1", [factor.id, now]);
  const session = await findSession(tx, { id: sessionId, lock: true });
  if (!session) {
    throw new AuthError(403, "session_not_found", "Session from session_id claim in JWT does not exist");
  }
  await addAmr(tx, { deps, sessionId, method: "totp" });
  const refreshToken = await nextRefreshToken(tx, { deps, session });
  await tx.query("update auth.sessions set aal = 'aal2', factor_id = $2, updated_at = $3 where id = $1", [
    sessionId,
    factor.id,
    now,
  ]);
  await tx.query("delete from auth.sessions where user_id = $1 and aal < 'aal2'", [factor.user_id]);
  await tx.query("delete from auth.mfa_factors where user_id = $1 and status = 'unverified' and factor_type = 'totp'", [
    factor.user_id,
  ]);
  const user = await getUserById(tx, { id: factor.user_id });
  return tokenResponse(tx, { deps, user, session, refreshToken });
}

/**
 * Returns the session's next refresh token. With version 2 tokens, the counter skips one number. If it did not, the
 * previous token would be only one step behind and could be exchanged for a token at aal2.
 */
async function nextRefreshToken(tx: Sql, { deps, session }: { deps: Deps; session: Session }): Promise<string> {
  if (session.refresh_token_hmac_key && session.refresh_token_counter !== null) {
    const counter = BigInt(session.refresh_token_counter) + 2n;
    await tx.query("update auth.sessions set refresh_token_counter = $2 where id = $1", [session.id, counter]);
    return encodeRefreshToken(session.id, counter, hmacKeyOf(session));
  }
  const token = await one<RefreshToken>(
    tx,
    "select * from auth.refresh_tokens where session_id = $1 and not revoked order by created_at, id limit 1",
    [session.id],
  );
  if (!token) throw unexpected("The session has no refresh token that is good");
  return swapRefreshToken(tx, { deps, token });
}
