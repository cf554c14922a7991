import type { AppLoadContext } from "@remix-run/server-runtime";
import type { AuthError, User as AuthUser } from "@supabase/supabase-js";
import { z } from "zod";
import { guardAttempt, outcomeOf } from "../abuse/attempts.ts";
import type { Env } from "../config/env.server.ts";
import { derivedKey, hmac, isSignature } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { type AuthFailure, generalFailure } from "../supabase/auth-errors.ts";
import { holdMailBack, startEvenTiming } from "./even-answers.ts";

// Sign-in with a code that the identity backend emails (its OTP). It works only for existing accounts, but no answer
// reveals whether an account exists. The backend keeps one token for sign-in codes and password resets, so emails of
// both kinds count as `recovery_mail`.

/** The identity backend's codes have 6 to 10 digits (`otp_length`). Mail clients may add spaces. */
export const emailCodeSchema = z.object({
  code: z
    .string({ error: "Enter the code from the email." })
    .transform((text) => text.replace(/[\s-]/g, ""))
    .pipe(z.string().regex(/^\d{6,10}$/, "Enter the digits from the email.")),
});

const wrongCode: AuthFailure = {
  status: 400,
  message: "That code is incorrect, was already used or has expired. Check the newest email, or request another code.",
};

export interface CodeRequest {
  email: string;
  /** Whether a recovery override lifts the email's rate limits. Omitted if the page has no overrides. */
  isOverridden?: () => Promise<boolean>;
  /** Called with the result of verifying a code, if an override lifted the rate limits for the attempt. */
  recordOverride?: (answer: { error: AuthError | null; userId: string | undefined }) => Promise<void>;
}

/**
 * Emails a sign-in code to an address that has an account, unless a link or code was emailed to the address minutes
 * ago. Then lets this browser enter a code.
 * @returns the error to show, or null. Known and unknown emails get the same result, after the same time.
 */
export async function mailCode(
  context: AppLoadContext,
  {
    email,
    isOverridden,
    botChallenge,
  }: Pick<CodeRequest, "email" | "isOverridden"> & { botChallenge: FormDataEntryValue | null },
): Promise<AuthFailure | null> {
  const whenDue = startEvenTiming();
  const override = isOverridden ? { isOverridden } : {};
  const attempt = await guardAttempt(context, {
    action: "mail",
    mail: "recovery_mail",
    email,
    botChallenge,
    ...override,
  });
  if (!attempt.admitted) return attempt;
  const options = { shouldCreateUser: false, ...attempt.challenge };
  const { error } =
    attempt.mailWaitSeconds === null
      ? await context.session.mailClient().auth.signInWithOtp({ email, options })
      : await holdMailBack(context, attempt);
  // The backend returns this rate limit only for known emails, and rejects only unknown emails. The answer must not
  // reveal either error.
  const failure = error && error.code !== "over_email_send_rate_limit" ? generalFailure(error) : null;
  await attempt.settle(failure ? "void" : "succeeded");
  await whenDue();
  if (!failure) rememberRequest(context, email);
  return failure;
}

/**
 * Redeems an emailed code and stores a session at AAL1 in the response's cookie. A code works only once, even with
 * concurrent requests.
 * @returns the account, or the error to show: the same for unknown emails and for wrong, used and expired codes
 */
export async function redeemCode(
  context: AppLoadContext,
  { email, isOverridden, recordOverride, code }: CodeRequest & { code: string },
): Promise<{ user: AuthUser } | AuthFailure> {
  const whenDue = startEvenTiming();
  const override = isOverridden ? { isOverridden } : {};
  const attempt = await guardAttempt(context, { action: "sign_in_code", email, code, ...override });
  if (!attempt.admitted) return attempt;
  if (attempt.repeated) {
    await attempt.settle("void");
    await whenDue();
    return wrongCode;
  }
  const { data, error } = await context.session.authClient().auth.verifyOtp({ email, token: code, type: "email" });
  await attempt.settle(outcomeOf(error));
  if (attempt.overridden) await recordOverride?.({ error, userId: data.user?.id });
  if (data.user && data.session) {
    clearCookie(context, cookies.codeRequest);
    return { user: data.user };
  }
  await whenDue();
  return (error && generalFailure(error)) ?? wrongCode;
}

const remembered = z.object({ email: z.string(), until: z.number() });

/**
 * Remembers the email that this browser requested a code for. Only this browser can enter the code, so an attacker
 * cannot sign a victim's browser in to the attacker's account.
 */
export function rememberRequest(context: CookieContext & KeyContext, email: string): void {
  const until = Date.now() + cookies.codeRequest.maxAgeSeconds * 1_000;
  const text = Buffer.from(JSON.stringify({ email, until })).toString("base64url");
  writeCookie(context, cookies.codeRequest, { value: `${text}.${signatureOf(context, text).toString("base64url")}` });
}

/** Returns the email that this browser requested a code for in the last 15 minutes, or null. */
export function requestedFor(context: CookieContext & KeyContext): string | null {
  const [text = "", signature = ""] = readCookie(context, cookies.codeRequest).split(".");
  if (!isSignature(signature, signatureOf(context, text))) return null;
  const { email, until } = remembered.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
  return until > Date.now() ? email : null;
}

type KeyContext = { env: Pick<Env, "SUPABASE_SECRET_KEY"> };

function signatureOf({ env }: KeyContext, text: string): Buffer {
  return hmac(derivedKey(env, "sign-in code"), text);
}
