/**
 * Settings of the servers beside the suite's own. What does not get in each other's way is put together: each of
 * these is one more process.
 */

/** What the product switches on, switched off. */
export const featuresOff = {
  GOTRUE_DISABLE_SIGNUP: "true",
  GOTRUE_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED: "false",
  GOTRUE_MFA_TOTP_ENROLL_ENABLED: "false",
  GOTRUE_MFA_TOTP_VERIFY_ENABLED: "false",
  GOTRUE_PASSKEY_ENABLED: "false",
  GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: "false",
};

/** Addresses need no confirmation; passwords follow rules; used refresh tokens have no grace. */
export const autoconfirm = {
  GOTRUE_MAILER_AUTOCONFIRM: "true",
  GOTRUE_PASSWORD_MIN_LENGTH: "10",
  GOTRUE_PASSWORD_REQUIRED_CHARACTERS: "abcdefghijklmnopqrstuvwxyz:0123456789",
  GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: "0",
};

/** Sessions end by themselves; email is no way to sign in; abuse of a refresh token is merely refused. */
export const shortSessions = {
  GOTRUE_SESSIONS_TIMEBOX: "24h",
  GOTRUE_SESSIONS_INACTIVITY_TIMEOUT: "1h",
  GOTRUE_SESSIONS_SINGLE_PER_USER: "true",
  GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED: "false",
  GOTRUE_EXTERNAL_EMAIL_ENABLED: "false",
};

/** A mailed code before a new password; the new mailbox alone before a new address. */
export const reauthentication = {
  GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: "true",
  GOTRUE_MAILER_SECURE_EMAIL_CHANGE_ENABLED: "false",
};

/** The current password before a new one; no mails at all. */
export const currentPassword = {
  GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD: "true",
  GOTRUE_RATE_LIMIT_EMAIL_SENT: "0",
};

/** Addresses are read from headers, and limited. */
export const addressLimits = {
  GOTRUE_RATE_LIMIT_HEADER: "X-Forwarded-For",
  GOTRUE_SECURITY_SB_FORWARDED_FOR_ENABLED: "true",
};
