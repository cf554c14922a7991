import { Secret, TOTP } from "otpauth";
import { toString as renderQrCode } from "qrcode";
import { one, type Sql, transaction } from "../db.ts";
import { isUuid } from "./admin-users.ts";
import type { Caller, Deps } from "./deps.ts";
import { AuthError, invalid, unexpected } from "./errors.ts";
import type { Session } from "./sessions.ts";
import { findUserById, type User } from "./users.ts";
import { type Factor, listFactors } from "./wire-user.ts";

const secretBytes = 20;

/** Creates the TOTP of authenticator apps (RFC 6238): SHA-1, six digits, 30 seconds. */
export function totpOf(secret: string, label = "", issuer = ""): TOTP {
  return new TOTP({ issuer, label, algorithm: "SHA1", digits: 6, period: 30, secret: Secret.fromBase32(secret) });
}

/**
 * Returns the user's own factor with this id.
 * @throws AuthError 404 mfa_factor_not_found, validation_failed
 */
export async function requireFactor(sql: Sql, { id, userId }: { id: string; userId: string }): Promise<Factor> {
  if (!isUuid(id)) throw new AuthError(404, "validation_failed", "factor_id must be an UUID");
  const factor = await one<Factor>(sql, "select * from auth.mfa_factors where id = $1 and user_id = $2", [id, userId]);
  if (!factor) throw new AuthError(404, "mfa_factor_not_found", "Factor not found");
  return factor;
}

export type Enrollment = { user: User; session: Session; friendlyName: string; issuer: string };

/**
 * Starts the enrollment of an authenticator app. Two factors of one user cannot share a name, not even the empty one.
 * @throws AuthError 422 mfa_factor_name_conflict, too_many_enrolled_mfa_factors, mfa_totp_enroll_not_enabled; 403
 * insufficient_aal
 */
export async function enrollTotp(deps: Deps, { user, session, friendlyName, issuer }: Enrollment) {
  if (!deps.config.GOTRUE_MFA_TOTP_ENROLL_ENABLED) {
    throw new AuthError(422, "mfa_totp_enroll_not_enabled", "MFA enroll is disabled for TOTP");
  }
  const secret = new Secret({ buffer: Uint8Array.from(deps.random.bytes(secretBytes)).buffer }).base32;
  const uri = totpOf(secret, user.email ?? user.id, issuer || new URL(deps.config.GOTRUE_SITE_URL).host).toString();
  const id = deps.random.uuid();
  await transaction(deps.db, async (tx) => {
    await findUserById(tx, { id: user.id, lock: true });
    await requireMayEnroll(tx, { deps, userId: user.id, session, friendlyName });
    await tx.query(
      `insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, secret, created_at, updated_at)
       values ($1, $2, $3, 'totp', 'unverified', $4, $5, $5)`,
      [id, user.id, friendlyName, secret, deps.clock()],
    );
  });
  const qr_code = await renderQrCode(uri, { type: "svg", errorCorrectionLevel: "M", margin: 2 });
  return { id, type: "totp", friendly_name: friendlyName, totp: { qr_code, secret, uri } };
}

async function requireMayEnroll(
  tx: Sql,
  { deps, userId, session, friendlyName }: { deps: Deps; userId: string; session: Session; friendlyName: string },
): Promise<void> {
  const { config, clock } = deps;
  await tx.query(
    `delete from auth.mfa_factors f where f.status <> 'verified' and f.created_at < $1
       and not exists (select from auth.mfa_challenges c where c.factor_id = f.id)`,
    [new Date(clock().getTime() - config.GOTRUE_MFA_FACTOR_EXPIRY_DURATION)],
  );
  const factors = await listFactors(tx, userId);
  const verified = factors.filter((factor) => factor.status === "verified").length;
  if (factors.some((factor) => (factor.friendly_name ?? "") === friendlyName)) {
    throw new AuthError(
      422,
      "mfa_factor_name_conflict",
      `A factor with the friendly name "${friendlyName}" for this user already exists`,
    );
  }
  if (factors.length >= config.GOTRUE_MFA_MAX_ENROLLED_FACTORS || verified >= config.GOTRUE_MFA_MAX_VERIFIED_FACTORS) {
    throw new AuthError(
      422,
      "too_many_enrolled_mfa_factors",
      "Maximum number of verified factors reached, unenroll to continue",
    );
  }
  if (verified > 0 && session.aal !== "aal2") {
    throw new AuthError(403, "insufficient_aal", "AAL2 required to enroll a new factor");
  }
}

/** Creates a challenge bound to the requester's IP address. */
export async function challengeFactor(deps: Deps, { factor, caller }: { factor: Factor; caller: Caller }) {
  requireTotp(factor);
  if (!deps.config.GOTRUE_MFA_TOTP_VERIFY_ENABLED) {
    throw new AuthError(422, "mfa_totp_verify_not_enabled", "MFA verification is disabled for TOTP");
  }
  const id = deps.random.uuid();
  const now = deps.clock();
  await transaction(deps.db, async (tx) => {
    // This update comes first because it locks the factor. Otherwise, concurrent challenges could deadlock. It adds a
    // random fraction, since last_challenged_at is unique and the clock has only milliseconds.
    await tx.query(
      "update auth.mfa_factors set last_challenged_at = $2::timestamptz + make_interval(secs => $3), updated_at = $2 where id = $1",
      [factor.id, now, deps.random.integer(1_000_000) / 1e9],
    );
    await tx.query("insert into auth.mfa_challenges (id, factor_id, created_at, ip_address) values ($1, $2, $3, $4)", [
      id,
      factor.id,
      now,
      caller.ip || "0.0.0.0",
    ]);
  });
  return {
    id,
    type: factor.factor_type,
    expires_at: Math.floor(now.getTime() / 1_000) + deps.config.GOTRUE_MFA_CHALLENGE_EXPIRY_DURATION,
  };
}

/** @throws AuthError 501 for a factor enrolled by another server */
export function requireTotp(factor: Factor): void {
  if (factor.factor_type === "totp") return;
  throw new AuthError(501, "not_implemented", `The local identity server has no ${factor.factor_type} factors`);
}

/**
 * Removes one of the user's own factors. Sessions raised by the factor drop to aal1.
 * @throws AuthError 422 insufficient_aal for a verified factor at aal1
 */
export async function unenroll(deps: Deps, { factor, session }: { factor: Factor; session: Session }): Promise<void> {
  if (factor.status === "verified" && session.aal !== "aal2") {
    throw new AuthError(422, "insufficient_aal", "AAL2 required to unenroll verified factor");
  }
  await removeFactor(deps, factor);
}

/** Deletes a factor. Sessions that the factor raised to aal2 return to aal1 and lose its authentication method. */
export async function removeFactor(deps: Deps, factor: Factor): Promise<void> {
  const methods = { totp: "totp", phone: "mfa/phone", webauthn: "mfa/webauthn" } as const;
  await transaction(deps.db, async (tx) => {
    await tx.query("delete from auth.mfa_factors where id = $1", [factor.id]);
    await tx.query(
      `delete from auth.mfa_amr_claims where authentication_method = $2
         and session_id in (select id from auth.sessions where factor_id = $1)`,
      [factor.id, methods[factor.factor_type]],
    );
    await tx.query(
      "update auth.sessions set aal = 'aal1', factor_id = null, updated_at = $3 where user_id = $1 and factor_id = $2",
      [factor.user_id, factor.id, deps.clock()],
    );
  });
}

/** Renames a factor. @throws AuthError 422 mfa_factor_name_conflict */
export async function renameFactor(deps: Deps, factor: Factor, friendlyName: string): Promise<Factor> {
  if (!friendlyName) return factor;
  const isTaken = (await listFactors(deps.db, factor.user_id)).some(
    (other) => other.id !== factor.id && other.friendly_name === friendlyName,
  );
  if (isTaken) throw invalid("Another factor of this user has that name");
  const renamed = await one<Factor>(
    deps.db,
    "update auth.mfa_factors set friendly_name = $2, updated_at = $3 where id = $1 returning *",
    [factor.id, friendlyName, deps.clock()],
  );
  if (!renamed) throw unexpected("Database error updating factor");
  return renamed;
}
