import type { AuthError } from "@supabase/supabase-js";

/** The message and status with which a form reports a failed call to the identity backend. */
export interface AuthFailure {
  status: 400 | 403 | 429 | 503;
  message: string;
}

const tooMany: AuthFailure = { status: 429, message: "Too many attempts. Wait a few minutes, then try again." };
const challengeRefused: AuthFailure = {
  status: 403,
  message: "The check that you’re human failed or has expired. Complete it again.",
};
const unreachable: AuthFailure = {
  status: 503,
  message: "We can’t reach the sign-in service right now. Nothing has changed. Try again in a moment.",
};

/**
 * Returns our message for a failure that is unrelated to the account: too many attempts, a rejected bot challenge, or a
 * backend that did not answer. No credential was checked in these cases. Returns null for every other failure, which
 * the caller maps by its code. Never passes on the backend's own text.
 */
export function generalFailure(error: AuthError): AuthFailure | null {
  if (error.status === 429) return tooMany;
  if (error.code === "captcha_failed") return challengeRefused;
  if (error.status === undefined || error.status === 0 || error.status >= 500) return unreachable;
  return null;
}
