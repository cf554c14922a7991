import { describe, expect, test } from "vitest";
import { readEnvironment } from "./environment.ts";
import { timeLimitsOf } from "./providers/limits.ts";

const local = {
  GATEWAY_DB_URL: "postgres://gateway:secret@127.0.0.1:54322/postgres",
  SUPABASE_URL: "http://127.0.0.1:54321",
};
const hosted = { ...local, SUPABASE_URL: "https://project.supabase.co" };

describe("the gateway's environment", () => {
  test("reads the providers, the time limits and the database from the environment", () => {
    const { providers, limits } = readEnvironment({
      ...local,
      AI_PROVIDER_DEMO_BASE_URL: "http://127.0.0.1:1/v1",
    });
    expect([...providers.keys()]).toEqual(["demo"]);
    expect(limits).toEqual(timeLimitsOf({ isHosted: false }));
    expect(() => readEnvironment({ ...local, GATEWAY_DB_URL: "" })).toThrow("GATEWAY_DB_URL");
  });

  test("errors link to the origin of WEB_URL", () => {
    const originOf = (settings: Record<string, string>) => readEnvironment({ ...local, ...settings }).webOrigin;
    expect([originOf({}), originOf({ WEB_URL: "https://app.example.com/x" })]).toEqual([
      undefined,
      "https://app.example.com",
    ]);
    expect(() => originOf({ WEB_URL: "app.example.com" })).toThrow("WEB_URL");
  });

  test("the longest call is an hour, or what hosted Supabase allows, or what the setting says within that", () => {
    const totalOf = (settings: Record<string, string>) => readEnvironment({ ...local, ...settings }).limits.totalMs;
    const onHosted = { SB_REGION: "eu-central-1" };
    expect([totalOf({}), totalOf(onHosted)]).toEqual([3_600_000, 400_000]);
    const seconds = (AI_TOTAL_LIMIT_SECONDS: string) => ({ AI_TOTAL_LIMIT_SECONDS });
    expect([totalOf(seconds("1")), totalOf(seconds("14400"))]).toEqual([1_000, 14_400_000]);
    expect([totalOf({ ...onHosted, ...seconds("70") }), totalOf({ ...onHosted, ...seconds("401") })]).toEqual([
      70_000, 400_000,
    ]);
    for (const value of ["0", "14401", "soon"]) expect(() => totalOf(seconds(value))).toThrow("AI_TOTAL_LIMIT_SECONDS");
  });

  test.for([
    [undefined, 256_000_000],
    ["256", 256_000_000],
    ["65536", 65_536_000_000],
  ] as const)("AI_MEMORY_LIMIT_MB=%s gives the process %i bytes of memory", ([AI_MEMORY_LIMIT_MB, bytes]) => {
    expect(readEnvironment({ ...local, AI_MEMORY_LIMIT_MB }).memoryLimitBytes).toBe(bytes);
  });

  // https://supabase.com/docs/guides/functions/limits
  test("hosted Supabase gives 256 MB of memory even if AI_MEMORY_LIMIT_MB is higher", () => {
    const settings = { ...local, SB_REGION: "eu-central-1", AI_MEMORY_LIMIT_MB: "1024" };
    expect(readEnvironment(settings).memoryLimitBytes).toBe(256_000_000);
  });

  test.for(["255", "65537", "1.5", "much"])("refuses AI_MEMORY_LIMIT_MB=%s", (AI_MEMORY_LIMIT_MB) => {
    expect(() => readEnvironment({ ...local, AI_MEMORY_LIMIT_MB })).toThrow("AI_MEMORY_LIMIT_MB");
  });

  test("allows private provider addresses only for a local project", () => {
    const provider = { AI_PROVIDER_X_BASE_URL: "http://127.0.0.1:54328/v1" };
    expect(readEnvironment({ ...local, ...provider }).providers.size).toBe(1);
    expect(() => readEnvironment({ ...hosted, ...provider })).toThrow("AI_PROVIDER_X_ALLOW_PRIVATE");
  });
});

/**
 * The formats of the variables are documented in https://supabase.com/docs/guides/functions/secrets and in
 * docs/environment-variables.md of supabase/server.
 */
describe("the project's API keys", () => {
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

  test("reads API keys from the JSON dictionaries, `default` first, and then from the older variables", () => {
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

  test("reads API keys from a dictionary without a `default` entry", () => {
    expect(
      keysOf({
        SUPABASE_SECRET_KEYS: '{"web":"sb_secret_web"}',
        SUPABASE_PUBLISHABLE_KEYS: '{"web":"sb_publishable_web"}',
      }),
    ).toEqual({ secretKeys: ["sb_secret_web"], publishableKey: "sb_publishable_web" });
  });

  test.for(["", "{}", '{"default":""}'])(
    "falls back to the single-key variables if SUPABASE_SECRET_KEYS and SUPABASE_PUBLISHABLE_KEYS are %j",
    (dictionary) => {
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
    },
  );

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
