import { describe, expect, test } from "vitest";
import { readEnvironment } from "./environment.ts";

const local = {
  GATEWAY_DB_URL: "postgres://gateway:secret@127.0.0.1:54322/postgres",
  SUPABASE_URL: "http://127.0.0.1:54321",
};
const hosted = { ...local, SUPABASE_URL: "https://project.supabase.co" };

describe("the environment", () => {
  test("names providers by their id", () => {
    const { providers, totalLimitMs } = readEnvironment({
      ...local,
      AI_PROVIDER_DEMO_BASE_URL: "http://127.0.0.1:54328/v1/",
      AI_PROVIDER_DEMO_API_KEY: "k",
      AI_PROVIDER_OPEN_AI_BASE_URL: "https://api.openai.com/v1",
      AI_PROVIDER_OPEN_AI_API_KEY: "k2",
      AI_PROVIDER_OPEN_AI_KIND: "gemini",
      AI_PROVIDER_OPEN_AI_ON_LEAVE: "drain",
    });
    expect([...providers]).toEqual([
      ["demo", { baseUrl: "http://127.0.0.1:54328/v1", apiKey: "k", kind: "openai", drains: false }],
      ["open_ai", { baseUrl: "https://api.openai.com/v1", apiKey: "k2", kind: "gemini", drains: true }],
    ]);
    expect(totalLimitMs).toBe(180_000);
  });

  test("an address without a key is an error, and so is no database", () => {
    expect(() => readEnvironment({ ...local, AI_PROVIDER_X_BASE_URL: "https://x.test" })).toThrow(
      "AI_PROVIDER_X_API_KEY",
    );
    expect(() => readEnvironment({ ...local, GATEWAY_DB_URL: "" })).toThrow("GATEWAY_DB_URL");
  });

  test.for(["KIND", "ON_LEAVE"])("a %s that there is not is an error", (name) => {
    const env = { ...local, AI_PROVIDER_X_BASE_URL: "https://x.test", AI_PROVIDER_X_API_KEY: "k" };
    expect(() => readEnvironment({ ...env, [`AI_PROVIDER_X_${name}`]: "other" })).toThrow(`AI_PROVIDER_X_${name}`);
  });

  test.for([
    "http://api.example.com/v1",
    "http://127.0.0.1:54328/v1",
    "https://127.0.0.1/v1",
    "https://localhost/v1",
    "https://10.0.0.1/v1",
    "https://169.254.169.254/",
    "https://2130706433/",
    "https://[::1]/",
    "https://[fd00::1]/",
    "not a url",
  ])("%s is no provider of a hosted project", (baseUrl) => {
    const env = { ...hosted, AI_PROVIDER_X_BASE_URL: baseUrl, AI_PROVIDER_X_API_KEY: "k" };
    expect(() => readEnvironment(env)).toThrow("AI_PROVIDER_X_BASE_URL");
  });
});

/** Forms: https://supabase.com/docs/guides/functions/secrets and supabase/server, docs/environment-variables.md. */
describe("the project's keys", () => {
  const older = {
    SUPABASE_SECRET_KEY: "sb_secret_single",
    SUPABASE_SERVICE_ROLE_KEY: "service_role",
    SUPABASE_PUBLISHABLE_KEY: "sb_publishable_single",
    SUPABASE_ANON_KEY: "anon",
  };
  const keysOf = (settings: Record<string, string>) => {
    const { secretKeys, publishableKey } = readEnvironment({ ...hosted, ...settings });
    return { secretKeys, publishableKey };
  };

  test("come from the dictionaries, the entry `default` first, then from the older names", () => {
    expect(
      keysOf({
        ...older,
        SUPABASE_SECRET_KEYS: '{"ci":"sb_secret_ci","default":"sb_secret_default","web":"sb_secret_web"}',
        SUPABASE_PUBLISHABLE_KEYS: '{"mobile":"sb_publishable_mobile","default":"sb_publishable_default"}',
      }),
    ).toEqual({
      secretKeys: ["sb_secret_default", "sb_secret_ci", "sb_secret_web", "sb_secret_single", "service_role"],
      publishableKey: "sb_publishable_default",
    });
  });

  test("need no entry `default`", () => {
    expect(
      keysOf({
        SUPABASE_SECRET_KEYS: '{"web":"sb_secret_web"}',
        SUPABASE_PUBLISHABLE_KEYS: '{"web":"sb_publishable_web"}',
      }),
    ).toEqual({ secretKeys: ["sb_secret_web"], publishableKey: "sb_publishable_web" });
  });

  test.for(["", "{}", '{"default":""}'])("come from the older names where the dictionary is %j", (dictionary) => {
    const keys = { SUPABASE_SECRET_KEYS: dictionary, SUPABASE_PUBLISHABLE_KEYS: dictionary };
    expect(keysOf({ ...keys, ...older })).toEqual({
      secretKeys: ["sb_secret_single", "service_role"],
      publishableKey: "sb_publishable_single",
    });
    expect(keysOf({ ...keys, SUPABASE_SERVICE_ROLE_KEY: "service_role", SUPABASE_ANON_KEY: "anon" })).toEqual({
      secretKeys: ["service_role"],
      publishableKey: "anon",
    });
    expect(keysOf(keys)).toEqual({ secretKeys: [], publishableKey: undefined });
  });

  test.for(
    ["SUPABASE_SECRET_KEYS", "SUPABASE_PUBLISHABLE_KEYS"].flatMap((name) =>
      [
        "sb_key_x",
        '{"default":"sb_key_x"',
        '["sb_key_x"]',
        '"sb_key_x"',
        "null",
        "7",
        '{"default":7,"x":"sb_key_x"}',
      ].map((text) => [name, text] as const),
    ),
  )("%s=%s is an error that names the setting and shows no key", ([name, text]) => {
    const read = () => readEnvironment({ ...hosted, ...older, [name]: text });
    expect(read).toThrow(name);
    expect(read).not.toThrow("sb_key");
  });
});
