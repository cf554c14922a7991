/**
 * Why a session in this browser has ended, by the kind of the account's event that ended it. Completes "… was signed
 * out".
 */
const reasons: Readonly<Record<string, string>> = {
  sign_out: "from an app",
  session_revoked: "from another device",
  other_sessions_revoked: "from another device, with all other devices",
  all_sessions_revoked: "everywhere",
  signed_out_by_admin: "everywhere by an administrator",
  authenticators_reset: "because an administrator removed its authenticator apps",
  account_banned: "because an administrator blocked it",
  deletion_requested: "because an administrator scheduled its deletion",
  password_changed: "because its password was changed",
  password_added: "because a password was set for it",
  recovery_code_used: "because a recovery code was used on another device",
  account_recovered: "because it was recovered by email",
  idle: "because it wasn’t used in this browser for 30 days",
};

/** Returns why an account's session ended, to complete "… was signed out"; empty if the reason is unknown. */
export function describeEnd(reason: string | null): string {
  return (reason !== null && reasons[reason]) || "";
}
