import { parseDuration } from "../config/values.ts";
import { type Sql, transaction } from "../db.ts";
import { confirmUser, softDeleteUser, storePassword } from "./confirm.ts";
import type { Deps } from "./deps.ts";
import { parseEmail } from "./email-address.ts";
import { AuthError, invalid, unexpected } from "./errors.ts";
import { emailClaims, findIdentity, insertIdentity, mergeIdentityData } from "./identities.ts";
import { hashPassword, requireStrong, requireUsableHash } from "./passwords.ts";
import { randomPassword } from "./random.ts";
import { createUser, findEmailOwner, isUniqueViolation } from "./sign-up.ts";
import { getUserById, instanceId, type Metadata, many, mergeMetadata, type User, updateUser } from "./users.ts";

export type AdminUser = {
  id: string;
  aud: string;
  role: string;
  email: string;
  password?: string | undefined;
  passwordHash: string;
  emailConfirm: boolean;
  userMetadata?: Metadata | undefined;
  appMetadata?: Metadata | undefined;
  banDuration: string;
};

const uuidForm = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** Returns whether a text is a UUID of any version. */
export function isUuid(text: string): boolean {
  return uuidForm.test(text);
}

/** @returns the end of the ban; null if the duration lifts the ban; undefined if no duration is given */
function parseBan(duration: string, now: Date): Date | null | undefined {
  if (!duration) return undefined;
  const ms = duration === "none" ? 0 : parseDuration(duration);
  if (ms === undefined) throw invalid(`invalid format for ban duration: time: invalid duration "${duration}"`);
  const until = new Date(now.getTime() + ms);
  if (Number.isNaN(until.getTime()))
    throw invalid(`invalid format for ban duration: time: invalid duration "${duration}"`);
  return ms === 0 ? null : until;
}

/**
 * Adds an account without checking the password's strength. If no password is given, the account gets a random one.
 * @throws AuthError 422 email_exists; 400 validation_failed; 500 if another account has the id
 */
export async function createUserAsAdmin(deps: Deps, attributes: AdminUser & { requestAud: string }): Promise<User> {
  if (!attributes.email) throw invalid("Cannot create a user without either an email or phone");
  const email = parseEmail(attributes.email);
  const aud = attributes.aud || attributes.requestAud;
  if (await findEmailOwner(deps.db, { email, aud })) throw emailExists();
  if (attributes.password !== undefined && attributes.passwordHash) {
    throw invalid("Only a password or a password hash should be provided");
  }
  if (attributes.passwordHash) requireUsableHash(attributes.passwordHash);
  if (attributes.id && (!isUuid(attributes.id) || attributes.id === instanceId)) {
    throw invalid("ID must conform to the uuid v4 format");
  }
  const bannedUntil = parseBan(attributes.banDuration, deps.clock());
  const passwordHash =
    attributes.passwordHash || (await hashPassword(attributes.password || randomPassword(deps.random), deps.config));
  try {
    return await transaction(deps.db, async (tx) => {
      const user = await createUser(tx, {
        deps,
        ...(attributes.id ? { id: attributes.id } : {}),
        email,
        aud,
        ...(attributes.role ? { role: attributes.role } : {}),
        passwordHash,
        provider: "email",
        userMetadata: attributes.userMetadata ?? {},
      });
      await insertIdentity(tx, { deps, userId: user.id, provider: "email", data: emailClaims(user.id, email) });
      let current = await getUserById(tx, { id: user.id });
      const change = async (changes: Parameters<typeof updateUser>[1]["changes"]) => {
        current = await updateUser(tx, { id: user.id, now: deps.clock(), changes });
      };
      // The order of statements is Supabase Auth's: triggers depend on it.
      if (attributes.appMetadata) {
        await change({ raw_app_meta_data: mergeMetadata(current.raw_app_meta_data, attributes.appMetadata) });
      }
      if (attributes.emailConfirm) current = await confirmUser(tx, deps, current);
      if (bannedUntil) await change({ banned_until: bannedUntil });
      // Supabase Auth's response omits confirmed_at, which the database derives from the confirmation.
      return { ...current, confirmed_at: null };
    });
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
    // A concurrent request may have created an account with this email; otherwise, the id is in use.
    if (await findEmailOwner(deps.db, { email, aud })) throw emailExists();
    throw unexpected("Database error creating new user", error);
  }
}

function emailExists(): AuthError {
  return new AuthError(422, "email_exists", "A user with this email address has already been registered");
}

/**
 * Changes an account. A new password ends all sessions of the account. Metadata is merged into values that were read
 * without a lock.
 * @throws AuthError 422 weak_password; 400 validation_failed; 500 if another account has the email
 */
export async function updateUserAsAdmin(deps: Deps, user: User, attributes: AdminUser): Promise<User> {
  const email = attributes.email ? parseEmail(attributes.email) : "";
  const bannedUntil = parseBan(attributes.banDuration, deps.clock());
  if (attributes.password !== undefined) requireStrong(attributes.password, deps.config);
  const passwordHash = attributes.password ? await hashPassword(attributes.password, deps.config) : null;
  try {
    return await transaction(deps.db, async (tx) => {
      let current = user;
      if (attributes.emailConfirm) current = await confirmUser(tx, deps, current);
      if (attributes.password !== undefined)
        current = await storePassword(tx, { deps, user: current, hash: passwordHash });
      if (email) await storeEmailIdentity(tx, { deps, user: current, email, verified: attributes.emailConfirm });
      return updateUser(tx, {
        id: user.id,
        now: deps.clock(),
        changes: {
          ...(attributes.role ? { role: attributes.role.trim() } : {}),
          ...(email ? { email } : {}),
          ...(email && attributes.emailConfirm ? { is_anonymous: false } : {}),
          ...(attributes.appMetadata
            ? { raw_app_meta_data: mergeMetadata(current.raw_app_meta_data, attributes.appMetadata) }
            : {}),
          ...(attributes.userMetadata
            ? { raw_user_meta_data: mergeMetadata(current.raw_user_meta_data, attributes.userMetadata) }
            : {}),
          ...(bannedUntil === undefined ? {} : { banned_until: bannedUntil }),
        },
      });
    });
  } catch (error) {
    throw error instanceof AuthError ? error : unexpected("Error updating user", error);
  }
}

async function storeEmailIdentity(
  tx: Sql,
  { deps, user, email, verified }: { deps: Deps; user: User; email: string; verified: boolean },
): Promise<void> {
  const identity = await findIdentity(tx, { provider: "email", subject: user.id });
  if (identity) await mergeIdentityData(tx, identity, { email, email_verified: verified });
  else
    await insertIdentity(tx, { deps, userId: user.id, provider: "email", data: emailClaims(user.id, email, verified) });
}

/** Deletes an account with all its data, or (`soft`) disables it. A second soft deletion changes nothing. */
export async function deleteUserAsAdmin(deps: Deps, user: User, { soft }: { soft: boolean }): Promise<void> {
  await transaction(deps.db, async (tx) => {
    if (!soft) await tx.query("delete from auth.users where id = $1", [user.id]);
    else if (!user.deleted_at) await softDeleteUser(tx, deps, user);
  });
}

/** The largest offset that Postgres accepts. */
const maxOffset = 2n ** 63n - 1n;

export type UserPage = { page: bigint; perPage: bigint; filter: string; ascending: boolean; aud: string };

/** Returns a page of the accounts, newest first unless `ascending`, and the total number. */
export async function listUsers(
  { db }: Deps,
  { page, perPage, filter, ascending, aud }: UserPage,
): Promise<{ users: User[]; total: bigint }> {
  const where = `from auth.users where instance_id = $1 and aud = $2
    and ($3 = '' or email like '%' || $3 || '%' or raw_user_meta_data ->> 'full_name' ilike '%' || $3 || '%')`;
  const values = [instanceId, aud, filter];
  const offset = (page - 1n) * perPage;
  const [countRow] = await many<{ total: string }>(db, `select count(*) as total ${where}`, values);
  const users = await many<User>(
    db,
    `select * ${where} order by created_at ${ascending ? "asc" : "desc"} limit $4 offset $5`,
    [...values, perPage, offset > maxOffset ? maxOffset : offset],
  );
  return { users, total: BigInt(countRow?.total ?? 0) };
}
