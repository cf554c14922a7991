import { describe, expect, test } from "vitest";
import { parseEnv } from "../../../remix-app/config/env.server.ts";
import { checkAddresses, checkBoot, checkFeatures, checkFunctions, checkSecrets } from "./settings-checks.ts";

const secret = (letter: string) => `${letter}AbCdEfGhIjKlMnOpQrStUvWxYz0123456789`;
const complete = {
  NODE_ENV: "production",
  BASE_URL: "https://app.example.com",
  SUPABASE_URL: "https://project.supabase.co",
  SUPABASE_PUBLISHABLE_KEY: "sb_publishable_abc",
  SUPABASE_SECRET_KEY: "sb_secret_0123456789abcdef",
  WEB_MULTI_ACCOUNT_SESSION_SECRET: secret("a"),
  AUTH_RECOVERY_HASH_SECRET: secret("b"),
  APP_SESSION_SECRET: secret("c"),
  TRUSTED_PROXY_HOPS: "1",
};
const failures = (findings: { level: string; says: string }[]) =>
  findings.filter(({ level }) => level === "fail").map(({ says }) => says);

describe("the doctor's checks of secrets", () => {
  test("accepts the secrets of a complete configuration", () => {
    expect(checkSecrets(complete).map(({ level }) => level)).toEqual(["ok"]);
  });

  test.each([
    ["the example's value", { APP_SESSION_SECRET: `example-only-${"x1y2z3".repeat(6)}` }, "holds the example's value"],
    ["few different characters", { APP_SESSION_SECRET: "abcdefghi".repeat(4) }, "can be guessed"],
    [
      "the same secret for two settings",
      { APP_SESSION_SECRET: complete.AUTH_RECOVERY_HASH_SECRET },
      "are the same secret",
    ],
    ["the project's own key", { APP_SESSION_SECRET: complete.SUPABASE_SECRET_KEY }, "are the same secret"],
  ])("rejects a weak secret without showing it: %s", (_, change, says) => {
    const found = failures(checkSecrets({ ...complete, ...change }));
    expect(found).toEqual([expect.stringContaining(says)]);
    for (const value of Object.values(change)) expect(found.join()).not.toContain(value);
  });

  test.each([
    ["WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS", "example-only-not-a-secret-replace-me", "holds the example's value"],
    ["APP_SESSION_PREVIOUS_SECRETS", "abcdefghi".repeat(4), "can be guessed"],
  ])("checks each previous secret in %s", (name, value, says) => {
    const found = failures(checkSecrets({ ...complete, [name]: `${secret("d")}, ${value}` }));
    expect(found).toEqual([expect.stringMatching(`an entry of ${name} ${says}`)]);
    expect(failures(checkSecrets({ ...complete, [name]: `${secret("d")}, ${secret("e")}` }))).toEqual([]);
  });

  test("accepts the project's secret key in WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS", () => {
    const given = { ...complete, WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS: complete.SUPABASE_SECRET_KEY };
    expect(failures(checkSecrets(given))).toEqual([]);
  });

  test("accepts a secret with ten distinct characters and rejects one with nine", () => {
    expect(failures(checkSecrets({ ...complete, APP_SESSION_SECRET: "abcdefghij".repeat(4) }))).toEqual([]);
    expect(failures(checkSecrets({ ...complete, APP_SESSION_SECRET: "abcdefghi".repeat(4) }))).toHaveLength(1);
  });

  test("does not count the project's key as reused if it is also set under its older names", () => {
    expect(failures(checkSecrets({ ...complete, SUPABASE_SERVICE_KEY: complete.SUPABASE_SECRET_KEY }))).toEqual([]);
  });
});

test("reports each setting that keeps the web server from starting, one per line", () => {
  const { env, findings } = checkBoot({ ...complete, BASE_URL: "", OAUTH_PROVIDERS: "azure" });
  expect(env).toBeUndefined();
  expect(failures(findings)).toEqual([expect.stringContaining("BASE_URL is missing")]);
  const untenanted = checkBoot({ ...complete, OAUTH_PROVIDERS: "azure" });
  expect(failures(untenanted.findings)).toEqual([expect.stringContaining("MICROSOFT_TENANT")]);
});

test("the doctor warns of a public server in development mode", () => {
  const found = checkAddresses(parseEnv({ ...complete, NODE_ENV: "development" }));
  expect(found.map(({ level }) => level)).toEqual(["ok", "warn", "ok"]);
});

describe("the doctor's checks of configured addresses", () => {
  test.each([
    ["https", {}, []],
    ["BASE_URL without https", { BASE_URL: "http://app.example.com" }, ["without https"]],
    ["a project over http", { SUPABASE_URL: "http://project.example.com" }, ["in the clear"]],
    ["a rehearsal", { BASE_URL: "http://localhost:4100", SUPABASE_URL: "http://127.0.0.1:54321" }, []],
    ["a project whose host name only looks local", { SUPABASE_URL: "http://localhost.example.com" }, ["in the clear"]],
    ["a gateway over http", { AI_URL: "http://gateway.example.com" }, ["AI_URL is not https"]],
    ["a gateway on this machine", { AI_URL: "http://127.0.0.1:54321/functions" }, []],
    [
      "another origin over http",
      { WEB_ALLOWED_ORIGINS: "https://b.example.com,http://c.example.com" },
      ["http://c.example.com would get sessions in the clear"],
    ],
    ["another origin on this machine", { WEB_ALLOWED_ORIGINS: "http://localhost:3000" }, []],
    ["a widget over http", { TURNSTILE_ORIGIN: "http://challenges.example.com" }, ["TURNSTILE_ORIGIN is not https"]],
    ["a widget on this machine", { TURNSTILE_ORIGIN: "http://127.0.0.1:8787" }, []],
    ["a parent domain", { PARENT_DOMAIN: "example.com" }, []],
    ["somebody else's domain", { PARENT_DOMAIN: "example.org" }, ["app.example.com is not under it"]],
    ["a domain with a similar ending", { PARENT_DOMAIN: "ample.com" }, ["app.example.com is not under it"]],
    [
      "a parent domain of one of two origins",
      { PARENT_DOMAIN: "example.com", WEB_ALLOWED_ORIGINS: "https://app.example.org" },
      [],
    ],
    ["a public suffix", { BASE_URL: "https://a.co.uk", PARENT_DOMAIN: "co.uk" }, ["strangers register"]],
    [
      "a hosting provider's suffix",
      { BASE_URL: "https://a.vercel.app", PARENT_DOMAIN: "vercel.app" },
      ["strangers register"],
    ],
  ])("checks the addresses in the settings: %s", (_, change, expected) => {
    const found = failures(checkAddresses(parseEnv({ ...complete, ...change })));
    expect(found).toEqual(expected.map((says) => expect.stringContaining(says)));
  });
});

test.each([
  ["production", "http://127.0.0.1:54321", "fail"],
  ["production", "https://project.supabase.co", "warn"],
  ["test", "http://127.0.0.1:54321", "warn"],
])(
  "in %s, with the backend at %s, the doctor reports a bot challenge bypass with level %s",
  (NODE_ENV, SUPABASE_URL, level) => {
    const found = checkFeatures(parseEnv({ ...complete, NODE_ENV, SUPABASE_URL, E2E_BOT_CHALLENGE_BYPASS: "on" }));
    expect(found.filter(({ about }) => about === "bot challenge").map((finding) => finding.level)).toEqual([level]);
    const without = checkFeatures(parseEnv({ ...complete, NODE_ENV, SUPABASE_URL }));
    expect(without.filter(({ about }) => about === "bot challenge")).toEqual([]);
  },
);

describe("the doctor's checks of the functions' settings", () => {
  const functions = {
    ...complete,
    GATEWAY_DB_URL: "postgres://gateway:p@db.project.supabase.co:5432/postgres",
    AI_PROVIDER_OPENAI_KIND: "openai",
    AI_PROVIDER_OPENAI_API_KEY: "key",
  };

  test.each([
    ["complete", {}, "ok", "providers openai"],
    [
      "with a session-mode pooler",
      { GATEWAY_DB_URL: "postgres://gateway.ref:p@pooler.example.com:5432/postgres" },
      "ok",
      "role gateway",
    ],
    [
      "with a transaction-mode pooler",
      { GATEWAY_DB_URL: "postgres://gateway.ref:p@pooler.example.com:6543/postgres" },
      "ok",
      "role gateway",
    ],
    [
      "connected as the owner",
      { GATEWAY_DB_URL: "postgres://postgres:p@db.project.supabase.co:5432/postgres" },
      "fail",
      "logs in as postgres",
    ],
    [
      "without a provider",
      { AI_PROVIDER_OPENAI_KIND: "", AI_PROVIDER_OPENAI_API_KEY: "" },
      "warn",
      "every model is refused",
    ],
    ["with a provider's key but no kind", { AI_PROVIDER_OPENAI_KIND: "" }, "fail", "AI_PROVIDER_OPENAI_KIND"],
    ["with a misspelt setting", { AI_PROVIDER_OPENAI_BASEURL: "x" }, "fail", "AI_PROVIDER_OPENAI_BASEURL"],
    ["without the provider's key", { AI_PROVIDER_OPENAI_API_KEY: "" }, "fail", "AI_PROVIDER_OPENAI_API_KEY"],
  ])("judges the functions' settings: %s", (_, change, level, says) => {
    expect(checkFunctions({ ...functions, ...change })).toEqual([
      expect.objectContaining({ level, says: expect.stringContaining(says) }),
    ]);
  });

  test("warns if the functions reach a provider on their own network without TLS", () => {
    const own = { AI_PROVIDER_OWN_BASE_URL: "http://10.0.0.7:8000/v1", AI_PROVIDER_OWN_ALLOW_PRIVATE: "on" };
    expect(checkFunctions({ ...functions, ...own })).toEqual([
      expect.objectContaining({ level: "ok", says: "role gateway; providers openai, own (openai-compatible)" }),
      expect.objectContaining({ level: "warn", says: expect.stringContaining("provider own") }),
    ]);
  });

  test("does not check the functions' settings if GATEWAY_DB_URL is not set", () => {
    expect(checkFunctions(complete)).toEqual([]);
  });
});
