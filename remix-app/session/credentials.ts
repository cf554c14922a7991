import { randomBytes } from "node:crypto";
import { type AppLoadContext, redirect } from "@remix-run/server-runtime";
import type { User } from "@supabase/supabase-js";
import { z } from "zod";
import { cookies } from "../http/cookie-table.ts";
import { readCookie, writeCookie } from "../http/cookies.ts";
import { problem } from "../http/problem.ts";
import { hmac, isSignature } from "../keys/derived-key.ts";
import { createServiceClient } from "../supabase/data-api.ts";
import { emailOfMailedLink, type MailedLink } from "./mailed-link.ts";
import { discardSession } from "./request-session.ts";

/** bcrypt reads no further, so the identity backend takes no longer one. */
const maxPasswordBytes = 72;
const minPasswordLength = 8;

/**
 * As the identity backend and browsers have it (HTML, 4.10.5.1.5), but with a dot in the domain. Existing
 * accounts can have an `&` or a `#` in their address.
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

/** Where a form leads once it has succeeded; sanitised where it is used. */
const returnUrl = z.string().optional();

export const signInSchema = z.object({ email: emailSchema, password: typedPassword, returnUrl });

export const newPasswordSchema = z
  .string({ error: "Choose a password." })
  .min(minPasswordLength, `Choose a password of at least ${minPasswordLength} characters.`)
  .refine((password) => new TextEncoder().encode(password).length <= maxPasswordBytes, {
    message: `Choose a password of at most ${maxPasswordBytes} bytes.`,
  });

export const signUpSchema = z.object({ email: emailSchema, password: newPasswordSchema, returnUrl });

/** For what sends a mail to an address. */
export const mailSchema = z.object({ email: emailSchema, returnUrl });

export const resetPasswordSchema = z.object({ password: newPasswordSchema });

/**
 * Anybody may sign up with anybody's address, and the identity backend keeps the password of the first who did. So the
 * one that proves to read the mailbox gets in with that password only where it is known to be theirs: where this
 * browser typed it. A browser remembers that as long as the mail's link works, in a cookie that every sign-up gets and
 * that only we can read: its presence would tell which addresses are known.
 */

/** Both times of a link that confirms are set at once; an account confirmed longer ago was in its owner's hands. */
const sameMomentMs = 2_000;
/** The backend makes an account and its confirmation within one call. */
const sameCallMs = 500;

function proofOf(nonce: string, { env, email }: { env: AppLoadContext["env"]; email: string }): Buffer {
  const key = hmac(Buffer.from(env.SUPABASE_SECRET_KEY), "own-password");
  return hmac(key, `${nonce} ${email.toLowerCase()}`);
}

/**
 * Remembers whether this browser knows the password of the unconfirmed account of this address; who looks at the cookie
 * cannot tell.
 */
export function rememberPassword(context: AppLoadContext, { email, own }: { email: string; own: boolean }): void {
  const nonce = randomBytes(16).toString("base64url");
  const proof = own ? proofOf(nonce, { env: context.env, email }) : randomBytes(32);
  writeCookie(context, cookies.ownPassword, { value: `${nonce}.${proof.toString("base64url")}` });
}

function remembersPassword(context: AppLoadContext, email: string): boolean {
  const [nonce = "", proof = ""] = readCookie(context, cookies.ownPassword).split(".");
  return isSignature(proof, proofOf(nonce, { env: context.env, email }));
}

/**
 * After a sign-up: whether the password that the backend keeps for the unconfirmed account is the one just typed.
 * @param options.created what the sign-up answered; for a confirmed account it has no identities, and nothing is asked
 */
export async function keepsPassword(
  context: AppLoadContext,
  { created, email, password }: { created: User | null; email: string; password: string },
): Promise<boolean> {
  if (!created?.identities?.length) return false;
  if (wasJustCreated(created)) return true;
  const { error } = await context.session.mailClient().auth.signInWithPassword({ email, password });
  return error?.code === "email_not_confirmed";
}

/**
 * Before a mailed link is used: where it would confirm an account whose password this browser did not choose, removes
 * that password. Somebody who keeps trying it would be signed in the moment the account is confirmed.
 * @throws Response 503 AUTH_UNAVAILABLE if the database does not answer; the link is not used
 */
export async function removeForeignPassword(context: AppLoadContext, link: MailedLink): Promise<void> {
  const email = await emailOfMailedLink(context, link);
  if (email === null || remembersPassword(context, email)) return;
  const { token_hash, type: link_type } = link;
  const { error } = await createServiceClient(context.env)
    .schema("private")
    .rpc("remove_unproven_password", { token_hash, link_type });
  if (!error) return;
  throw problem("AUTH_UNAVAILABLE", { requestId: context.requestId, headers: { "Retry-After": "5" } });
}

/**
 * After a link from a mail: where it was this link that confirmed the account, and this browser did not choose its
 * password, replaces that by one that nobody knows and leads to where a new one is chosen.
 * @param options.user the account, with its session in the request's cookies
 * @throws Response the redirect
 * @throws Response 503 AUTH_UNAVAILABLE where the password could not be replaced; nobody is signed in then
 */
export async function replaceForeignPassword(
  context: AppLoadContext,
  { user, destination }: { user: User; destination: string },
): Promise<void> {
  const { session, requestId } = context;
  if (!wasJustConfirmed(user) || remembersPassword(context, user.email ?? "")) return;
  const { auth } = session.authClient();
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

/** A mail for an account that was there before goes out minutes after the last one. */
function wasJustCreated({ created_at, confirmation_sent_at }: User): boolean {
  return Date.parse(confirmation_sent_at ?? "") - Date.parse(created_at) < sameCallMs;
}

function wasJustConfirmed({ email_confirmed_at, last_sign_in_at }: User): boolean {
  return Date.parse(last_sign_in_at ?? "") - Date.parse(email_confirmed_at ?? "") < sameMomentMs;
}
