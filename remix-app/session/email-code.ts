import type { AppLoadContext } from "@remix-run/node";
import type { AuthError, User as AuthUser } from "@supabase/supabase-js";
import { z } from "zod";
import { getAttemptOutcome, guardAttempt } from "../abuse/attempts.ts";
import type { Env } from "../config/env.server.ts";
import { deriveServerKey, hmac, isSignature } from "../crypto/derived-key.ts";
import { cookies } from "../http/cookie-table.ts";
import { type CookieContext, clearCookie, readCookie, writeCookie } from "../http/cookies.ts";
import { type AuthFailure, mapAuthError, mapMailError } from "../supabase/auth-errors.ts";
import { type StoredSession, storedSession } from "./cookies.ts";
import { startEvenTiming, withholdMail } from "./even-answers.ts";

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

const wrongCode =
  "That code is incorrect, was already used or has expired. Check the newest email, or request another code.";

export interface CodeRequest {
  email: string;
  botChallenge: FormDataEntryValue | null;
  /** Whether a recovery override may lift the email's rate limits. */
  allowOverride?: boolean;
}

export interface CodeEntry {
  email: string;
  code: string;
  /**
   * Set if a recovery override may lift the email's rate limits. Called with the result of verifying the code if one
   * did.
   */
  recordOverride?: (result: {
    overrideId: string;
    error: AuthError | null;
    userId: string | undefined;
  }) => Promise<void>;
}

/**
 * Emails a sign-in code to an address that has an account, unless a link or code was emailed to the address minutes
 * ago. Then lets this browser enter a code.
 * @returns the error to show, or null. Known and unknown emails get the same result, after the same time.
 */
export async function sendEmailCode(context: AppLoadContext, request: CodeRequest): Promise<AuthFailure | null> {
  const { email } = request;
  const whenDue = startEvenTiming();
  const attempt = await guardAttempt(context, { action: "mail", mail: "recovery_mail", ...request });
  if (!attempt.admitted) return attempt;
  const options = { shouldCreateUser: false, ...attempt.challenge };
  const { error } =
    attempt.mailWaitSeconds === null
      ? await context.session.anonymousClient().auth.signInWithOtp({ email, options })
      : await withholdMail(context, attempt);
  // The backend rejects only unknown emails, so the answer must not reveal an error about the account either.
  const failure = mapMailError(error);
  await attempt.settle(failure ? "void" : "succeeded");
  await whenDue();
  if (!failure) saveCodeRequest(context, email);
  return failure;
}

/**
 * Redeems an emailed code. A code works only once, even with concurrent requests.
 * @returns the account and its new session at AAL1, or the error to show: the same for unknown emails and for wrong,
 * used and expired codes
 */
export async function redeemCode(
  context: AppLoadContext,
  { email, code, recordOverride }: CodeEntry,
): Promise<{ user: AuthUser; session: StoredSession } | AuthFailure> {
  const whenDue = startEvenTiming();
  const allowOverride = recordOverride !== undefined;
  const attempt = await guardAttempt(context, { action: "sign_in_code", email, code, allowOverride });
  if (!attempt.admitted) return attempt;
  if (attempt.repeated) {
    await attempt.settle("void");
    await whenDue();
    return { status: 400, message: wrongCode };
  }
  const { auth } = context.session.anonymousClient();
  const { data, error } = await auth.verifyOtp({ email, token: code, type: "email" });
  await attempt.settle(getAttemptOutcome(error));
  const { overrideId } = attempt;
  if (overrideId) await recordOverride?.({ overrideId, error, userId: data.user?.id });
  if (data.user && data.session) {
    clearCookie(context, cookies.codeRequest);
    return { user: data.user, session: storedSession.parse(data.session) };
  }
  await whenDue();
  return error ? mapAuthError(error, wrongCode) : { status: 400, message: wrongCode };
}

const codeRequest = z.object({ email: z.string(), until: z.number() });

/**
 * Remembers the email that this browser requested a code for. Only this browser can enter the code, so an attacker
 * cannot sign a victim's browser in to the attacker's account.
 */
export function saveCodeRequest(context: CookieContext & KeyContext, email: string): void {
  const until = Date.now() + cookies.codeRequest.maxAgeSeconds * 1_000;
  const text = Buffer.from(JSON.stringify({ email, until })).toString("base64url");
  writeCookie(context, cookies.codeRequest, { value: `${text}.${signatureOf(context, text).toString("base64url")}` });
}

/** Returns the email that this browser requested a code for, or null once that code has expired. */
export function readCodeRequest(context: CookieContext & KeyContext): string | null {
  const [text = "", signature = ""] = readCookie(context, cookies.codeRequest).split(".");
  if (!isSignature(signature, signatureOf(context, text))) return null;
  const { email, until } = codeRequest.parse(JSON.parse(Buffer.from(text, "base64url").toString()));
  return until > Date.now() ? email : null;
}

type KeyContext = { env: Pick<Env, "SUPABASE_SECRET_KEY"> };

function signatureOf({ env }: KeyContext, text: string): Buffer {
  return hmac(deriveServerKey(env, "sign-in code"), text);
}
