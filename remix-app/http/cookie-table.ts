import { backendMailSeconds } from "./backend-mail-lifetime.ts";

const secondsPerMinute = 60;
const secondsPerHour = 60 * secondsPerMinute;
const secondsPerYear = 365 * 24 * secondsPerHour;
/** 400 days, the longest that browsers keep a cookie. */
const maxCookieAgeSeconds = 400 * 24 * secondsPerHour;

/** One of our cookies. Every cookie is HttpOnly, is Secure on https, and is SameSite=Lax if `sameSite` is absent. */
export interface CookieDefinition {
  name: string;
  /**
   * Prefix of the cookie's name on https. Browsers refuse prefixed cookies on plain http. A sibling host cannot plant a
   * `__Host-` cookie (RFC 6265bis §4.1.3).
   */
  prefix?: "__Host-" | "__Secure-";
  path: string;
  sameSite?: "strict";
  /** Null if each write sets its own maximum age. */
  maxAgeSeconds: number | null;
  /** How the server verifies the cookie, or "none" if a forged cookie could only mislead the visitor. */
  signing: string;
  /**
   * Whether signing out of all accounts clears the cookie. False for the session and approval cookies, because every
   * sign-out already clears them.
   */
  ofAccounts: boolean;
  purpose: string;
}

export const cookies = {
  session: {
    name: "sb-<project>-auth-token",
    path: "/",
    maxAgeSeconds: maxCookieAgeSeconds,
    signing: "the access token's signature, and the device's tag of the refresh token",
    ofAccounts: false,
    purpose: "The active account's session, in chunks; shared with hosts under PARENT_DOMAIN (session/cookies.ts).",
  },
  device: {
    name: "gh_device",
    prefix: "__Host-",
    path: "/",
    maxAgeSeconds: maxCookieAgeSeconds,
    signing: "HMAC by the key ring `device cookie`",
    ofAccounts: true,
    purpose: "Which browser this is, and the secret that its vault opens with.",
  },
  addition: {
    // The full name ends with a suffix of eight characters.
    name: "gh_added_",
    prefix: "__Host-",
    path: "/",
    maxAgeSeconds: maxCookieAgeSeconds,
    signing: "HMAC by the key ring `device cookie`",
    ofAccounts: true,
    purpose: "An account that was just added; the next request adds it to the vault.",
  },
  mobileApproval: {
    name: "ttr_mfa_mobile_approval",
    path: "/",
    maxAgeSeconds: null,
    signing: "HMAC by the key `mobile approval cookie`",
    ofAccounts: false,
    purpose: "A second step approved on a phone, for one session.",
  },
  oauthState: {
    name: "gh_oauth",
    // `__Host-` allows only the root path.
    prefix: "__Secure-",
    path: "/auth/callback",
    // Attempts in `private.oauth_attempts` also expire after ten minutes.
    maxAgeSeconds: 10 * secondsPerMinute,
    signing: "JWT by the key `oauth state`",
    ofAccounts: false,
    purpose: "The state of a visit to a provider.",
  },
  ownPassword: {
    name: "gh_own_password",
    prefix: "__Host-",
    path: "/",
    maxAgeSeconds: secondsPerHour,
    signing: "HMAC by the key `own-password`",
    ofAccounts: true,
    purpose: "Whether this browser chose the password of an account that is not confirmed yet.",
  },
  savedForm: {
    name: "gh_kept_form",
    path: "/",
    maxAgeSeconds: 10 * secondsPerMinute,
    signing: "HMAC by the key `saved form`",
    ofAccounts: true,
    purpose: "A form that waits until its sender has proved again who they are.",
  },
  signInDemand: {
    name: "gh_sign_in_demand",
    prefix: "__Host-",
    path: "/",
    maxAgeSeconds: 10 * secondsPerMinute,
    signing: "HMAC by the key `sign-in demand`",
    ofAccounts: true,
    purpose: "From when on a page takes a sign-in, as an app asked with `prompt=login` or `max_age`.",
  },
  pendingMail: {
    name: "gh_pending_mail",
    path: "/signup",
    maxAgeSeconds: backendMailSeconds,
    signing: "none",
    ofAccounts: true,
    purpose: "The address that a confirmation was sent to, which must not travel in URLs and so into logs.",
  },
  codeRequest: {
    name: "gh_code",
    prefix: "__Host-",
    path: "/",
    maxAgeSeconds: backendMailSeconds,
    signing: "HMAC by the key `sign-in code`",
    ofAccounts: true,
    purpose: "The address that this browser had a sign-in code mailed to.",
  },
  signInHint: {
    name: "gh_sign_in_email",
    path: "/add-account",
    maxAgeSeconds: 10 * secondsPerMinute,
    signing: "none",
    ofAccounts: true,
    purpose: "The address of the account that has to sign in again.",
  },
  notice: {
    name: "gh_settings_notice",
    path: "/settings",
    maxAgeSeconds: secondsPerMinute,
    signing: "none",
    ofAccounts: true,
    purpose: "What just happened, for the settings page that is shown next.",
  },
  qrChallenge: {
    name: "gh_qr",
    path: "/qr",
    sameSite: "strict",
    // Longer than the challenge's lifetime, so that the page can say that the challenge has expired.
    maxAgeSeconds: 15 * secondsPerMinute,
    signing: "the challenge's secret, checked by the database",
    ofAccounts: true,
    purpose: "The QR challenge that the page waits for.",
  },
  recoveryBrowser: {
    name: "gh_recovery",
    prefix: "__Host-",
    path: "/",
    maxAgeSeconds: 15 * secondsPerMinute,
    signing: "none: random, compared with its hash in the database",
    ofAccounts: true,
    purpose: "Which browser uses a recovery mail, so that it can do so again while it has not received the response.",
  },
  approvalChallenge: {
    name: "gh_mfa_app",
    path: "/mfa",
    sameSite: "strict",
    maxAgeSeconds: 15 * secondsPerMinute,
    signing: "the challenge's secret, checked by the database",
    ofAccounts: true,
    purpose: "The request for a phone's approval that the page waits for.",
  },
  lastMethod: {
    name: "gh_last_method",
    prefix: "__Host-",
    path: "/",
    maxAgeSeconds: secondsPerYear,
    signing: "none",
    ofAccounts: false,
    purpose: "The last sign-in method, for the order of buttons.",
  },
  theme: {
    name: "gh_theme",
    path: "/",
    maxAgeSeconds: secondsPerYear,
    signing: "none",
    ofAccounts: false,
    purpose: "Light or dark; absent where the system decides.",
  },
} as const satisfies Record<string, CookieDefinition>;
