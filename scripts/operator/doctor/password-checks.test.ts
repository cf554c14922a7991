import { expect, test } from "vitest";
import { checkPasswords } from "./password-checks.ts";

/**
 * Part of the response of GET /v1/projects/{ref}/config/auth, as documented at
 * https://supabase.com/docs/reference/api/v1-get-auth-service-config.
 */
const values = {
  password_min_length: 8,
  password_required_characters: "",
  password_hibp_enabled: true,
  security_update_password_require_reauthentication: true,
  mailer_autoconfirm: false,
  mailer_allow_unverified_email_sign_ins: false,
  mailer_otp_length: 10,
  mailer_otp_exp: 3_600,
};
const project = (changes: Record<string, unknown> = {}) =>
  checkPasswords({ from: "project", project: "abcdefghijklmnopqrst", values: { ...values, ...changes } });
const own = {
  GOTRUE_JWT_SECRET: "secret",
  GOTRUE_PASSWORD_MIN_LENGTH: "8",
  GOTRUE_PASSWORD_HIBP_ENABLED: "true",
  GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: "1",
  GOTRUE_MAILER_OTP_LENGTH: "10",
  GOTRUE_MAILER_OTP_EXP: "3600",
};
const environment = (changes: Record<string, string> = {}) =>
  checkPasswords({ from: "environment", values: { ...own, ...changes } });

test("accepts a backend with the same password requirements as our pages", () => {
  for (const findings of [project(), environment()]) {
    expect(findings).toEqual([{ level: "ok", about: "passwords", says: "the backend demands what our pages demand" }]);
  }
});

test.each([
  ["password_min_length", 7, "fail", "direct callers may choose 7 characters", "Minimum password length"],
  // Null means Supabase Auth's default, 6.
  ["password_min_length", null, "fail", "direct callers may choose 6 characters", "Minimum password length"],
  ["password_min_length", 9, "warn", "our pages ask for 8 characters, the backend for 9", "Minimum password length"],
  [
    "password_required_characters",
    "abcdefghijklmnopqrstuvwxyz:ABCDEFGHIJKLMNOPQRSTUVWXYZ:0123456789",
    "warn",
    "requires characters that our pages do not name",
    "Password requirements",
  ],
  ["password_hibp_enabled", false, "warn", "stolen passwords", "Prevent use of leaked passwords"],
  ["password_hibp_enabled", null, "warn", "stolen passwords", "Prevent use of leaked passwords"],
  ["security_update_password_require_reauthentication", false, "fail", "a stolen session", "Secure password change"],
  ["mailer_autoconfirm", true, "fail", "without a confirmation", "Confirm email"],
  ["mailer_allow_unverified_email_sign_ins", true, "fail", "before they confirm", "Management API"],
  ["mailer_otp_length", 9, "fail", "fewer than 10 digits", "Email OTP Length"],
  // Supabase Auth's default is 6 digits, which it also uses for a length above 10.
  ["mailer_otp_length", 11, "fail", "fewer than 10 digits", "Email OTP Length"],
  ["mailer_otp_length", null, "fail", "fewer than 10 digits", "Email OTP Length"],
  ["mailer_otp_exp", 3_601, "warn", "work for 3601 seconds", "Email OTP Expiration"],
  ["mailer_otp_exp", null, "warn", "work for 86400 seconds", "Email OTP Expiration"],
])("reports the password setting %s with the value %j, and says where to set it", (name, value, level, says, where) => {
  const findings = project({ [name]: value });
  expect(findings).toHaveLength(1);
  expect(findings[0]).toMatchObject({ level, about: "passwords", says: expect.stringContaining(says) });
  expect(findings[0]?.says).toContain(name);
  expect(findings[0]?.says).toContain(where);
});

test.each([
  ["GOTRUE_PASSWORD_MIN_LENGTH", "", "fail", "6 characters"],
  ["GOTRUE_PASSWORD_MIN_LENGTH", "eight", "fail", "GOTRUE_PASSWORD_MIN_LENGTH"],
  ["GOTRUE_PASSWORD_REQUIRED_CHARACTERS", "0123456789", "warn", "GOTRUE_PASSWORD_REQUIRED_CHARACTERS"],
  ["GOTRUE_PASSWORD_HIBP_ENABLED", "false", "warn", "GOTRUE_PASSWORD_HIBP_ENABLED"],
  ["GOTRUE_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION", "", "fail", "at any time"],
  ["GOTRUE_MAILER_AUTOCONFIRM", "t", "fail", "GOTRUE_MAILER_AUTOCONFIRM"],
  ["GOTRUE_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS", "true", "fail", "before they confirm"],
  ["GOTRUE_MAILER_OTP_LENGTH", "", "fail", "GOTRUE_MAILER_OTP_LENGTH"],
  ["GOTRUE_MAILER_OTP_EXP", "", "warn", "GOTRUE_MAILER_OTP_EXP"],
])("reports an insecure or invalid password setting of a self-hosted backend: %s = %j", (name, value, level, says) => {
  expect(environment({ [name]: value })).toEqual([{ level, about: "passwords", says: expect.stringContaining(says) }]);
});

test("reports each password setting that differs from what our pages require", () => {
  expect(project({ password_min_length: 6, password_hibp_enabled: false })).toHaveLength(2);
});

test.each([
  [
    "missing settings",
    { from: "nowhere", why: "not shown without SUPABASE_ACCESS_TOKEN" },
    "Look at Dashboard, Authentication",
  ],
  ["an answer without the settings", { from: "project", project: "p", values: { site_url: "" } }, "minimum length 8"],
  ["another backend's settings", { from: "environment", values: {} }, "name its settings too"],
] as const)("the doctor can't judge the password settings from %s, and says what to do", (_, config, says) => {
  expect(checkPasswords(config)).toEqual([
    { level: "unseen", about: "passwords", says: expect.stringContaining(says) },
  ]);
});

test("accepts the password settings of a local stack without reading them", () => {
  expect(checkPasswords({ from: "local" })).toMatchObject([{ level: "ok" }]);
});
