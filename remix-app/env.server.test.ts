import { describe, expect, test } from "vitest";
import { parseEnv } from "./env.server.ts";

const whole = {
  BASE_URL: "https://app.example.com/",
  SUPABASE_URL: "https://ref.supabase.co/",
  SUPABASE_PUBLISHABLE_KEY: "sb_publishable_x",
  SUPABASE_SECRET_KEY: "sb_secret_x",
};

describe("the environment", () => {
  test("is taken with its defaults", () => {
    expect(parseEnv(whole)).toMatchObject({
      NODE_ENV: "production",
      BASE_URL: "https://app.example.com",
      SUPABASE_URL: "https://ref.supabase.co",
      AI_URL: "https://ref.supabase.co/functions",
      PORT: 3000,
      TRUSTED_PROXY_HOPS: 0,
    });
  });

  test("is refused with one line for each variable that is missing or empty", () => {
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
    ["WEB_MULTI_ACCOUNT_SESSION_SECRET", "short"],
    ["PARENT_DOMAIN", "https://example.com"],
    ["WEB_ALLOWED_ORIGINS", "https://a.example, nonsense"],
    ["SMTP_URL", "https://mail.example.com"],
    ["MAIL_FROM", "Gatehouse"],
    ["MAIL_FROM", "a@example.com\r\nBcc: b@example.com"],
  ])("is refused with %s=%s, naming it", (name, value) => {
    expect(() => parseEnv({ ...whole, [name]: value })).toThrow(`${name} is not valid`);
  });

  test("has a sender where it has a server for mails", () => {
    const SMTP_URL = "smtps://user:password@smtp.example.com:465";
    expect(() => parseEnv({ ...whole, SMTP_URL })).toThrow(/^MAIL_FROM is missing/);
    for (const MAIL_FROM of ["a@example.com", "Gatehouse <no-reply@example.com>"])
      expect(parseEnv({ ...whole, SMTP_URL, MAIL_FROM })).toMatchObject({ SMTP_URL, MAIL_FROM });
  });

  test("is refused in production with an example's secret, and taken elsewhere", () => {
    const secret = "example-only-0123456789abcdef0123456789";
    const given = { ...whole, WEB_MULTI_ACCOUNT_SESSION_SECRET: secret };
    expect(() => parseEnv(given)).toThrow(/^WEB_MULTI_ACCOUNT_SESSION_SECRET still holds the example's value/);
    expect(parseEnv({ ...given, NODE_ENV: "development" }).WEB_MULTI_ACCOUNT_SESSION_SECRET).toBe(secret);
  });

  test("never shows a value in its message", () => {
    expect(() => parseEnv({ ...whole, WEB_MULTI_ACCOUNT_SESSION_SECRET: "hunter2" })).not.toThrow(/hunter2/);
  });
});
