import { z } from "zod";
import { readMailTexts } from "./mail-texts.ts";
import { isKnownProvider, readProviders } from "./providers.ts";
import { characterSets, count, duration, flag, list, optionalDuration, rate, required, str } from "./values.ts";

/** The minimum values that Supabase Auth enforces for these settings. */
const floors = { passwordLength: 6, challengeS: 300, factorMs: 300_000, flowStateMs: 300_000 };

const environment = z.object({
  DATABASE_URL: required(),
  PORT: count(9999),
  API_EXTERNAL_URL: required().pipe(z.url()),
  GOTRUE_API_HOST: str("127.0.0.1"),
  GOTRUE_API_MAX_REQUEST_DURATION: duration(10_000),
  GOTRUE_SITE_URL: required(),
  GOTRUE_URI_ALLOW_LIST: list(),
  GOTRUE_DISABLE_SIGNUP: flag(false),
  GOTRUE_CORS_ALLOWED_HEADERS: list(),

  GOTRUE_JWT_SECRET: required(),
  GOTRUE_JWT_KEYS: str(),
  GOTRUE_JWT_KEY_ID: str(),
  GOTRUE_JWT_EXP: count(3600),
  GOTRUE_JWT_AUD: str(),
  GOTRUE_JWT_ISSUER: str(),
  GOTRUE_JWT_ADMIN_ROLES: list(["service_role", "supabase_admin"]),
  GOTRUE_JWT_ADMIN_GROUP_NAME: str("admin"),
  GOTRUE_JWT_DEFAULT_GROUP_NAME: str(),

  GOTRUE_MAILER_AUTOCONFIRM: flag(false),
  GOTRUE_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS: flag(false),
  GOTRUE_MAILER_SECURE_EMAIL_CHANGE_ENABLED: flag(true),
  GOTRUE_MAILER_OTP_EXP: count(86_400),
  GOTRUE_MAILER_OTP_LENGTH: count(6),
  GOTRUE_SMTP_HOST: str(),
  GOTRUE_SMTP_PORT: count(587),
  GOTRUE_SMTP_USER: str(),
  GOTRUE_SMTP_PASS: str(),
  GOTRUE_SMTP_ADMIN_EMAIL: str(),
  GOTRUE_SMTP_SENDER_NAME: str(),
  GOTRUE_SMTP_MAX_FREQUENCY: duration(60_000),

  GOTRUE_RATE_LIMIT_HEADER: str(),
  GOTRUE_RATE_LIMIT_EMAIL_SENT: rate(30),
  GOTRUE_RATE_LIMIT_VERIFY: count(30),
  GOTRUE_RATE_LIMIT_TOKEN_REFRESH: count(150),
  GOTRUE_RATE_LIMIT_OTP: count(30),
  GOTRUE_RATE_LIMIT_PASSKEY: count(30),

  GOTRUE_PASSWORD_MIN_LENGTH: count(6),
  GOTRUE_PASSWORD_REQUIRED_CHARACTERS: characterSets(),
  /** Our own setting: bcrypt's cost, with Supabase Auth's default. A lower cost makes tests faster. */
  GOTRUE_PASSWORD_HASH_COST: count(10).pipe(z.int().min(4).max(15)),

  GOTRUE_SECURITY_CAPTCHA_ENABLED: flag(false),
  GOTRUE_SECURITY_CAPTCHA_PROVIDER: str("hcaptcha").pipe(z.enum(["hcaptcha", "turnstile"])),
  GOTRUE_SECURITY_CAPTCHA_SECRET: str(),
  GOTRUE_SECURITY_CAPTCHA_TIMEOUT: duration(10_000),
  /** Our own setting: the URL of the CAPTCHA verifier, for tests and for machines without internet access. */
  GOTRUE_SECURITY_CAPTCHA_VERIFIER_URL: str(),
  GOTRUE_SECURITY_REFRESH_TOKEN_ALGORITHM_VERSION: count(1),
  GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED: flag(true),
  GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: count(0),
  GOTRUE_SECURITY_REFRESH_TOKEN_ALLOW_REUSE: flag(false),
  GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: flag(false),
  GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD: flag(false),
  GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: flag(false),
  GOTRUE_SECURITY_SB_FORWARDED_FOR_ENABLED: flag(false),

  GOTRUE_SESSIONS_TIMEBOX: optionalDuration(),
  GOTRUE_SESSIONS_INACTIVITY_TIMEOUT: optionalDuration(),
  GOTRUE_SESSIONS_ALLOW_LOW_AAL: optionalDuration(),
  GOTRUE_SESSIONS_SINGLE_PER_USER: flag(false),

  GOTRUE_MFA_CHALLENGE_EXPIRY_DURATION: count(300),
  GOTRUE_MFA_FACTOR_EXPIRY_DURATION: duration(300_000),
  GOTRUE_MFA_RATE_LIMIT_CHALLENGE_AND_VERIFY: count(15),
  GOTRUE_MFA_MAX_ENROLLED_FACTORS: count(10),
  GOTRUE_MFA_MAX_VERIFIED_FACTORS: count(10),
  GOTRUE_MFA_TOTP_ENROLL_ENABLED: flag(true),
  GOTRUE_MFA_TOTP_VERIFY_ENABLED: flag(true),

  GOTRUE_PASSKEY_ENABLED: flag(false),
  GOTRUE_PASSKEY_MAX_PASSKEYS_PER_USER: count(10),
  GOTRUE_WEBAUTHN_RP_ID: str(),
  GOTRUE_WEBAUTHN_RP_DISPLAY_NAME: str(),
  GOTRUE_WEBAUTHN_RP_ORIGINS: list(),
  GOTRUE_WEBAUTHN_CHALLENGE_EXPIRY_DURATION: duration(300_000),

  GOTRUE_EXTERNAL_EMAIL_ENABLED: flag(true),
  GOTRUE_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED: flag(true),
  GOTRUE_EXTERNAL_EMAIL_AUTHORIZED_ADDRESSES: list(),
  GOTRUE_EXTERNAL_REDIRECT_URL: str(),
  GOTRUE_EXTERNAL_FLOW_STATE_EXPIRY_DURATION: duration(300_000),

  GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_ENABLED: flag(false),
  GOTRUE_HOOK_PASSWORD_VERIFICATION_ATTEMPT_URI: str(),
  GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_ENABLED: flag(false),
  GOTRUE_HOOK_MFA_VERIFICATION_ATTEMPT_URI: str(),
});

/**
 * Parses the settings. The environment variables have the same names as Supabase Auth's.
 * @throws Error naming every variable that is missing, malformed, or enables a feature that this server lacks
 */
export function readConfig(env: NodeJS.ProcessEnv) {
  const lacking = lackingFeatures(env);
  if (lacking.length > 0) {
    throw new Error(
      `The local identity server lacks what these settings turn on:\n${lacking.map((name) => `  ${name}`).join("\n")}\n` +
        "Remove them, or set IDENTITY_BIN to a Supabase Auth.",
    );
  }
  const parsed = environment.safeParse(env);
  if (!parsed.success) {
    const lines = parsed.error.issues.map((issue) => `  ${issue.path.join(".")}: ${issue.message}`);
    throw new Error(`The identity server's environment is incomplete:\n${lines.join("\n")}`);
  }
  const values = parsed.data;
  if (values.GOTRUE_SECURITY_CAPTCHA_ENABLED && !values.GOTRUE_SECURITY_CAPTCHA_SECRET) {
    throw new Error("GOTRUE_SECURITY_CAPTCHA_ENABLED needs GOTRUE_SECURITY_CAPTCHA_SECRET.");
  }
  const otpLength = values.GOTRUE_MAILER_OTP_LENGTH;
  return {
    ...values,
    GOTRUE_MAILER_OTP_LENGTH: otpLength >= 6 && otpLength <= 10 ? otpLength : 6,
    GOTRUE_MAILER_OTP_EXP: values.GOTRUE_MAILER_OTP_EXP || 86_400,
    GOTRUE_SMTP_MAX_FREQUENCY: values.GOTRUE_SMTP_MAX_FREQUENCY || 60_000,
    GOTRUE_JWT_EXP: values.GOTRUE_JWT_EXP || 3600,
    GOTRUE_PASSWORD_MIN_LENGTH: Math.max(values.GOTRUE_PASSWORD_MIN_LENGTH, floors.passwordLength),
    GOTRUE_MFA_CHALLENGE_EXPIRY_DURATION: Math.max(values.GOTRUE_MFA_CHALLENGE_EXPIRY_DURATION, floors.challengeS),
    GOTRUE_MFA_FACTOR_EXPIRY_DURATION: Math.max(values.GOTRUE_MFA_FACTOR_EXPIRY_DURATION, floors.factorMs),
    GOTRUE_EXTERNAL_FLOW_STATE_EXPIRY_DURATION: Math.max(
      values.GOTRUE_EXTERNAL_FLOW_STATE_EXPIRY_DURATION,
      floors.flowStateMs,
    ),
    mailTexts: readMailTexts(env),
    providers: readProviders(env),
  };
}

/** Returns the variables that enable a feature of Supabase Auth that this server lacks, such as anonymous users. */
function lackingFeatures(env: NodeJS.ProcessEnv): string[] {
  const switches = Object.keys(env).filter((name) => /^GOTRUE_\w+_ENABLED$/.test(name) && !(name in environment.shape));
  return switches.filter((name) => {
    const [, provider] = /^GOTRUE_EXTERNAL_(\w+)_ENABLED$/.exec(name) ?? [];
    const isProvider =
      provider !== undefined &&
      (isKnownProvider(provider.toLowerCase()) || env[`GOTRUE_EXTERNAL_${provider}_CLIENT_ID`]);
    return !isProvider && /^\s*(1|t|true)\s*$/i.test(env[name] ?? "");
  });
}

export type Config = ReturnType<typeof readConfig>;
