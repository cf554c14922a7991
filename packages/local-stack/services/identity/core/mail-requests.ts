import { type Sql, transaction } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { parseEmail } from "./email-address.ts";
import { AuthError, invalid } from "./errors.ts";
import { type Challenge, insertFlow } from "./pkce.ts";
import { randomPassword } from "./random.ts";
import { sendEmailChange, sendEmailToken, sendReauthentication } from "./send-email.ts";
import type { AuthMethod } from "./sessions.ts";
import { signUp } from "./sign-up.ts";
import { findUserByEmail, findUserById, type Metadata, type User } from "./users.ts";

export type MailRequest = {
  email: string;
  challenge?: Challenge | undefined;
  aud: string;
  redirectTo: string;
};

/** Locks the account, if it exists, and runs `work`. Unknown and known emails get the same response. */
async function withAccount(
  deps: Deps,
  { email, aud }: { email: string; aud: string },
  work: (tx: Sql, user: User) => Promise<unknown>,
): Promise<void> {
  await transaction(deps.db, async (tx) => {
    const user = await findUserByEmail(tx, { email, aud, lock: true });
    if (user) await work(tx, user);
  });
}

async function beginFlow(
  tx: Sql,
  {
    deps,
    challenge,
    userId,
    method,
  }: { deps: Deps; challenge: Challenge | undefined; userId: string; method: AuthMethod },
): Promise<void> {
  if (challenge) await insertFlow(tx, deps, { providerType: method, method, challenge, userId });
}

/** Emails a password reset link. @throws AuthError 400 validation_failed, 429 over_email_send_rate_limit */
export async function recover(deps: Deps, request: MailRequest): Promise<void> {
  if (!request.email) throw invalid("Password recovery requires an email");
  const email = parseEmail(request.email);
  const { challenge, redirectTo } = request;
  await withAccount(deps, { email, aud: request.aud }, async (tx, user) => {
    await beginFlow(tx, { deps, challenge, userId: user.id, method: "recovery" });
    await sendEmailToken(tx, { deps, user, type: "recovery", redirectTo, pkce: !!challenge });
  });
}

/** Resends the confirmation of a sign-up or an email change. Does nothing if none is pending. */
export async function resend(deps: Deps, request: MailRequest & { type: string }): Promise<void> {
  const { type, challenge, redirectTo } = request;
  if (type === "sms" || type === "phone_change") {
    throw new AuthError(400, "phone_provider_disabled", "Phone logins are disabled");
  }
  if (type !== "signup" && type !== "email_change") {
    throw invalid("Missing one of these types: signup, email_change, sms, phone_change");
  }
  if (!request.email) throw invalid("Type provided requires an email address");
  if (!deps.config.GOTRUE_EXTERNAL_EMAIL_ENABLED) {
    throw new AuthError(400, "email_provider_disabled", "Email logins are disabled");
  }
  const email = parseEmail(request.email);
  await withAccount(deps, { email, aud: request.aud }, async (tx, user) => {
    if (type === "signup" ? user.email_confirmed_at : !user.email_change) return;
    const method = type === "signup" ? "email/signup" : "email_change";
    await beginFlow(tx, { deps, challenge, userId: user.id, method });
    const options = { deps, user, redirectTo, pkce: !!challenge };
    if (type === "signup") await sendEmailToken(tx, { ...options, type });
    else await sendEmailChange(tx, { ...options, newEmail: user.email_change });
  });
}

export type MagicLinkRequest = MailRequest & { data: Metadata; createUser: boolean; caller: Caller };

/**
 * Emails a sign-in link. If the email has no confirmed account, first signs it up with a random password. If that
 * sign-up must be confirmed, sends only the confirmation email.
 * @throws AuthError 422 otp_disabled, email_provider_disabled; 400, 429
 */
export async function sendMagicLink(deps: Deps, request: MagicLinkRequest): Promise<void> {
  const { config } = deps;
  if (!config.GOTRUE_EXTERNAL_EMAIL_ENABLED) {
    throw new AuthError(422, "email_provider_disabled", "Email logins are disabled");
  }
  if (!config.GOTRUE_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED) {
    throw new AuthError(422, "email_provider_disabled", "Login with magic link is disabled");
  }
  if (!request.email) throw new AuthError(422, "validation_failed", "Password recovery requires an email");
  const email = parseEmail(request.email);
  const known = await findUserByEmail(deps.db, { email, aud: request.aud });
  if (!known && !request.createUser) throw new AuthError(422, "otp_disabled", "Signups not allowed for otp");
  if (!known?.email_confirmed_at) {
    const password = randomPassword(deps.random, config.GOTRUE_PASSWORD_REQUIRED_CHARACTERS);
    const signedUp = await signUp(deps, { ...request, email, password });
    if (!("signedIn" in signedUp)) return;
  }
  const { challenge, redirectTo } = request;
  await withAccount(deps, { email, aud: request.aud }, async (tx, user) => {
    await beginFlow(tx, { deps, challenge, userId: user.id, method: "magiclink" });
    await sendEmailToken(tx, { deps, user, type: "magiclink", redirectTo, pkce: !!challenge });
  });
}

/** Emails the code that a sensitive change requires. @throws AuthError 422 email_not_confirmed; 400, 429 */
export async function reauthenticate(
  deps: Deps,
  { user, redirectTo }: { user: User; redirectTo: string },
): Promise<void> {
  if (!user.email) throw invalid("Reauthentication requires the user to have an email or a phone number");
  if (!user.email_confirmed_at) {
    throw new AuthError(422, "email_not_confirmed", "Please verify your email first.");
  }
  await transaction(deps.db, async (tx) => {
    const locked = await findUserById(tx, { id: user.id, lock: true });
    if (locked) await sendReauthentication(tx, { deps, user: locked, redirectTo, pkce: false });
  });
}
