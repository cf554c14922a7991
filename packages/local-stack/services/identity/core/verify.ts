import { timingSafeEqual } from "node:crypto";
import { type Sql, transaction } from "../db.ts";
import { confirmUser, storePassword } from "./confirm.ts";
import type { Caller, Deps } from "./deps.ts";
import { confirmEmailChange } from "./email-change.ts";
import { AuthError, invalid } from "./errors.ts";
import { listIdentities, mergeIdentityData, refreshProviders } from "./identities.ts";
import {
  clearOneTimeTokens,
  findOneTimeToken,
  hashToken,
  type OneTimeTokenType,
  pkcePrefix,
} from "./one-time-tokens.ts";
import { hashPassword } from "./passwords.ts";
import { issueAuthCode } from "./pkce.ts";
import { randomPassword } from "./random.ts";
import type { AuthMethod } from "./sessions.ts";
import { type SignedIn, signIn } from "./tokens.ts";
import { findUserByEmail, findUserById, isBanned, type User, updateUser } from "./users.ts";

export type VerifyType = "signup" | "invite" | "recovery" | "magiclink" | "email_change" | "email";
type ResolvedType = Exclude<VerifyType, "email">;

/** A credential to redeem: the token of a link, or a code with the email it was sent to. */
export type Credential = { hash: string } | { email: string; code: string };

export type Redeemed =
  | { kind: "signed-in"; signedIn: SignedIn }
  | { kind: "code"; code: string }
  /** One of two mailboxes has confirmed an email change. */
  | { kind: "half" };

const tokenTypes: Record<VerifyType, OneTimeTokenType[]> = {
  signup: ["confirmation_token"],
  invite: ["confirmation_token"],
  recovery: ["recovery_token"],
  magiclink: ["recovery_token"],
  email_change: ["email_change_token_current", "email_change_token_new"],
  email: ["confirmation_token", "recovery_token"],
};

/** The amr methods of sessions created by a code exchange. */
const flowMethods: Record<ResolvedType, AuthMethod> = {
  signup: "email/signup",
  invite: "invite",
  recovery: "recovery",
  magiclink: "magiclink",
  email_change: "email_change",
};

export function isVerifyType(type: string): type is VerifyType {
  return Object.hasOwn(tokenTypes, type);
}

export type Verification = { type: VerifyType; credential: Credential; aud: string; caller: Caller };

/**
 * Redeems an emailed token, which is valid once. `yields` is a session, or the code of the flow that requested the
 * email.
 * @throws AuthError 403 otp_expired for a wrong, used, expired or unknown token, user_banned; 400 flow_state_not_found
 */
export async function verify(
  deps: Deps,
  { type, credential, aud, caller, yields }: Verification & { yields: "session" | "code" },
): Promise<Redeemed> {
  return transaction(deps.db, async (tx) => {
    const found =
      "hash" in credential
        ? await findByHash(tx, { deps, type, hash: credential.hash })
        : await findByCode(tx, { deps, type, aud, ...credential });
    const user = await redeem(tx, { deps, ...found });
    if (!user) return { kind: "half" };
    const current = await refreshProviders(tx, user, deps.clock());
    if (yields === "code") {
      const code = await issueAuthCode(tx, { deps, userId: user.id, method: flowMethods[found.type] });
      return { kind: "code", code };
    }
    return { kind: "signed-in", signedIn: await signIn(tx, { deps, user: current, method: "otp", caller }) };
  });
}

type Found = { user: User; type: ResolvedType; hash: string };

function expiredLink(): AuthError {
  return new AuthError(403, "otp_expired", "Email link is invalid or has expired");
}

function expiredCode(): AuthError {
  return new AuthError(403, "otp_expired", "Token has expired or is invalid");
}

async function findByHash(
  tx: Sql,
  { deps, type, hash }: { deps: Deps; type: VerifyType; hash: string },
): Promise<Found> {
  const seen = await findOneTimeToken(tx, hash, tokenTypes[type]);
  const user = seen && (await findUserById(tx, { id: seen.user_id, lock: true }));
  // The previous holder of the lock may have redeemed the token.
  const token = user && (await findOneTimeToken(tx, hash, tokenTypes[type]));
  if (!token) throw expiredLink();
  if (isBanned(user, deps.clock())) throw new AuthError(403, "user_banned", "User is banned");
  if (isExpired(sentAt(user, token.token_type), deps)) throw expiredLink();
  return { user, hash, type: resolve(type, token.token_type) };
}

async function findByCode(
  tx: Sql,
  { deps, type, aud, email, code }: { deps: Deps; type: VerifyType; aud: string; email: string; code: string },
): Promise<Found> {
  const hash = hashToken(email, code);
  const user =
    type === "email_change"
      ? await findByPendingChange(tx, { hash, email })
      : await findUserByEmail(tx, { email, aud, lock: true });
  if (!user) throw expiredCode();
  if (isBanned(user, deps.clock())) throw new AuthError(403, "user_banned", "User is banned");
  for (const tokenType of tokenTypes[type]) {
    const stored = storedHash(user, tokenType);
    if (!isExpired(sentAt(user, tokenType), deps) && isSameHash(stored, hash)) {
      return { user, hash: stored, type: resolve(type, tokenType) };
    }
  }
  throw expiredCode();
}

/** An email change is found by its token, since the request may name either of two emails. */
async function findByPendingChange(tx: Sql, { hash, email }: { hash: string; email: string }) {
  const types = tokenTypes.email_change;
  const token = (await findOneTimeToken(tx, hash, types)) ?? (await findOneTimeToken(tx, pkcePrefix + hash, types));
  const user = token && (await findUserById(tx, { id: token.user_id, lock: true }));
  return user && [user.email, user.email_change].includes(email) ? user : undefined;
}

function resolve(type: VerifyType, tokenType: OneTimeTokenType): ResolvedType {
  if (type !== "email") return type;
  return tokenType === "recovery_token" ? "magiclink" : "signup";
}

function storedHash(user: User, type: OneTimeTokenType): string {
  return user[type];
}

function sentAt(user: User, type: OneTimeTokenType): Date | null {
  if (type === "confirmation_token") return user.confirmation_sent_at;
  if (type === "recovery_token") return user.recovery_sent_at;
  return type === "reauthentication_token" ? user.reauthentication_sent_at : user.email_change_sent_at;
}

/** Returns whether a token has expired, given the time at which it was sent. */
export function isExpired(sent: Date | null, { config, clock }: Deps): boolean {
  return !sent || clock().getTime() > sent.getTime() + config.GOTRUE_MAILER_OTP_EXP * 1_000;
}

/** Compares a code's hash with the stored one, which may have the prefix of a PKCE flow. */
export function isSameHash(stored: string, hash: string): boolean {
  const bare = stored.startsWith(pkcePrefix) ? stored.slice(pkcePrefix.length) : stored;
  return bare.length === hash.length && timingSafeEqual(Buffer.from(bare), Buffer.from(hash));
}

/** Performs the action of a token. @returns undefined if the other mailbox must still confirm an email change */
async function redeem(tx: Sql, { deps, user, type, hash }: Found & { deps: Deps }): Promise<User | undefined> {
  switch (type) {
    case "signup":
    case "invite":
      return redeemConfirmation(tx, deps, user);
    case "recovery":
    case "magiclink":
      return redeemRecovery(tx, deps, user);
    case "email_change":
      return confirmEmailChange(tx, { deps, user, hash });
    default:
      throw invalid("Unsupported verification type");
  }
}

async function redeemConfirmation(tx: Sql, deps: Deps, user: User): Promise<User> {
  let current = user;
  if (!user.encrypted_password && user.invited_at) {
    const hash = await hashPassword(randomPassword(deps.random), deps.config);
    current = await storePassword(tx, { deps, user, hash });
  }
  const confirmed = await confirmUser(tx, deps, current);
  for (const identity of await listIdentities(tx, user.id)) {
    if (identity.email && identity.email === user.email) {
      await mergeIdentityData(tx, identity, { email_verified: true });
    }
  }
  return confirmed;
}

async function redeemRecovery(tx: Sql, deps: Deps, user: User): Promise<User> {
  await clearOneTimeTokens(tx, user.id);
  const recovered = await updateUser(tx, { id: user.id, now: deps.clock(), changes: { recovery_token: "" } });
  return recovered.email_confirmed_at ? recovered : confirmUser(tx, deps, recovered);
}
