import { randomBytes } from "node:crypto";
import { type AppLoadContext, redirect } from "@remix-run/node";
import type { User } from "@supabase/supabase-js";
import { z } from "zod";
import { logWarning } from "#shared/log.ts";
import { hmac, isSignature } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import { readCookie, writeCookie } from "../http/cookies.ts";
import { problem } from "../http/problem.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { displayNameSchema } from "./display-name.ts";
import { emailOfMailedLink, type MailedLink } from "./mailed-link.ts";
import { discardSession } from "./request-session.ts";

/** bcrypt ignores bytes beyond this limit, so the identity backend rejects longer passwords. */
const maxPasswordBytes = 72;
const minPasswordLength = 8;

/**
 * The pattern of the identity backend and of browsers (HTML, 4.10.5.1.5), but with a required dot in the domain.
 * Existing accounts can have an `&` or a `#` in their address.
 */
const emailPattern =
  /^[a-z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+$/i;

/** An email address as typed; RFC 5321 allows 254 characters. */
export const emailSchema = z
  .string({ error: "Enter your email address." })
  .trim()
  .max(254, "Enter an email address of at most 254 characters.")
  .pipe(z.email({ pattern: emailPattern, error: "Enter an email address, such as name@example.com." }));

const typedPassword = z.string({ error: "Enter your password." });

/** The URL to redirect to after the form succeeds. Callers sanitize the URL before they use it. */
const returnUrl = z.string().optional();

export const signInSchema = z.object({ email: emailSchema, password: typedPassword, returnUrl });

export const newPasswordSchema = z
  .string({ error: "Choose a password." })
  .min(minPasswordLength, `Choose a password of at least ${minPasswordLength} characters.`)
  .refine((password) => new TextEncoder().encode(password).length <= maxPasswordBytes, {
    message: `Choose a password of at most ${maxPasswordBytes} bytes.`,
  });

export const signUpSchema = z.object({
  // Spaces alone are not a name. The form library reads an empty field as absent.
  name: z
    .string()
    .transform((name) => name.trim() || undefined)
    .pipe(displayNameSchema.optional())
    .optional(),
  email: emailSchema,
  password: newPasswordSchema,
  returnUrl,
});

/** The fields of a form that sends an email. */
export const mailSchema = z.object({ email: emailSchema, returnUrl });

export const resetPasswordSchema = z.object({ password: newPasswordSchema });

/**
 * Anyone can sign up with another person's email, and the identity backend keeps the first password. A person who
 * proves access to the mailbox may keep that password only if this browser typed it at sign-up. A cookie remembers this
 * for as long as the emailed link works. Every sign-up sets the cookie, and only our server can read it, so that the
 * cookie does not reveal which emails are registered.
 */

/**
 * The maximum time between an account's confirmation and its sign-in if one link did both. A longer time means that the
 * account was confirmed earlier.
 */
const maxConfirmationToSignInMs = 2_000;
/** The maximum time between an account's creation and its confirmation email if the same call caused both. */
const maxCreationToMailMs = 500;

/** @param options.name the name that was typed, as base64url; absent for the proof of the password alone */
function computePasswordProof(
  nonce: string,
  { env, email, name }: { env: AppLoadContext["env"]; email: string; name?: string },
): Buffer {
  const key = hmac(Buffer.from(env.SUPABASE_SECRET_KEY), "own-password");
  return hmac(key, [nonce, email.toLowerCase(), ...(name ? [name] : [])].join(" "));
}

/**
 * Remembers whether this browser knows the password of the unconfirmed account with this email, and the name that was
 * typed with it. The cookie does not reveal the answer.
 */
export function rememberPassword(
  context: AppLoadContext,
  { email, own, name: typedName = "" }: { email: string; own: boolean; name?: string | undefined },
): void {
  const nonce = randomBytes(16).toString("base64url");
  const name = Buffer.from(typedName).toString("base64url");
  const proofOf = (of: { name?: string }) =>
    (own ? computePasswordProof(nonce, { env: context.env, email, ...of }) : randomBytes(32)).toString("base64url");
  // Until 0.5.0: the proof of the password comes first and alone, because servers of release 0.3.0 read only that.
  const value = [nonce, proofOf({}), ...(name ? [name, proofOf({ name })] : [])].join(".");
  writeCookie(context, cookies.ownPassword, { value });
}

/** Returns the name that this browser typed when it signed up with this email, or null if it did not sign up. */
function readOwnSignUp(context: AppLoadContext, email: string): { name: string } | null {
  const [nonce = "", proof = "", name = "", nameProof = ""] = readCookie(context, cookies.ownPassword).split(".");
  const { env } = context;
  if (!isSignature(proof, computePasswordProof(nonce, { env, email }))) return null;
  const isOwnName = isSignature(nameProof, computePasswordProof(nonce, { env, email, name }));
  return { name: isOwnName ? Buffer.from(name, "base64url").toString() : "" };
}

/**
 * Returns whether the password that the backend keeps for an unconfirmed account is the one that was just typed to sign
 * up. Returns false for a confirmed account.
 * @param options.created the sign-up's response, which has no identities if the account is confirmed
 */
export async function isTypedPasswordStored(
  context: AppLoadContext,
  { created, email, password }: { created: User | null; email: string; password: string },
): Promise<boolean> {
  if (!created?.identities?.length) return false;
  if (wasJustCreated(created)) return true;
  const { error } = await context.session.anonymousClient().auth.signInWithPassword({ email, password });
  return error?.code === "email_not_confirmed";
}

/**
 * Removes the password of an account that an emailed link is about to confirm, if this browser did not choose the
 * password. Otherwise, an attacker who chose the password could sign in as soon as the account is confirmed. Must be
 * called before the link is used.
 * @throws Response 503 AUTH_UNAVAILABLE if the database does not answer; the link is not used
 */
export async function removeForeignPassword(context: AppLoadContext, link: MailedLink): Promise<void> {
  const email = await emailOfMailedLink(context, link);
  if (email === null || readOwnSignUp(context, email)) return;
  const { token_hash, type: link_type } = link;
  const { error } = await createServiceClient(context.env)
    .schema("private")
    .rpc("remove_unproven_password", { token_hash, link_type });
  if (!error) return;
  throw problem("AUTH_UNAVAILABLE", { requestId: context.requestId });
}

/**
 * Completes an account that an emailed link or code has just confirmed. If this browser signed up, gives the account the
 * name that was typed, because a confirmation discards names that anyone could have sent. Otherwise, replaces the
 * password with a random one and redirects to the page that sets a new one.
 * @param options.user the account, with its session in the request's cookies
 * @throws Response the redirect
 * @throws Response 503 AUTH_UNAVAILABLE if the password could not be replaced; the person is not signed in then
 */
export async function completeConfirmation(
  context: AppLoadContext,
  { user, destination }: { user: User; destination: string },
): Promise<void> {
  const { session, requestId } = context;
  if (!wasJustConfirmed(user)) return;
  const own = readOwnSignUp(context, user.email ?? "");
  if (own) {
    if (own.name) await nameNewAccount(context, { userId: user.id, name: own.name });
    return;
  }
  const { auth } = session.sessionClient();
  const { error } = await auth.updateUser({ password: randomBytes(32).toString("base64url") });
  if (error) {
    if (session.stored) await discardSession(context, session.stored);
    session.clear();
    const detail =
      "Your email is confirmed, but we couldn’t secure your account. Wait a moment, then reset your password.";
    throw problem("AUTH_UNAVAILABLE", { requestId, detail });
  }
  throw redirect(`/reset-password?${new URLSearchParams({ first: "", returnUrl: destination })}`);
}

/** Sets a new account's name. Never throws, because the owner can set the name in the settings. */
async function nameNewAccount(
  { env, requestId }: AppLoadContext,
  { userId, name }: { userId: string; name: string },
): Promise<void> {
  const { error } = await createServiceClient(env)
    .schema("private")
    .rpc("name_new_account", { subject_id: userId, display_name: name });
  if (error) logWarning(`a new account was not named: ${error.code}`, { requestId });
}

/**
 * Returns whether this call created the account. Only a new account gets its confirmation email right after its
 * creation. An existing account gets another email minutes later at the earliest.
 */
function wasJustCreated({ created_at, confirmation_sent_at }: User): boolean {
  return Date.parse(confirmation_sent_at ?? "") - Date.parse(created_at) < maxCreationToMailMs;
}

function wasJustConfirmed({ email_confirmed_at, last_sign_in_at }: User): boolean {
  return Date.parse(last_sign_in_at ?? "") - Date.parse(email_confirmed_at ?? "") < maxConfirmationToSignInMs;
}
