import type { AuthError } from "@supabase/supabase-js";

/** What a form says of a call to the identity backend that failed, and with which status. */
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
 * Our words for a failure that says nothing of the account: too many attempts, a bot challenge that was refused, or a
 * backend that did not answer. Nothing was tried then. Null for every other one, which the caller maps by its code. The backend's own text is never passed on.
 */
export function generalFailure(error: AuthError): AuthFailure | null {
  if (error.status === 429) return tooMany;
  if (error.code === "captcha_failed") return challengeRefused;
  if (error.status === undefined || error.status === 0 || error.status >= 500) return unreachable;
  return null;
}
