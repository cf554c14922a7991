import { expect, test } from "vitest";
import { readConfig } from "./config.ts";

const needed = {
  NODE_ENV: "test" as const,
  DATABASE_URL: "postgres://localhost/postgres",
  API_EXTERNAL_URL: "http://localhost",
  GOTRUE_SITE_URL: "http://localhost",
  GOTRUE_JWT_SECRET: "secret",
};

// Names from supabase/auth's internal/conf/configuration.go.
test.each([
  "GOTRUE_EXTERNAL_ANONYMOUS_USERS_ENABLED",
  "GOTRUE_EXTERNAL_PHONE_ENABLED",
  "GOTRUE_EXTERNAL_WEB3_SOLANA_ENABLED",
  "GOTRUE_MFA_PHONE_ENROLL_ENABLED",
  "GOTRUE_MFA_WEB_AUTHN_VERIFY_ENABLED",
  "GOTRUE_SAML_ENABLED",
  "GOTRUE_OAUTH_SERVER_ENABLED",
  "GOTRUE_HOOK_CUSTOM_ACCESS_TOKEN_ENABLED",
  "GOTRUE_HOOK_SEND_SMS_ENABLED",
  "GOTRUE_PASSWORD_HIBP_ENABLED",
])("refuses to start if the unsupported setting %s is enabled, and names it", (name) => {
  for (const on of ["true", "1", " T "]) expect(() => readConfig({ ...needed, [name]: on })).toThrow(`\n  ${name}\n`);
  for (const off of ["false", "0", ""]) expect(() => readConfig({ ...needed, [name]: off })).not.toThrow();
});

test.each([
  { GOTRUE_EXTERNAL_EMAIL_ENABLED: "true" },
  { GOTRUE_EXTERNAL_GOOGLE_ENABLED: "true" },
  { GOTRUE_EXTERNAL_OWN_ENABLED: "true", GOTRUE_EXTERNAL_OWN_CLIENT_ID: "id" },
  { GOTRUE_MFA_TOTP_ENROLL_ENABLED: "true" },
  { GOTRUE_PASSKEY_ENABLED: "true" },
])("accepts the settings %o", (settings) => {
  expect(() => readConfig({ ...needed, ...settings })).not.toThrow();
});
