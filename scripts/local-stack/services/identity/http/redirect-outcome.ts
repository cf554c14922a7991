import { AuthError, OAuthError } from "../core/errors.ts";
import { withFragment, withQuery } from "../core/redirect-url.ts";

const oauthErrors: Record<number, string> = {
  400: "invalid_request",
  401: "unauthorized_client",
  403: "access_denied",
  500: "server_error",
  503: "temporarily_unavailable",
};

/** Where a mail's link that failed ends: the error in the fragment, and in the query too where a server is to see it. */
export function errorTarget(target: string, error: unknown, { inQuery }: { inQuery: boolean }): string {
  return failureTarget(target, describe(error), { inQuery });
}

/** Where a failed sign-in with a provider ends. */
export function oauthErrorTarget(target: string, error: unknown): string {
  return failureTarget(target, oauthErrorQuery(error), { inQuery: true });
}

function failureTarget(target: string, fields: Record<string, string>, { inQuery }: { inQuery: boolean }): string {
  const said = Object.entries(fields).filter(([, value]) => value !== "");
  return withFragment(inQuery ? withQuery(target, fields) : target, { ...Object.fromEntries(said), sb: "" });
}

/** Where a flow ends that is not done yet. */
export function messageTarget(target: string, message: string, { inQuery }: { inQuery: boolean }): string {
  return withFragment(withQuery(target, inQuery ? { message } : {}), { message, sb: "" });
}

/** Refusals of a sign-in that OAuth calls access_denied, whatever their status. */
const denied = ["signup_disabled", "user_banned", "provider_email_needs_verification"];

/** An error as RFC 6749 section 4.1.2.1 puts it into a query. */
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
