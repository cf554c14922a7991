import { findProvider, type OAuthSettings, providerLabel } from "../config/oauth-providers.ts";

/** Why a visit to a provider failed. The list is closed, because these names appear in our own URLs. */
const failures = {
  cancelled: (name) => `You canceled signing in with ${name}. Nothing has changed.`,
  unverified: (name) =>
    `${name} hasn’t verified your email address. Verify it there, or open the confirmation link if we emailed you one, then try again.`,
  closed: () => "You can’t sign in to this account. If you think this is a mistake, contact support.",
  sign_up_closed: (name) => `No account here uses this ${name} account, and sign-up is closed right now.`,
  uninvited: (name) =>
    `No account here uses this ${name} account, and sign-up is by invitation. Ask your administrator.`,
  already_linked: (name) => `This ${name} account is already linked, to your account or to another one here.`,
  expired: (name) => `This sign-in expired or was already finished. Start again with ${name}.`,
  other_account: (name) =>
    `The ${name} account you chose is linked to another account here. Choose the one linked to yours.`,
  tenant: (name) => `Only ${name} accounts from our organization can be used here.`,
  unfinished_link: (name) =>
    `Linking this ${name} account to another account was never finished, so we removed that link. Try again.`,
  unconfirmed_link: (name) =>
    `An app linked this ${name} account to an account here, and its owner hasn’t confirmed that. Sign in another way and keep it under Security, Review account access. If you don’t know that account, contact support.`,
  unavailable: () => "We can’t reach the sign-in service right now. Nothing has changed. Try again in a moment.",
  failed: (name) => `We couldn’t finish this with ${name}. Try again, or sign in another way.`,
} as const satisfies Record<string, (provider: string) => string>;

export type OAuthFailure = keyof typeof failures;

/** Parses a failure from one of our own URLs. */
export function parseFailure(text: string | null): OAuthFailure | null {
  return text !== null && Object.hasOwn(failures, text) ? (text as OAuthFailure) : null;
}

/** Returns the text that explains a failure to the user. */
export function failureText(failure: OAuthFailure, provider: string): string {
  return failures[failure](providerLabel(provider));
}

/**
 * Returns the text of the failure in the sign-in page's URL. Only known failures are shown, because anyone can make up
 * a URL.
 */
export function readFailureText(query: URLSearchParams, settings: OAuthSettings): string | null {
  const failure = parseFailure(query.get("oauth"));
  const provider = findProvider(settings, query.get("provider") ?? undefined);
  return failure && provider && failureText(failure, provider.name);
}

/** The failure for each error code with which the identity backend sends the browser back. */
const failureByErrorCode: Record<string, OAuthFailure> = {
  user_banned: "closed",
  signup_disabled: "sign_up_closed",
  provider_email_needs_verification: "unverified",
  email_not_confirmed: "unverified",
  identity_already_exists: "already_linked",
  bad_oauth_callback: "expired",
  bad_oauth_state: "expired",
  flow_state_expired: "expired",
  flow_state_not_found: "expired",
  flow_state_already_used: "expired",
};

/**
 * Returns whether the identity backend could not create an account. It names no reason, even if a trigger of the database
 * refused the account, so this compares its text (`signupNewUser` in Supabase Auth's `internal/api/signup.go`).
 */
export function isRefusedAccount(query: URLSearchParams): boolean {
  return (
    query.get("error_code") === "unexpected_failure" &&
    query.get("error_description") === "Database error saving new user"
  );
}

/** Provider errors (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6) for a user who canceled. */
const cancellations = ["access_denied", "user_cancelled_authorize", "consent_required", "interaction_required"];

/**
 * Returns the failure from the query with which the identity backend sent the browser back. The backend's own texts are
 * never passed on.
 */
export function parseBackendFailure(query: URLSearchParams): OAuthFailure {
  const code = query.get("error_code");
  if (code) return failureByErrorCode[code] ?? "failed";
  return cancellations.includes(query.get("error") ?? "") ? "cancelled" : "failed";
}
