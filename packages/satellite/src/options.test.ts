import { describe, expect, test } from "vitest";
import type { SatelliteConfigError } from "./errors.ts";
import { readSettings, type SatelliteOptions } from "./options.ts";

const env = {
  APP_NAME: "notes",
  APP_SECRET: "x".repeat(32),
  BASE_URL: "https://notes.example.com/",
  CENTRAL_URL: "https://app.example.com",
};
const faultsOf = (options: SatelliteOptions): readonly string[] => {
  try {
    readSettings(options);
    return [];
  } catch (error) {
    return (error as SatelliteConfigError).faults;
  }
};

describe("the settings of a satellite", () => {
  test("settings come from the environment, with defaults", () => {
    expect(readSettings({ env })).toMatchObject({
      appName: "notes",
      appSecret: env.APP_SECRET,
      origin: "https://notes.example.com",
      platformUrl: "https://app.example.com",
      platformApiUrl: "https://app.example.com",
      introspectionCacheSeconds: 60,
    });
  });

  test("settings are taken from options first, then from the environment", () => {
    const options = { origin: "http://localhost:4000", platformApiUrl: "http://10.0.0.5:3000" };
    expect(readSettings({ env, ...options })).toMatchObject(options);
  });

  test("reports each missing setting on a line of its own", () => {
    const faults = faultsOf({ env: {} });
    expect(faults.map((line) => line.split(":")[0])).toEqual([
      "APP_NAME is missing",
      "APP_SECRET is missing",
      "BASE_URL is missing",
      "CENTRAL_URL is missing",
    ]);
    expect(() => readSettings({ env: {} })).toThrow(faults.join("\n"));
  });

  test.each([
    ["APP_NAME", "Notes"],
    ["APP_NAME", "n"],
    ["APP_NAME", `n${"o".repeat(40)}`],
    ["APP_SECRET", "x".repeat(31)],
    ["BASE_URL", "notes.example.com"],
    ["BASE_URL", "https://notes.example.com/app"],
    ["BASE_URL", "http://notes.example.com"],
    ["BASE_URL", "https://user:password@notes.example.com"],
    ["CENTRAL_URL", "ftp://app.example.com"],
    ["CENTRAL_URL", "https://app.example.com/?x=1"],
    ["CENTRAL_URL", "https://notes.example.com"],
    ["CENTRAL_API_URL", "10.0.0.5"],
  ])("refuses %s=%s and names the setting", (name, value) => {
    expect(faultsOf({ env: { ...env, [name]: value } })).toEqual([expect.stringMatching(`^${name} is not valid: `)]);
  });

  test.each([
    "http://localhost:3001",
    "http://127.0.0.1:3001",
    "http://memo.gatehouse.localhost:3001",
    "http://[::1]:80",
  ])("allows a base URL with http on loopback: %s", (BASE_URL) => {
    expect(faultsOf({ env: { ...env, BASE_URL } })).toEqual([]);
  });

  test("accepts an app name of 40 characters and a cache time of 0 to 60 seconds", () => {
    expect(faultsOf({ env: { ...env, APP_NAME: `n${"o".repeat(39)}` } })).toEqual([]);
    for (const introspectionCacheSeconds of [0, 60]) expect(faultsOf({ env, introspectionCacheSeconds })).toEqual([]);
    for (const introspectionCacheSeconds of [-1, 61, Number.NaN])
      expect(faultsOf({ env, introspectionCacheSeconds })).toEqual([
        "introspectionCacheSeconds is not valid: use 0 to 60.",
      ]);
  });

  test.each([
    "SUPABASE_URL",
    "SUPABASE_SECRET_KEY",
    "GOTRUE_JWT_SECRET",
    "GATEWAY_DB_URL",
    "APP_SESSION_SECRET",
    "WEB_MULTI_ACCOUNT_SESSION_SECRET",
  ])("refuses an environment that contains the platform's %s", (name) => {
    expect(faultsOf({ env: { ...env, [name]: "set" } })).toEqual([expect.stringMatching(`^${name} must not be set`)]);
    expect(faultsOf({ env: { ...env, [name]: "" } })).toEqual([]);
  });

  test("error messages never contain secret settings", () => {
    expect(faultsOf({ env: { ...env, APP_SECRET: "hunter2" } }).join()).not.toContain("hunter2");
  });
});
