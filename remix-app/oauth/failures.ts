import { findProvider, type OAuthSettings, providerLabel } from "../config/oauth-providers.ts";

/** Why a visit to a provider came to nothing. The list is closed: it travels in our own addresses. */
const failures = {
  cancelled: () => "You came back without signing in. Nothing was changed.",
  unverified: (name) =>
    `${name} has not confirmed that your email address is yours. Confirm it there, or by the mail that you may have got from us, then try again.`,
  closed: () => "This account cannot be signed in to. If that surprises you, write to support.",
  sign_up_closed: (name) => `No account here uses this ${name} sign-in, and new accounts cannot be made right now.`,
  already_linked: (name) => `This ${name} account is linked already: to yours, or to another one here.`,
  expired: (name) => `That took too long, or was finished before. Start again with ${name}.`,
  other_account: (name) =>
    `The ${name} account that you chose belongs to another account here. Choose the one that is linked to yours.`,
  tenant: (name) => `Only ${name} accounts of our own organisation can be used here, and this one is of another.`,
  unfinished_link: (name) =>
    `This ${name} account had been added to somebody's account here, and nobody there had finished that. We took it off again. Try once more.`,
  unavailable: () => "We cannot reach the sign-in service right now. Nothing was changed. Try again in a moment.",
  failed: (name) => `We could not finish this with ${name}. Try again, or use another way.`,
} as const satisfies Record<string, (provider: string) => string>;

export type OAuthFailure = keyof typeof failures;

/** Reads a failure from one of our own addresses. */
export function parseFailure(text: string | null): OAuthFailure | null {
  return text !== null && Object.hasOwn(failures, text) ? (text as OAuthFailure) : null;
}

/** A failure in words for whom it happened to. */
export function failureText(failure: OAuthFailure, provider: string): string {
  return failures[failure](providerLabel(provider));
}

/** The failure in the sign-in page's address, in words. Only what we know is said: addresses can be made by anybody. */
export function failureIn(query: URLSearchParams, settings: OAuthSettings): string | null {
  const failure = parseFailure(query.get("oauth"));
  const provider = findProvider(settings, query.get("provider") ?? undefined);
  return failure && provider && failureText(failure, provider.name);
}

/** Error codes of the identity backend, which it sends the browser back with. */
const byCode: Record<string, OAuthFailure> = {
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

/** Errors of providers (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6) that say that somebody turned back. */
const turnedBack = ["access_denied", "user_cancelled_authorize", "consent_required", "interaction_required"];

/** What an address that the identity backend sent the browser to says went wrong; its texts are never passed on. */
export function failureOf(query: URLSearchParams): OAuthFailure {
  const code = query.get("error_code");
  if (code) return byCode[code] ?? "failed";
  return turnedBack.includes(query.get("error") ?? "") ? "cancelled" : "failed";
}
