import type { AuthError } from "@supabase/supabase-js";

/** The message and status with which a form reports a failed call to the identity backend. */
export interface AuthFailure {
  status: 400 | 403 | 429 | 503;
  message: string;
}

const rateLimited: AuthFailure = { status: 429, message: "Too many attempts. Wait a few minutes, then try again." };
const challengeFailed: AuthFailure = {
  status: 403,
  message: "The check that you’re human failed or has expired. Complete it again.",
};
/** The failure of a backend that did not answer. */
export const unreachableFailure = {
  status: 503,
  message: "We can’t reach the sign-in service right now. Nothing has changed. Try again in a moment.",
} as const satisfies AuthFailure;

/**
 * Returns our message for a failure that is unrelated to the account: too many attempts, a rejected bot challenge, or a
 * backend that did not answer. No credential was checked in these cases. Returns null for every other failure, which
 * the caller maps by its code. Never passes on the backend's own text.
 */
export function mapGeneralError(error: AuthError): AuthFailure | null {
  if (error.status === 429) return rateLimited;
  if (error.code === "captcha_failed") return challengeFailed;
  if (error.status === undefined || error.status === 0 || error.status >= 500) return unreachableFailure;
  return null;
}

/** Our messages for the errors about an account that have the same message on every form, by code. */
const messages: Record<string, string> = {
  weak_password: "Choose a password that’s harder to guess.",
  same_password: "Choose a different password from your current one.",
  current_password_required: "Enter your current password.",
  current_password_invalid: "This isn’t your current password.",
  reauthentication_not_valid: "This code isn’t the newest one, or it has expired. Check the email.",
};

/**
 * Returns the message and status for any failure.
 * @param otherwise the message for an error about the account that has none of its own
 */
export function mapAuthError(error: AuthError, otherwise: string): AuthFailure {
  return mapGeneralError(error) ?? { status: 400, message: messages[error.code ?? ""] ?? otherwise };
}

/**
 * Returns the failure of a call that sends an email, or null. The backend returns its rate limit per email only for
 * known emails, so that limit counts as a success.
 */
export function mapMailError(error: AuthError | null): AuthFailure | null {
  return error && error.code !== "over_email_send_rate_limit" ? mapGeneralError(error) : null;
}
