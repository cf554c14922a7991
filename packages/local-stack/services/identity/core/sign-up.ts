import type { Config } from "../config/config.ts";
import { type Sql, sqlState, transaction } from "../db.ts";
import { confirmUser } from "./confirm.ts";
import type { Caller, Deps } from "./deps.ts";
import { parseEmail } from "./email-address.ts";
import { AuthError, invalid, unexpected } from "./errors.ts";
import { dropUnconfirmedIdentities, emailClaims, findIdentity, insertIdentity } from "./identities.ts";
import { hashPassword, requireStrong } from "./passwords.ts";
import { type Challenge, insertFlow } from "./pkce.ts";
import { sendEmailToken } from "./send-email.ts";
import { type SignedIn, signIn } from "./tokens.ts";
import {
  blankUser,
  findUserByEmail,
  findUserById,
  getUserById,
  insertUser,
  type Metadata,
  many,
  type User,
} from "./users.ts";
import { type Factor, listFactors, loadWireUser, type WireUser, wireUser } from "./wire-user.ts";

const uniqueViolation = "23505";

export type SignUp = {
  email: string;
  password: string;
  data: Metadata;
  challenge?: Challenge | undefined;
  aud: string;
  redirectTo: string;
  caller: Caller;
};

/** @throws AuthError 422 signup_disabled, weak_password; 400 validation_failed without a password */
export function requireSignUps(config: Config, password: string): void {
  if (config.GOTRUE_DISABLE_SIGNUP) {
    throw new AuthError(422, "signup_disabled", "Signups not allowed for this instance");
  }
  if (!password) throw invalid("Signup requires a valid password");
  requireStrong(password, config);
}

/**
 * Signs up with an email and a password. If the email is unconfirmed, sends the confirmation again. If a confirmed
 * account has the email, the response is made up so as not to reveal that.
 * @throws AuthError 422 signup_disabled, weak_password, user_already_exists; 400 validation_failed,
 * email_provider_disabled; 429 over_email_send_rate_limit
 */
export async function signUp(deps: Deps, request: SignUp): Promise<{ user: WireUser } | { signedIn: SignedIn }> {
  const { config } = deps;
  requireSignUps(config, request.password);
  if (!config.GOTRUE_EXTERNAL_EMAIL_ENABLED) {
    throw new AuthError(400, "email_provider_disabled", "Email signups are disabled");
  }
  const email = parseEmail(request.email);
  const known = await findEmailOwner(deps.db, { email, aud: request.aud });
  const passwordHash = known ? "" : await hashPassword(request.password, deps.config);
  try {
    return await transaction(deps.db, (tx) => signUpIn(tx, { deps, request: { ...request, email }, passwordHash }));
  } catch (error) {
    // A concurrent request with this email was first, so the account exists now.
    if (known || !isUniqueViolation(error)) throw error;
    return transaction(deps.db, (tx) => signUpIn(tx, { deps, request: { ...request, email }, passwordHash }));
  }
}

type Attempt = { deps: Deps; request: SignUp; passwordHash: string };

async function signUpIn(tx: Sql, { deps, request, passwordHash }: Attempt) {
  const { email, aud, caller, challenge, redirectTo } = request;
  const owner = await findEmailOwner(tx, { email, aud });
  let user = owner && (await findUserById(tx, { id: owner.id, lock: true }));
  if (user?.email_confirmed_at) {
    if (deps.config.GOTRUE_MAILER_AUTOCONFIRM) {
      throw new AuthError(422, "user_already_exists", "User already registered");
    }
    return { user: fakeUser(deps, { request, owner: user, factors: await listFactors(tx, user.id) }) };
  }
  user = user
    ? await ensureEmailIdentity(tx, { deps, user, data: request.data })
    : await createSignedUpUser(tx, { deps, request, passwordHash });
  if (deps.config.GOTRUE_MAILER_AUTOCONFIRM) {
    const confirmed = await confirmUser(tx, deps, user);
    return { signedIn: await signIn(tx, { deps, user: confirmed, method: "password", caller }) };
  }
  if (challenge) {
    await insertFlow(tx, deps, { providerType: "email", method: "email/signup", challenge, userId: user.id });
  }
  user = await sendEmailToken(tx, { deps, user, type: "signup", redirectTo, pkce: !!challenge });
  const wire = await loadWireUser(tx, user);
  return { user: user.invited_at ? { ...wire, user_metadata: {}, identities: [] } : wire };
}

/**
 * Adds an account with an email identity for an invitation or a link that an administrator requests. Does not copy the
 * identity's claims to user_metadata.
 */
export async function createEmailUser(
  tx: Sql,
  {
    deps,
    request,
    passwordHash,
  }: { deps: Deps; request: Pick<SignUp, "email" | "aud" | "data">; passwordHash: string },
): Promise<User> {
  const { email, aud, data } = request;
  const { id } = await createUser(tx, { deps, email, aud, passwordHash, provider: "email", userMetadata: data });
  await insertIdentity(tx, { deps, userId: id, provider: "email", data: emailClaims(id, email) });
  return getUserById(tx, { id, lock: true });
}

/**
 * Adds an account that signed up. The request's data is copied to the identity, and the identity's claims to
 * user_metadata.
 */
async function createSignedUpUser(tx: Sql, { deps, request, passwordHash }: Attempt): Promise<User> {
  const { email, aud, data } = request;
  const { id } = await createUser(tx, { deps, email, aud, passwordHash, provider: "email", userMetadata: data });
  return ensureEmailIdentity(tx, { deps, user: await getUserById(tx, { id, lock: true }), data });
}

/**
 * Inserts an account's row.
 * @throws AuthError 500 if an application trigger refuses it; a unique violation is rethrown unchanged
 */
export async function createUser(
  tx: Sql,
  newUser: {
    deps: Deps;
    id?: string;
    email: string | null;
    aud: string;
    role?: string;
    passwordHash: string | null;
    provider: string;
    userMetadata: Metadata;
  },
): Promise<User> {
  const { deps, id, email, aud, role, passwordHash, provider, userMetadata } = newUser;
  try {
    return await insertUser(tx, {
      id: id ?? deps.random.uuid(),
      aud,
      role: role ?? deps.config.GOTRUE_JWT_DEFAULT_GROUP_NAME,
      email,
      encrypted_password: passwordHash,
      appMetadata: { provider, providers: [provider] },
      userMetadata,
      now: deps.clock(),
    });
  } catch (error) {
    if (isUniqueViolation(error)) throw error;
    throw unexpected("Database error saving new user", error);
  }
}

async function ensureEmailIdentity(
  tx: Sql,
  { deps, user, data }: { deps: Deps; user: User; data: Metadata },
): Promise<User> {
  if (await findIdentity(tx, { provider: "email", subject: user.id })) return user;
  const identity = await insertIdentity(tx, {
    deps,
    userId: user.id,
    provider: "email",
    data: { ...data, ...emailClaims(user.id, user.email ?? "") },
  });
  return dropUnconfirmedIdentities(tx, { user, identity, now: deps.clock() });
}

/**
 * Finds the account that an email belongs to. Searches the identities first, and then the accounts' own emails. Ignores
 * the identities of the account `except`.
 */
export async function findEmailOwner(
  sql: Sql,
  { email, aud, except }: { email: string; aud: string; except?: string },
): Promise<User | undefined> {
  const identities = await many<{ user_id: string }>(
    sql,
    "select distinct user_id from auth.identities where email = $1 and provider not like 'sso:%'",
    [email.toLowerCase()],
  );
  for (const { user_id } of identities) {
    if (user_id === except) continue;
    const user = await findUserById(sql, { id: user_id });
    if (user?.aud === aud) return user;
  }
  return findUserByEmail(sql, { email, aud });
}

/**
 * Returns a made-up user in place of the email's owner. Like Supabase Auth, copies the owner's ban, second factors, and
 * the times at which some emails were sent, but not the owner's id.
 */
function fakeUser(
  deps: Deps,
  { request: { email, aud, data }, owner, factors }: { request: SignUp; owner: User; factors: Factor[] },
): WireUser {
  const now = deps.clock();
  return wireUser(
    {
      ...blankUser,
      id: deps.random.uuid(),
      aud,
      email,
      invited_at: owner.invited_at,
      confirmation_sent_at: now,
      recovery_sent_at: owner.recovery_sent_at,
      reauthentication_sent_at: owner.reauthentication_sent_at,
      raw_app_meta_data: { provider: "email", providers: ["email"] },
      raw_user_meta_data: data,
      created_at: now,
      updated_at: now,
      banned_until: owner.banned_until,
      is_anonymous: owner.is_anonymous,
    },
    { identities: [], factors },
  );
}

/** Returns whether an insert failed because the key already exists. */
export function isUniqueViolation(error: unknown): boolean {
  return sqlState(error) === uniqueViolation;
}
