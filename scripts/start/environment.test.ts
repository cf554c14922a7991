import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseEnv } from "node:util";
import { afterEach, expect, test, vi } from "vitest";
import { examplePrefix, parseEnvironment, readEnvironment } from "./environment.ts";

afterEach(() => vi.unstubAllEnvs());

const project = {
  SUPABASE_URL: "https://abc.supabase.co/",
  SUPABASE_PUBLISHABLE_KEY: "sb_publishable_a",
  SUPABASE_SECRET_KEY: "sb_secret_a",
};

test("parseEnvironment accepts an empty environment and counts an empty value as unset", () => {
  expect(parseEnvironment({}).settings).toEqual({});
  expect(parseEnvironment({ SUPABASE_URL: "", IDENTITY_BIN: "", PORT: "" }).settings).toEqual({});
});

test("accepts the settings of a complete project and removes the URL's trailing slash", () => {
  expect(parseEnvironment(project).settings.SUPABASE_URL).toBe("https://abc.supabase.co");
});

test.each(["SUPABASE_PUBLISHABLE_KEY", "SUPABASE_SECRET_KEY"])(
  "reports exactly one problem if a Supabase project's %s is missing",
  (name) => {
    expect(() => parseEnvironment({ ...project, [name]: "" }, ".env")).toThrow(
      new RegExp(`^The settings in \\.env do not work:\n {2}${name} is not set, but SUPABASE_URL is: add .*[^\n]$`),
    );
  },
);

test("asks for the project's URL if only its keys are set", () => {
  expect(() => parseEnvironment({ SUPABASE_SECRET_KEY: "sb_secret_a" })).toThrow(
    /SUPABASE_URL is not set, but SUPABASE_SECRET_KEY is/,
  );
});

test.each([
  ["SUPABASE_URL", "abc.supabase.co"],
  ["SUPABASE_DB_URL", "https://abc.supabase.co"],
  ["PORT", "70000"],
  ["PORT", "http"],
  ["NODE_ENV", "prod"],
  ["LOCAL_BOT_CHALLENGE", "yes"],
  ["IDENTITY_BIN", "/nowhere/auth"],
  ["POSTGRES_BIN", "/nowhere/bin"],
  ["WEB_MULTI_ACCOUNT_SESSION_SECRET", "x".repeat(31)],
])("reports that %s cannot be %s, and explains why", (name, value) => {
  const words = new RegExp(`\n {2}${name} (must be|needs|names) `);
  expect(() => parseEnvironment({ ...project, [name]: value })).toThrow(words);
});

test.each([
  [{ AI_PROVIDER_OPENAI_KIND: "openai" }, "AI_PROVIDER_OPENAI_API_KEY is missing"],
  [{ AI_PROVIDER_OPENAI_BASEURL: "https://api.example.com/v1" }, "AI_PROVIDER_OPENAI_BASEURL is not a setting"],
  [{ AI_PROVIDER_X_BASE_URL: "api.example.com", AI_PROVIDER_X_API_KEY: "k" }, "AI_PROVIDER_X_BASE_URL is not a URL"],
  [{ ...project, AI_PROVIDER_X_BASE_URL: "http://127.0.0.1:1", AI_PROVIDER_X_API_KEY: "k" }, "must begin with https"],
])("reports a model provider that the functions would refuse: %j", (settings, message) => {
  expect(() => parseEnvironment(settings)).toThrow(message);
});

test("accepts a local model provider for the embedded stack, and a remote model provider for a hosted project", () => {
  const local = { AI_PROVIDER_X_BASE_URL: "http://127.0.0.1:1", AI_PROVIDER_X_API_KEY: "k" };
  expect(() => parseEnvironment(local)).not.toThrow();
  expect(() => parseEnvironment({ ...project, ...local, AI_PROVIDER_X_BASE_URL: "https://a.example" })).not.toThrow();
});

test("accepts a region of the demo provider, which only the embedded stack has", () => {
  expect(() => parseEnvironment({ AI_PROVIDER_DEMO_REGION: "eu" })).not.toThrow();
  expect(() => parseEnvironment({ ...project, AI_PROVIDER_DEMO_REGION: "eu" })).toThrow("AI_PROVIDER_DEMO_KIND");
});

test("accepts a WEB_MULTI_ACCOUNT_SESSION_SECRET of 32 characters", () => {
  expect(() => parseEnvironment({ WEB_MULTI_ACCOUNT_SESSION_SECRET: "x".repeat(32) })).not.toThrow();
});

test("accepts .env.example unchanged, and refuses its secrets in production", () => {
  const example = parseEnv(readFileSync(".env.example", "utf8"));
  expect(() => parseEnvironment(example)).not.toThrow();
  const secrets = Object.keys(example).filter((name) => /SECRET|_KEY$/.test(name));
  expect(secrets).toContain("WEB_MULTI_ACCOUNT_SESSION_SECRET");
  for (const name of secrets) {
    expect(example[name]).toMatch(new RegExp(`^${examplePrefix}`));
    expect(() => parseEnvironment({ ...example, NODE_ENV: "production" })).toThrow(
      `${name} still has the example's value`,
    );
  }
});

test("environment variables override .env, and --embedded ignores project settings from either source", () => {
  const directory = mkdtempSync(path.join(tmpdir(), "gatehouse-env-"));
  const lines = Object.entries(project).map(([name, value]) => `${name}=${value}`);
  writeFileSync(
    path.join(directory, ".env"),
    `# a comment\n${lines.join("\n")}\nAI_PROVIDER_X_BASE_URL="https://a.example"\n`,
  );
  vi.stubEnv("BASE_URL", "");
  vi.stubEnv("SUPABASE_SECRET_KEY", "sb_secret_b");
  vi.stubEnv("GOTRUE_SMTP_MAX_FREQUENCY", "5s");

  const read = readEnvironment(directory, { embedded: false });
  expect(read.settings).toMatchObject({ SUPABASE_URL: "https://abc.supabase.co", SUPABASE_SECRET_KEY: "sb_secret_b" });
  expect(read.all.AI_PROVIDER_X_BASE_URL).toBe("https://a.example");
  const alone = readEnvironment(directory, { embedded: true });
  expect(alone.settings).toEqual({});
  expect(alone.all.GOTRUE_SMTP_MAX_FREQUENCY).toBe("5s");
  rmSync(directory, { recursive: true });
});
