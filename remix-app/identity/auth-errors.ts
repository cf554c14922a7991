import type { AuthError } from "@supabase/supabase-js";

/** What a form says of a call to the identity backend that failed, and with which status. */
export interface AuthFailure {
  status: 400 | 429 | 503;
  message: string;
}

const tooMany: AuthFailure = { status: 429, message: "Too many attempts. Wait a few minutes, then try again." };
const unreachable: AuthFailure = {
  status: 503,
  message: "We cannot reach the sign-in service right now. Nothing was changed. Try again in a moment.",
};

/**
 * Our words for a failure that says nothing of the account: too many attempts, or a backend that did not answer. Null
 * for every other one, which the caller maps by its code. The backend's own text is never passed on.
 */
export function generalFailure(error: AuthError): AuthFailure | null {
  if (error.status === 429) return tooMany;
  if (error.status === undefined || error.status === 0 || error.status >= 500) return unreachable;
  return null;
}
