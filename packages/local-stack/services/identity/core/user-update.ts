import { type Sql, transaction } from "../db.ts";
import { storePassword } from "./confirm.ts";
import type { Deps } from "./deps.ts";
import { parseEmail } from "./email-address.ts";
import { AuthError } from "./errors.ts";
import { clearOneTimeTokens, hashToken } from "./one-time-tokens.ts";
import { hashPassword, passwordMatches, requireStrong } from "./passwords.ts";
import { type Challenge, insertFlow } from "./pkce.ts";
import { sendEmailChange } from "./send-email.ts";
import { assurance, type Session } from "./sessions.ts";
import { findEmailOwner } from "./sign-up.ts";
import { hasSecondFactor } from "./tokens.ts";
import { getUserById, type Metadata, mergeMetadata, type User, updateUser } from "./users.ts";
import { isExpired, isSameHash } from "./verify.ts";

/** How long after a sign-in the password can be changed without an emailed code. */
const recentSignInMs = 86_400_000;
/** Methods that prove access to the user's mailbox. */
const mailboxMethods = ["otp", "magiclink", "recovery"];

export type UserUpdate = {
  email: string;
  password?: string | undefined;
  currentPassword: string;
  nonce: string;
  data?: Metadata | undefined;
  appMetadata?: Metadata | undefined;
  challenge?: Challenge | undefined;
  redirectTo: string;
};

type Context = { deps: Deps; user: User; session: Session | undefined };

/**
 * Updates the fields that users may change in their own account.
 * @throws AuthError 422 weak_password, same_password, email_exists, reauthentication_not_valid; 403 not_admin; 401
 * insufficient_aal; 400 validation_failed, reauthentication_needed, current_password_*; 429
 */
export async function updateOwnUser(context: Context, attributes: UserUpdate): Promise<User> {
  const { deps, user, session } = context;
  const update = { ...attributes, email: attributes.email ? parseEmail(attributes.email) : "" };
  const { password } = update;
  if (password !== undefined) requireStrong(password, deps.config);
  const isAdmin = user.aud === deps.config.GOTRUE_JWT_AUD && user.role === deps.config.GOTRUE_JWT_ADMIN_GROUP_NAME;
  if (update.appMetadata && !isAdmin) {
    throw new AuthError(403, "not_admin", "Updating app_metadata requires admin privileges");
  }
  const newEmail = update.email !== "" && update.email !== user.email ? update.email : "";
  await requireLevel(context, { changesCredential: !!password || newEmail !== "" });
  if (user.is_sso_user && (password || newEmail || update.nonce)) {
    throw new AuthError(
      422,
      "user_sso_managed",
      "Updating email, phone, password of a SSO account only possible via SSO",
    );
  }
  if (newEmail && (await findEmailOwner(deps.db, { email: newEmail, aud: user.aud, except: user.id }))) {
    throw new AuthError(422, "email_exists", "A user with this email address has already been registered");
  }
  const passwordHash = password === undefined ? undefined : await requireNewPassword(context, { ...update, password });

  return transaction(deps.db, async (tx) => {
    let current = await getUserById(tx, { id: user.id, lock: true });
    if (passwordHash !== undefined) {
      current = await storePassword(tx, { deps, user: current, hash: passwordHash, keepSession: session?.id });
    }
    current = await storeMetadata(tx, { deps, user: current, update });
    if (newEmail) current = await beginEmailChange(tx, { deps, user: current, update, newEmail });
    return current;
  });
}

async function requireLevel({ deps, user, session }: Context, { changesCredential }: { changesCredential: boolean }) {
  if (!changesCredential || session?.aal === "aal2" || !(await hasSecondFactor(deps.db, user.id))) return;
  throw new AuthError(
    401,
    "insufficient_aal",
    "AAL2 session is required to update email or password when MFA is enabled.",
  );
}

async function requireNewPassword(
  context: Context,
  { password, currentPassword, nonce }: { password: string; currentPassword: string; nonce: string },
): Promise<string | null> {
  const { deps, user, session } = context;
  const { config } = deps;
  if (config.GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION) {
    const recent = session && deps.clock().getTime() <= session.created_at.getTime() + recentSignInMs;
    if (!recent) await requireReauthentication(context, nonce);
  }
  if (user.encrypted_password) {
    if (config.GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD && !(await hasProvenMailbox(context))) {
      const message = "Current password required when setting new password.";
      if (!currentPassword) throw new AuthError(400, "current_password_required", message);
      if (!(await passwordMatches(currentPassword, user.encrypted_password))) {
        throw new AuthError(400, "current_password_invalid", message);
      }
    }
    if (await passwordMatches(password, user.encrypted_password)) {
      throw new AuthError(422, "same_password", "New password should be different from the old password.");
    }
  }
  return hashPassword(password, config);
}

async function hasProvenMailbox({ deps, session }: Context): Promise<boolean> {
  if (!session) return false;
  const { amr } = await assurance(deps.db, session.id);
  return amr.some(({ method }) => mailboxMethods.includes(method));
}

/** Redeems the emailed code. The code is used up even if the change itself then fails. */
async function requireReauthentication({ deps, user }: Context, nonce: string): Promise<void> {
  if (!nonce) throw new AuthError(400, "reauthentication_needed", "Password update requires reauthentication");
  await transaction(deps.db, async (tx) => {
    const locked = await getUserById(tx, { id: user.id, lock: true });
    const { reauthentication_token: stored, reauthentication_sent_at: sent } = locked;
    if (!stored || isExpired(sent, deps) || !isSameHash(stored, hashToken(locked.email ?? "", nonce))) {
      throw new AuthError(422, "reauthentication_not_valid", "Nonce has expired or is invalid");
    }
    await clearOneTimeTokens(tx, user.id);
    await updateUser(tx, { id: user.id, now: deps.clock(), changes: { reauthentication_token: "" } });
  });
}

async function storeMetadata(
  tx: Sql,
  { deps, user, update }: { deps: Deps; user: User; update: UserUpdate },
): Promise<User> {
  if (!update.data && !update.appMetadata) return user;
  return updateUser(tx, {
    id: user.id,
    now: deps.clock(),
    changes: {
      ...(update.data ? { raw_user_meta_data: mergeMetadata(user.raw_user_meta_data, update.data) } : {}),
      ...(update.appMetadata ? { raw_app_meta_data: mergeMetadata(user.raw_app_meta_data, update.appMetadata) } : {}),
    },
  });
}

async function beginEmailChange(
  tx: Sql,
  { deps, user, update, newEmail }: { deps: Deps; user: User; update: UserUpdate; newEmail: string },
): Promise<User> {
  const { challenge, redirectTo } = update;
  if (challenge) {
    await insertFlow(tx, deps, { providerType: "email_change", method: "email_change", challenge, userId: user.id });
  }
  return sendEmailChange(tx, { deps, user, newEmail, redirectTo, pkce: !!challenge });
}
