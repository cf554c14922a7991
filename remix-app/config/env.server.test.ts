import { describe, expect, test } from "vitest";
import { parseEnv } from "./env.server.ts";

const whole = {
  BASE_URL: "https://app.example.com/",
  SUPABASE_URL: "https://ref.supabase.co/",
  SUPABASE_PUBLISHABLE_KEY: "sb_publishable_x",
  SUPABASE_SECRET_KEY: "sb_secret_x",
  AUTH_RECOVERY_HASH_SECRET: "a secret of this production's own!",
};

describe("the environment", () => {
  test("parses the environment with its defaults", () => {
    expect(parseEnv(whole)).toMatchObject({
      NODE_ENV: "production",
      BASE_URL: "https://app.example.com",
      SUPABASE_URL: "https://ref.supabase.co",
      AI_URL: "https://ref.supabase.co/functions",
      PORT: 3000,
      TRUSTED_PROXY_HOPS: 0,
      WEB_PROCESSES: 1,
    });
    expect(parseEnv({ ...whole, WEB_PROCESSES: "64" }).WEB_PROCESSES).toBe(64);
  });

  test("SCHEDULE_LOOP=off requires SCHEDULE_SECRET, so that something runs the scheduled tasks", () => {
    expect(parseEnv(whole).SCHEDULE_LOOP).toBe(true);
    expect(() => parseEnv({ ...whole, SCHEDULE_LOOP: "off" })).toThrow(/^SCHEDULE_SECRET is missing/);
    const SCHEDULE_SECRET = "s".repeat(32);
    expect(parseEnv({ ...whole, SCHEDULE_LOOP: "off", SCHEDULE_SECRET })).toMatchObject({ SCHEDULE_LOOP: false });
    expect(() => parseEnv({ ...whole, SCHEDULE_SECRET: "s".repeat(31) })).toThrow(/^SCHEDULE_SECRET is not valid/);
  });

  test("requires a secret for recovery emails in production only", () => {
    const { AUTH_RECOVERY_HASH_SECRET: _, ...without } = whole;
    expect(() => parseEnv(without)).toThrow(/^AUTH_RECOVERY_HASH_SECRET is missing/);
    expect(() => parseEnv({ ...whole, AUTH_RECOVERY_HASH_SECRET: "short" })).toThrow(/is not valid/);
    expect(() => parseEnv({ ...whole, AUTH_RECOVERY_HASH_SECRET: `example-only-${"x".repeat(32)}` })).toThrow(
      /still holds the example's value/,
    );
    for (const NODE_ENV of ["development", "test"])
      expect(parseEnv({ ...without, NODE_ENV }).AUTH_RECOVERY_HASH_SECRET).toBeUndefined();
  });

  test("reports each missing or empty variable on a line of its own", () => {
    expect(() => parseEnv({ ...whole, SUPABASE_URL: "", SUPABASE_SECRET_KEY: undefined })).toThrow(
      /^SUPABASE_URL is missing: [^\n]+\nSUPABASE_SECRET_KEY is missing: [^\n]+$/,
    );
  });

  test.each([
    ["BASE_URL", "localhost:3000"],
    ["BASE_URL", "ftp://example.com"],
    ["PORT", "65536"],
    ["PORT", "http"],
    ["TRUSTED_PROXY_HOPS", "-1"],
    ["WEB_PROCESSES", "0"],
    ["WEB_PROCESSES", "65"],
    ["WEB_MULTI_ACCOUNT_SESSION_SECRET", "short"],
    ["PARENT_DOMAIN", "https://example.com"],
    ["WEB_ALLOWED_ORIGINS", "https://a.example, nonsense"],
    ["SMTP_URL", "https://mail.example.com"],
    ["MAIL_FROM", "Gatehouse"],
    ["OAUTH_PROVIDERS", "google,facebook"],
    ["OAUTH_FORM_TARGETS", "sso.example.com"],
    ["MICROSOFT_TENANT", "common"],
    ["MICROSOFT_TENANT", "organizations"],
    ["MICROSOFT_TENANT", "consumers"],
    ["MICROSOFT_TENANT", "9188040d-6c67-4c5b-b112-36a304b66dad"],
    ["MICROSOFT_LOGIN_URL", "login.microsoftonline.com"],
    ["MAIL_FROM", "a@example.com\r\nBcc: b@example.com"],
  ])("refuses %s=%s, and names the variable in the error", (name, value) => {
    expect(() => parseEnv({ ...whole, [name]: value })).toThrow(`${name} is not valid`);
  });

  test("the error for an invalid port says which ports are valid", () => {
    const message = "PORT is not valid: must be a whole number from 0 to 65535.";
    for (const PORT of ["http", "65536", "-1", "3000.5"]) expect(() => parseEnv({ ...whole, PORT })).toThrow(message);
  });

  test("requires a sender address if a mail server is set", () => {
    const SMTP_URL = "smtps://user:password@smtp.example.com:465";
    expect(() => parseEnv({ ...whole, SMTP_URL })).toThrow(/^MAIL_FROM is missing/);
    for (const MAIL_FROM of ["a@example.com", "Gatehouse <no-reply@example.com>"])
      expect(parseEnv({ ...whole, SMTP_URL, MAIL_FROM })).toMatchObject({ SMTP_URL, MAIL_FROM });
  });

  test("lists each enabled provider once, even if it is configured twice", () => {
    expect(parseEnv(whole).OAUTH_PROVIDERS).toEqual([]);
    expect(parseEnv({ ...whole, OAUTH_PROVIDERS: "github, google,github" }).OAUTH_PROVIDERS).toEqual([
      "github",
      "google",
    ]);
  });

  test("requires a single Microsoft tenant if sign-in with Microsoft is enabled", () => {
    const given = { ...whole, OAUTH_PROVIDERS: "google,azure" };
    expect(() => parseEnv(given)).toThrow(/^MICROSOFT_TENANT is missing/);
    expect(() => parseEnv({ ...given, MICROSOFT_TENANT: "common" })).toThrow(
      /^MICROSOFT_TENANT is not valid: .*one tenant/,
    );
    for (const MICROSOFT_TENANT of ["8a1f7f0e-0d5b-4d6c-9a40-2b6c7d8e9f01", "contoso.onmicrosoft.com"])
      expect(parseEnv({ ...given, MICROSOFT_TENANT })).toMatchObject({ MICROSOFT_TENANT });
  });

  test("accepts VISITOR_CITY_HEADER and VISITOR_COUNTRY_HEADER only behind a trusted proxy", () => {
    for (const name of ["VISITOR_CITY_HEADER", "VISITOR_COUNTRY_HEADER"]) {
      const given = { ...whole, [name]: "CF-IPCountry" };
      expect(() => parseEnv({ ...given, TRUSTED_PROXY_HOPS: "0" })).toThrow(/^TRUSTED_PROXY_HOPS .* at least 1/);
      expect(parseEnv({ ...given, TRUSTED_PROXY_HOPS: "1" })).toMatchObject({ [name]: "CF-IPCountry" });
      expect(() => parseEnv({ ...given, TRUSTED_PROXY_HOPS: "1", [name]: "CF IPCountry" })).toThrow(/name of a header/);
    }
  });

  test("in production, refuses a secret copied from the examples", () => {
    const secret = "example-only-0123456789abcdef0123456789";
    const given = { ...whole, WEB_MULTI_ACCOUNT_SESSION_SECRET: secret };
    expect(() => parseEnv(given)).toThrow(/^WEB_MULTI_ACCOUNT_SESSION_SECRET still holds the example's value/);
    expect(parseEnv({ ...given, NODE_ENV: "development" }).WEB_MULTI_ACCOUNT_SESSION_SECRET).toBe(secret);
    for (const name of ["WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS", "APP_SESSION_PREVIOUS_SECRETS"]) {
      const later = { ...whole, [name]: `${whole.AUTH_RECOVERY_HASH_SECRET}, ${secret}` };
      expect(() => parseEnv(later)).toThrow(new RegExp(`^${name} still holds the example's value`));
      expect(() => parseEnv({ ...later, NODE_ENV: "development" })).not.toThrow();
    }
  });

  test("takes the project's server secret from any of its variable names, in a fixed order", () => {
    const { SUPABASE_SECRET_KEY: _, ...rest } = whole;
    const names = { SUPABASE_SECRET_KEY: "a", SUPABASE_SERVICE_ROLE_KEY: "b", SUPABASE_SERVICE_KEY: "c" };
    expect(parseEnv({ ...rest, ...names }).SUPABASE_SECRET_KEY).toBe("a");
    expect(parseEnv({ ...rest, ...names, SUPABASE_SECRET_KEY: "" }).SUPABASE_SECRET_KEY).toBe("b");
    expect(parseEnv({ ...rest, SUPABASE_SERVICE_KEY: "c" }).SUPABASE_SECRET_KEY).toBe("c");
    expect(() => parseEnv(rest)).toThrow(/^SUPABASE_SECRET_KEY is missing/);
  });

  test("error messages never show the value of a setting", () => {
    expect(() => parseEnv({ ...whole, WEB_MULTI_ACCOUNT_SESSION_SECRET: "hunter2" })).not.toThrow(/hunter2/);
  });
});
