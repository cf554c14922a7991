import { AuthError, OAuthError } from "../core/errors.ts";
import { withFragment, withQuery } from "../core/redirect-url.ts";

const oauthErrors: Record<number, string> = {
  400: "invalid_request",
  401: "unauthorized_client",
  403: "access_denied",
  500: "server_error",
  503: "temporarily_unavailable",
};

/**
 * Returns the URL to which a failed email link redirects. The error is in the fragment and, if a server must see it,
 * also in the query.
 */
export function errorTarget(target: string, error: unknown, { inQuery }: { inQuery: boolean }): string {
  return failureTarget(target, describe(error), { inQuery });
}

/** Returns the URL to which a failed provider sign-in redirects. */
export function oauthErrorTarget(target: string, error: unknown): string {
  return failureTarget(target, oauthErrorQuery(error), { inQuery: true });
}

function failureTarget(target: string, fields: Record<string, string>, { inQuery }: { inQuery: boolean }): string {
  const presentFields = Object.entries(fields).filter(([, value]) => value !== "");
  return withFragment(inQuery ? withQuery(target, fields) : target, { ...Object.fromEntries(presentFields), sb: "" });
}

/** Returns the URL to which an unfinished flow redirects, with a message for the user. */
export function messageTarget(target: string, message: string, { inQuery }: { inQuery: boolean }): string {
  return withFragment(withQuery(target, inQuery ? { message } : {}), { message, sb: "" });
}

/** Error codes that are reported as access_denied with any HTTP status. */
const denied = ["signup_disabled", "user_banned", "provider_email_needs_verification"];

/** Returns an error as query parameters (RFC 6749 section 4.1.2.1). */
export function oauthErrorQuery(error: unknown): Record<string, string> {
  if (error instanceof OAuthError) return { error: error.error, error_description: error.message };
  const fields = describe(error);
  if (error instanceof AuthError && denied.includes(error.code)) return { ...fields, error: "access_denied" };
  return { error: "server_error", ...fields };
}

function describe(error: unknown): Record<string, string> {
  if (!(error instanceof AuthError)) {
    return { error: "server_error", error_code: "unexpected_failure", error_description: "Unexpected failure" };
  }
  const oauth = oauthErrors[error.status];
  return { ...(oauth ? { error: oauth } : {}), error_code: error.code, error_description: error.message };
}
