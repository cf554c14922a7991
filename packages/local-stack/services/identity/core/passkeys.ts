import { one, type Sql } from "../db.ts";
import { isUuid } from "./admin-users.ts";
import type { Deps } from "./deps.ts";
import { AuthError, invalid, unexpected } from "./errors.ts";
import type { Session } from "./sessions.ts";
import { hasSecondFactor } from "./tokens.ts";
import { many, type User } from "./users.ts";

/** The offered COSE algorithms, in order of preference. */
export const algorithms = [-7, -35, -36, -257, -258, -259, -37, -38, -39, -8];
const challengeBytes = 32;
const maxNameBytes = 120;

export type Passkey = {
  id: string;
  user_id: string;
  credential_id: Buffer;
  public_key: Buffer;
  sign_count: string;
  transports: string[];
  backup_eligible: boolean;
  friendly_name: string;
  created_at: Date;
  last_used_at: Date | null;
};

/** Converts a passkey to its response format. */
export function wirePasskey(passkey: Passkey) {
  return {
    id: passkey.id,
    friendly_name: passkey.friendly_name || undefined,
    created_at: passkey.created_at,
    last_used_at: passkey.last_used_at ?? undefined,
  };
}

/** Returns a user's passkeys, oldest first. */
export function listPasskeys(sql: Sql, userId: string): Promise<Passkey[]> {
  return many<Passkey>(sql, "select * from auth.webauthn_credentials where user_id = $1 order by created_at, id", [
    userId,
  ]);
}

/**
 * Requires aal2 from a user with a second factor.
 * @throws AuthError 403 insufficient_aal
 */
export async function requirePasskeyLevel(deps: Deps, { user, session }: { user: User; session: Session | undefined }) {
  if (session?.aal === "aal2" || !(await hasSecondFactor(deps.db, user.id))) return;
  throw new AuthError(403, "insufficient_aal", "AAL2 session is required to manage passkeys when MFA is enabled");
}

/** Requires that the account may have another passkey. @throws AuthError 422 too_many_passkeys */
export function requireRoom(passkeys: Passkey[], { config }: Deps): void {
  if (passkeys.length < config.GOTRUE_PASSKEY_MAX_PASSKEYS_PER_USER) return;
  throw new AuthError(422, "too_many_passkeys", "Maximum number of passkeys reached");
}

export type Ceremony = "registration" | "authentication";

async function beginCeremony(deps: Deps, { type, userId }: { type: Ceremony; userId: string | null }) {
  const id = deps.random.uuid();
  const challenge = deps.random.bytes(challengeBytes).toString("base64url");
  const now = deps.clock();
  const expiresAt = new Date(now.getTime() + deps.config.GOTRUE_WEBAUTHN_CHALLENGE_EXPIRY_DURATION);
  await deps.db.query(
    `insert into auth.webauthn_challenges (id, user_id, challenge_type, session_data, created_at, expires_at)
     values ($1, $2, $3, $4, $5, $6)`,
    [id, userId, type, { challenge }, now, expiresAt],
  );
  return { challenge_id: id, challenge, expires_at: Math.floor(expiresAt.getTime() / 1_000) };
}

/**
 * Deletes a challenge and returns it. A challenge allows only one attempt, even if the attempt fails.
 * @throws AuthError 400 webauthn_challenge_not_found, webauthn_challenge_expired
 */
export async function takeChallenge(
  deps: Deps,
  { id, type, userId }: { id: string; type: Ceremony; userId: string | null },
): Promise<string> {
  if (!isUuid(id)) throw invalid("challenge_id must be a valid UUID");
  const row = await one<{ session_data: { challenge?: string }; expires_at: Date }>(
    deps.db,
    `delete from auth.webauthn_challenges where id = $1 and challenge_type = $2 and user_id is not distinct from $3
     returning session_data, expires_at`,
    [id, type, userId],
  );
  if (!row) throw new AuthError(400, "webauthn_challenge_not_found", "Challenge not found or already used");
  if (deps.clock() > row.expires_at) {
    throw new AuthError(400, "webauthn_challenge_expired", "Challenge has expired");
  }
  return row.session_data.challenge ?? "";
}

/** Returns options for `navigator.credentials.create` in JSON (WebAuthn Level 3, section 5.4). */
export async function registrationOptions(deps: Deps, user: User) {
  const { config } = deps;
  const passkeys = await listPasskeys(deps.db, user.id);
  requireRoom(passkeys, deps);
  const { challenge_id, challenge, expires_at } = await beginCeremony(deps, { type: "registration", userId: user.id });
  const name = user.email ?? user.phone ?? "";
  const displayName = user.raw_user_meta_data?.name;
  return {
    challenge_id,
    options: {
      rp: { name: config.GOTRUE_WEBAUTHN_RP_DISPLAY_NAME, id: config.GOTRUE_WEBAUTHN_RP_ID },
      user: {
        id: Buffer.from(user.id).toString("base64url"),
        name,
        displayName: typeof displayName === "string" && displayName ? displayName : name,
      },
      challenge,
      pubKeyCredParams: algorithms.map((alg) => ({ type: "public-key", alg })),
      timeout: config.GOTRUE_WEBAUTHN_CHALLENGE_EXPIRY_DURATION,
      ...(passkeys.length > 0
        ? {
            excludeCredentials: passkeys.map((passkey) => ({
              type: "public-key",
              id: passkey.credential_id.toString("base64url"),
            })),
          }
        : {}),
      authenticatorSelection: { residentKey: "required", userVerification: "preferred" },
      attestation: "none",
    },
    expires_at,
  };
}

/** Returns options for `navigator.credentials.get` that allow any passkey of this site. */
export async function authenticationOptions(deps: Deps) {
  const { config } = deps;
  const { challenge_id, challenge, expires_at } = await beginCeremony(deps, { type: "authentication", userId: null });
  return {
    challenge_id,
    options: {
      challenge,
      timeout: config.GOTRUE_WEBAUTHN_CHALLENGE_EXPIRY_DURATION,
      rpId: config.GOTRUE_WEBAUTHN_RP_ID,
      userVerification: "preferred",
    },
    expires_at,
  };
}

function absent(): AuthError {
  return new AuthError(404, "validation_failed", "Passkey not found");
}

/** Requires a well-formed passkey id. @throws AuthError 404 validation_failed */
export function requirePasskeyId(id: string): void {
  if (!isUuid(id)) throw absent();
}

type Owned = { id: string; userId: string };

/**
 * Renames one of the user's passkeys.
 * @throws AuthError 404 validation_failed if the passkey is not the user's; 400 for a name of 0 or over 120 bytes
 */
export async function renamePasskey(deps: Deps, { id, userId }: Owned, friendlyName: string): Promise<Passkey> {
  requirePasskeyId(id);
  if (!friendlyName) throw invalid("friendly_name is required");
  if (Buffer.byteLength(friendlyName) > maxNameBytes) {
    throw invalid(`friendly_name must be ${maxNameBytes} characters or less`);
  }
  const passkey = await one<Passkey>(
    deps.db,
    `update auth.webauthn_credentials set friendly_name = $3, updated_at = $4 where id = $1 and user_id = $2
     returning *`,
    [id, userId, friendlyName, deps.clock()],
  );
  if (!passkey) throw absent();
  return passkey;
}

/**
 * Deletes one of the user's passkeys.
 * @throws AuthError 404 validation_failed if the passkey is not the user's
 */
export async function deletePasskey(deps: Deps, { id, userId }: Owned): Promise<void> {
  requirePasskeyId(id);
  const { rowCount } = await deps.db.query("delete from auth.webauthn_credentials where id = $1 and user_id = $2", [
    id,
    userId,
  ]);
  if (!rowCount) throw absent();
}

/** Records a use. Ignores a counter that went backwards, since synchronized passkeys have no counter. */
export async function recordUse(sql: Sql, { deps, id, counter }: { deps: Deps; id: string; counter: number }) {
  const { rowCount } = await sql.query(
    `update auth.webauthn_credentials set sign_count = greatest(sign_count, $2), last_used_at = $3, updated_at = $3
     where id = $1`,
    [id, counter, deps.clock()],
  );
  if (!rowCount) throw unexpected("Database error updating passkey");
}
