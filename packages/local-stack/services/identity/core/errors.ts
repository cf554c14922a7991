/** Supabase Auth's error codes that this server returns. */
export type ErrorCode =
  | "bad_code_verifier"
  | "bad_json"
  | "bad_jwt"
  | "bad_oauth_callback"
  | "bad_oauth_state"
  | "captcha_failed"
  | "conflict"
  | "current_password_invalid"
  | "current_password_required"
  | "email_address_not_authorized"
  | "email_conflict_identity_not_deletable"
  | "email_exists"
  | "email_not_confirmed"
  | "email_provider_disabled"
  | "feature_disabled"
  | "flow_state_already_used"
  | "flow_state_expired"
  | "flow_state_not_found"
  | "hook_payload_invalid_content_type"
  | "identity_already_exists"
  | "identity_not_found"
  | "insufficient_aal"
  | "invite_not_found"
  | "invalid_credentials"
  | "manual_linking_disabled"
  | "mfa_challenge_expired"
  | "mfa_factor_name_conflict"
  | "mfa_factor_not_found"
  | "mfa_ip_address_mismatch"
  | "mfa_totp_enroll_not_enabled"
  | "mfa_totp_verify_not_enabled"
  | "mfa_verification_failed"
  | "mfa_verification_rejected"
  | "no_authorization"
  | "not_admin"
  | "not_implemented"
  | "otp_disabled"
  | "otp_expired"
  | "over_email_send_rate_limit"
  | "over_request_rate_limit"
  | "passkey_disabled"
  | "phone_provider_disabled"
  | "provider_email_needs_verification"
  | "anonymous_provider_disabled"
  | "reauthentication_needed"
  | "reauthentication_not_valid"
  | "refresh_token_already_used"
  | "refresh_token_not_found"
  | "request_entity_too_large"
  | "request_timeout"
  | "same_password"
  | "saml_provider_disabled"
  | "session_expired"
  | "session_not_found"
  | "signup_disabled"
  | "single_identity_not_deletable"
  | "too_many_enrolled_mfa_factors"
  | "too_many_passkeys"
  | "unexpected_audience"
  | "unexpected_failure"
  | "unknown"
  | "user_already_exists"
  | "user_banned"
  | "user_not_found"
  | "user_sso_managed"
  | "validation_failed"
  | "weak_password"
  | "webauthn_challenge_expired"
  | "webauthn_challenge_not_found"
  | "webauthn_verification_failed";

export type WeaknessReason = "length" | "characters" | "pwned";
type Details = { reasons?: WeaknessReason[]; commits?: boolean; cause?: unknown };

/** A refusal with its HTTP status and code. With `commits`, the transaction is committed despite the error. */
export class AuthError extends Error {
  readonly status: number;
  readonly code: ErrorCode;
  readonly reasons: WeaknessReason[] | undefined;
  readonly commits: boolean;

  constructor(status: number, code: ErrorCode, message: string, details: Details = {}) {
    super(message, { cause: details.cause });
    this.name = "AuthError";
    this.status = status;
    this.code = code;
    this.reasons = details.reasons;
    this.commits = details.commits ?? false;
  }
}

/** An error in OAuth's own shape (RFC 6749 section 5.2), always with status 400. */
export class OAuthError extends Error {
  readonly error: string;

  constructor(error: string, description: string) {
    super(description);
    this.name = "OAuthError";
    this.error = error;
  }
}

/** Creates a 400 validation_failed error. */
export function invalid(message: string): AuthError {
  return new AuthError(400, "validation_failed", message);
}

/** Creates a 500 unexpected_failure error. The cause is logged and never sent to the client. */
export function unexpected(message: string, cause?: unknown): AuthError {
  return new AuthError(500, "unexpected_failure", message, { cause });
}
