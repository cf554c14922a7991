import { describe, expect, test } from "vitest";
import { parseSatelliteEnv } from "./satellite-env.server.ts";

const whole = {
  BASE_URL: "https://notes.example.com/",
  APP_NAME: "notes",
  APP_SECRET: "x".repeat(32),
  CENTRAL_URL: "https://app.example.com",
};

describe("a satellite's environment", () => {
  test("is taken with its defaults", () => {
    expect(parseSatelliteEnv(whole)).toEqual({
      NODE_ENV: "production",
      BASE_URL: "https://notes.example.com",
      HOST: "127.0.0.1",
      PORT: 3000,
      APP_NAME: "notes",
      BRAND_NAME: "Gatehouse",
      APP_SECRET: whole.APP_SECRET,
      CENTRAL_URL: "https://app.example.com",
      CENTRAL_API_URL: "https://app.example.com",
      TRUSTED_PROXY_HOPS: 0,
    });
  });

  test("may name another way for its server to reach the platform", () => {
    const env = parseSatelliteEnv({ ...whole, CENTRAL_API_URL: "http://10.0.0.5:3000" });
    expect([env.CENTRAL_URL, env.CENTRAL_API_URL]).toEqual(["https://app.example.com", "http://10.0.0.5:3000"]);
  });

  test("is refused with one line for each variable that is missing", () => {
    expect(() => parseSatelliteEnv({ APP_NAME: "notes", CENTRAL_URL: "" })).toThrow(
      /^BASE_URL is missing: [^\n]+\nAPP_SECRET is missing: [^\n]+\nCENTRAL_URL is missing: [^\n]+$/,
    );
  });

  test.each([
    ["APP_SECRET", "x".repeat(31)],
    ["APP_NAME", "Notes"],
    ["APP_NAME", "n"],
    ["APP_NAME", `n${"o".repeat(40)}`],
    ["BASE_URL", "notes.example.com"],
    ["CENTRAL_URL", "app.example.com"],
    ["CENTRAL_URL", "ftp://app.example.com"],
    ["CENTRAL_API_URL", "10.0.0.5"],
    ["PORT", "65536"],
    ["TRUSTED_PROXY_HOPS", "-1"],
    ["WEB_ALLOWED_ORIGINS", "https://a.example, nonsense"],
  ])("%s=%s is refused by name", (name, value) => {
    expect(() => parseSatelliteEnv({ ...whole, [name]: value })).toThrow(new RegExp(`^${name} `));
  });

  test.each([
    "SUPABASE_URL",
    "SUPABASE_PUBLISHABLE_KEY",
    "SUPABASE_SECRET_KEY",
    "SUPABASE_DB_URL",
    "GOTRUE_JWT_SECRET",
    "GATEWAY_DB_URL",
    "APP_SESSION_SECRET",
    "WEB_MULTI_ACCOUNT_SESSION_SECRET",
  ])("holds nothing that opens the platform's data: %s", (name) => {
    expect(() => parseSatelliteEnv({ ...whole, [name]: "set" })).toThrow(`${name} must not be set`);
    expect(parseSatelliteEnv({ ...whole, [name]: "" })).not.toHaveProperty(name);
  });

  test("says of a secret that it is wrong, and not what it is", () => {
    expect(() => parseSatelliteEnv({ ...whole, APP_SECRET: "hunter2" })).toThrow(/^(?!.*hunter2)/s);
  });
});
