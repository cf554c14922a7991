/**
 * Settings of the servers that tests start in addition to the suite's own. Each set starts another process, so settings
 * that do not conflict share a set.
 */

/** Disables features that the product enables. */
export const featuresOff = {
  GOTRUE_DISABLE_SIGNUP: "true",
  GOTRUE_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED: "false",
  GOTRUE_MFA_TOTP_ENROLL_ENABLED: "false",
  GOTRUE_MFA_TOTP_VERIFY_ENABLED: "false",
  GOTRUE_PASSKEY_ENABLED: "false",
  GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: "false",
};

/** Emails need no confirmation, passwords must follow rules, and used refresh tokens have no reuse interval. */
export const autoconfirm = {
  GOTRUE_MAILER_AUTOCONFIRM: "true",
  GOTRUE_PASSWORD_MIN_LENGTH: "10",
  GOTRUE_PASSWORD_REQUIRED_CHARACTERS: "abcdefghijklmnopqrstuvwxyz:0123456789",
  GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: "0",
};

/**
 * Sessions expire, email sign-in is disabled, and reuse of a refresh token is refused without revoking other tokens.
 */
export const shortSessions = {
  GOTRUE_SESSIONS_TIMEBOX: "24h",
  GOTRUE_SESSIONS_INACTIVITY_TIMEOUT: "1h",
  GOTRUE_SESSIONS_SINGLE_PER_USER: "true",
  GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED: "false",
  GOTRUE_EXTERNAL_EMAIL_ENABLED: "false",
};

/** A new password requires an emailed code. A new email is confirmed only from the new mailbox. */
export const reauthentication = {
  GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: "true",
  GOTRUE_MAILER_SECURE_EMAIL_CHANGE_ENABLED: "false",
};

/** Requires the current password for a new one, and sends no emails at all. */
export const currentPassword = {
  GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD: "true",
  GOTRUE_RATE_LIMIT_EMAIL_SENT: "0",
};

/** Reads client addresses from headers, and rate-limits them. */
export const addressLimits = {
  GOTRUE_RATE_LIMIT_HEADER: "X-Forwarded-For",
  GOTRUE_SECURITY_SB_FORWARDED_FOR_ENABLED: "true",
};
