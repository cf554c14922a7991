import { type AuthError, isAuthError } from "@supabase/supabase-js";
import { logError } from "#shared/log.ts";
import { type ProblemCode, problem } from "../http/problem.ts";
import { type AuthFailure, mapGeneralError } from "../supabase/auth-errors.ts";
import { maxPasskeys } from "./limits.ts";

/** How long a person must wait after too many attempts. The identity backend does not say. */
const retryAfterSeconds = "60";

/** Codes of failures that are not about the passkey. */
const problemCodeByStatus = {
  400: "INVALID_REQUEST",
  403: "BOT_CHALLENGE_REQUIRED",
  429: "RATE_LIMITED",
  503: "AUTH_UNAVAILABLE",
} as const satisfies Record<AuthFailure["status"], ProblemCode>;

type Refusal = { code: ProblemCode; detail: string };

const timedOutRefusal: Refusal = { code: "GONE", detail: "The request timed out. Try again." };
const duplicateRefusal: Refusal = {
  code: "CONFLICT",
  detail: "This passkey is already added. Use another device or password manager to add a new one.",
};
const signedOutRefusal: Refusal = { code: "UNAUTHENTICATED", detail: "You’ve been signed out. Sign in again." };
const disabledRefusal: Refusal = { code: "UNAVAILABLE", detail: "Passkeys are turned off right now." };
const unverifiableRefusal: Refusal = {
  code: "INVALID_REQUEST",
  detail: "We couldn’t verify this passkey. Try again, or use another way to sign in.",
};

/** Maps the identity backend's error codes to our answers. */
const refusals: Record<string, Refusal> = {
  webauthn_challenge_not_found: timedOutRefusal,
  webauthn_challenge_expired: timedOutRefusal,
  webauthn_credential_exists: duplicateRefusal,
  too_many_passkeys: {
    code: "CONFLICT",
    detail: `You have ${maxPasskeys} passkeys, the maximum. Delete one you no longer use first.`,
  },
  email_not_confirmed: {
    code: "FORBIDDEN",
    detail: "Confirm your email address first: open the link in the email we sent you.",
  },
  user_banned: { code: "FORBIDDEN", detail: "This account can’t sign in right now." },
  insufficient_aal: { code: "MFA_REQUIRED", detail: "Confirm with your authenticator app first." },
  passkey_disabled: disabledRefusal,
  bad_jwt: signedOutRefusal,
  no_authorization: signedOutRefusal,
  session_not_found: signedOutRefusal,
  user_not_found: signedOutRefusal,
};

/**
 * Narrows an error to the identity backend's error type. The client's types also allow browser errors, which cannot
 * occur on our server.
 * @throws any other error
 */
export function requireBackendError(error: Error | null): AuthError | null {
  if (error === null || isAuthError(error)) return error;
  throw error;
}

/** Maps an error of the identity backend to a problem. Never passes on the backend's own text. */
export function passkeyProblem(error: AuthError, { requestId }: { requestId: string }): Response {
  const failure = mapGeneralError(error);
  if (failure) {
    return problem(problemCodeByStatus[failure.status], {
      requestId,
      detail: failure.message,
      headers: failure.status === 429 ? { "Retry-After": retryAfterSeconds } : {},
    });
  }
  const { code, detail } = refusals[error.code ?? ""] ?? unverifiableRefusal;
  if (code === "UNAVAILABLE") logError("the identity backend has passkeys switched off", { requestId });
  return problem(code, { requestId, detail });
}

/** Answers a registration of a passkey that an account already has. */
export function createDuplicatePasskeyProblem(requestId: string): Response {
  return problem(duplicateRefusal.code, { requestId, detail: duplicateRefusal.detail });
}

/**
 * Returns the response to a sign-in whose passkey belongs to no account. The page tells the browser, which may then
 * remove the passkey.
 */
export function createUnknownPasskeyProblem(requestId: string): Response {
  return problem("INVALID_REQUEST", {
    requestId,
    detail: "No account here has this passkey. It may have been deleted. Use another one, or another way to sign in.",
    members: { unknownPasskey: true },
  });
}
