import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { demoTenant } from "@gatehousehq/local-stack/services/oidc/simulated-providers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readCheckout } from "../../database/contents/checkout.ts";
import { readStack } from "../../test/stack.ts";

const { supabase, oidc, provider, providerKey } = readStack();
const microsoft = { OAUTH_PROVIDERS: "azure", MICROSOFT_LOGIN_URL: `${oidc}/azure` };
const directory = mkdtempSync(path.join(tmpdir(), "doctor-"));
// Between releases, the first comparison of a database takes many seconds.
beforeAll(() => readCheckout(process.cwd(), { objects: {} }), 120_000);
afterAll(() => rmSync(directory, { recursive: true }));

async function doctor(args: string[]) {
  const { PATH = "", GATEHOUSE_STACK = "", NODE_ENV, NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, ["scripts/operator/doctor.ts", ...args], {
    env: { PATH, GATEHOUSE_STACK, NODE_ENV, NODE_COMPILE_CACHE },
  });
  const exit = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [said, complained, code] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  return { said, complained, code };
}

function configure(settings: Record<string, string>): string {
  const file = path.join(directory, `${crypto.randomUUID()}.env`);
  const lines = Object.entries({
    NODE_ENV: "development",
    BASE_URL: "http://localhost:3000",
    SUPABASE_URL: supabase.url,
    SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
    SUPABASE_SECRET_KEY: supabase.secretKey,
    SUPABASE_DB_URL: supabase.dbUrl,
    // Other tests register OpenID clients, which require this secret.
    APP_SESSION_SECRET: `${crypto.randomUUID()}${crypto.randomUUID()}`,
    ...settings,
  });
  writeFileSync(file, lines.map(([name, value]) => `${name}=${value}`).join("\n"));
  return file;
}

type Finding = { level: string; about: string; says: string };
const findingsOf = (said: string) => (JSON.parse(said) as { findings: Finding[] }).findings;
/** Ignores failures about models, because concurrent tests add models that have no price or that no provider offers. */
const failuresOf = (findings: Finding[]) =>
  findings.filter(({ level, about }) => level === "fail" && about !== "models");

test("the doctor reports a running local stack and its model providers as healthy", async () => {
  const { said, complained } = await doctor(["--json"]);
  expect(complained).toBe("");
  const findings = findingsOf(said);
  expect(failuresOf(findings)).toEqual([]);
  expect(findings).toContainEqual(expect.objectContaining({ level: "ok", about: "provider demo" }));
  expect(findings).toContainEqual(expect.objectContaining({ level: "ok", about: "provider demo_speech" }));
  expect(findings).toContainEqual(expect.objectContaining({ level: "ok", about: "notifications" }));
  expect(findings).toContainEqual({
    level: "ok",
    about: "auth triggers",
    says: expect.stringMatching(/^auth\.users: .*\brecord_account_change\b/),
  });
  const faults = findings.filter(({ about, level }) => about === "models" && level === "fail");
  expect(faults.filter(({ says }) => / of demo-/.test(says))).toEqual([]);
});

describe("model providers in a settings file", () => {
  const demo = {
    AI_PROVIDER_DEMO_KIND: "openai",
    AI_PROVIDER_DEMO_BASE_URL: `${provider}/v1`,
    AI_PROVIDER_DEMO_API_KEY: providerKey,
  };
  const examine = async (settings: Record<string, string>) => {
    const { said, complained, code } = await doctor(["--env", configure(settings), "--json"]);
    expect(`${said}${complained}`).not.toContain(providerKey);
    return { findings: findingsOf(said), code };
  };

  test("queries the model providers in a settings file, and checks the project's routes to them", async () => {
    const { findings } = await examine(demo);
    expect(findings.filter(({ about }) => about === "provider demo").map(({ level }) => level)).toEqual(["ok"]);
    const speech = "route 1 of demo-speech leads to demo_speech, which has no settings, so callers get 404";
    expect(findings).toContainEqual(expect.objectContaining({ level: "fail", says: expect.stringContaining(speech) }));
  });

  test("reports a model provider whose key is revoked, without showing the key", async () => {
    const revoked = "sk-revoked-0123456789";
    const { said, code } = await doctor(["--env", configure({ ...demo, AI_PROVIDER_DEMO_API_KEY: revoked })]);
    expect(said).toMatch(/FAIL +provider demo +key: it refuses AI_PROVIDER_DEMO_API_KEY \(401\)/);
    expect(said).not.toContain(revoked);
    expect(code).toBe(1);
  });

  test("reports model providers that the functions would refuse, and does not query them", async () => {
    const { findings, code } = await examine({ ...demo, AI_PROVIDER_DEMO_API_KEY: "" });
    expect(findings).toContainEqual(
      expect.objectContaining({ level: "fail", says: expect.stringContaining("AI_PROVIDER_DEMO_API_KEY is missing") }),
    );
    expect(findings.filter(({ about }) => about === "AI providers").map(({ level }) => level)).toEqual(["unseen"]);
    expect(code).toBe(1);
  });

  test("without AI_PROVIDER_ settings, the doctor queries no model provider and advises adding supabase/functions/.env", async () => {
    const { findings } = await examine({});
    expect(findings).toContainEqual({
      level: "unseen",
      about: "AI providers",
      says: expect.stringContaining("--env supabase/functions/.env"),
    });
    expect(findings.filter(({ about }) => about.startsWith("provider "))).toEqual([]);
  });

  test("queries model providers even if the web server could not start with its settings", async () => {
    const { findings } = await examine({ ...demo, BASE_URL: "" });
    expect(findings.filter(({ about }) => about === "provider demo").map(({ level }) => level)).toEqual(["ok"]);
  });
});

test("warns about a database without pg_cron, and lists the checks that need an access token", async () => {
  const { said } = await doctor(["--env", configure({}), "--json"]);
  const findings = findingsOf(said);
  expect(findings).toContainEqual({
    level: "warn",
    about: "pg_cron",
    says: expect.stringMatching(/^pg_cron is not enabled: .*Dashboard, Integrations, Cron/),
  });
  expect(
    findings.filter(({ about }) => about === "hooks" || about === "mail interval").map(({ level }) => level),
  ).toEqual(["unseen", "unseen"]);
});

test("the doctor detects swapped project keys without showing them", async () => {
  const swapped = { SUPABASE_PUBLISHABLE_KEY: supabase.secretKey, SUPABASE_SECRET_KEY: supabase.publishableKey };
  const { said, code } = await doctor(["--env", configure(swapped)]);
  expect(code).toBe(1);
  expect(said).toContain("which phones must never hold");
  expect(said).not.toContain(supabase.secretKey);
});

test("reports an OAuth provider that is disabled at the backend, and a bot challenge that the backend does not check", async () => {
  const { said, code } = await doctor([
    "--env",
    configure({ OAUTH_PROVIDERS: "github,azure", MICROSOFT_TENANT: crypto.randomUUID(), TURNSTILE_SITE_KEY: "1x00" }),
    "--json",
  ]);
  expect(code).toBe(1);
  expect(failuresOf(findingsOf(said)).map(({ about }) => about)).toEqual(["Microsoft", "bot challenge"]);
});

test.each([
  ["the backend's tenant", demoTenant, [], `accounts of tenant ${demoTenant} alone`],
  ["another tenant", crypto.randomUUID(), ["Microsoft"], `the backend sends people to ${new URL(oidc).origin}/azure`],
])("the doctor compares MICROSOFT_TENANT with the backend's tenant: %s", async (_, tenant, failures, says) => {
  const { said } = await doctor(["--env", configure({ ...microsoft, MICROSOFT_TENANT: tenant }), "--json"]);
  expect(said).toContain(says);
  expect(failuresOf(findingsOf(said)).map(({ about }) => about)).toEqual(failures);
});

test("merges several settings files into one configuration in which later files take precedence", async () => {
  const web = configure({ SUPABASE_URL: "http://127.0.0.1:9", SUPABASE_DB_URL: "" });
  const functions = path.join(directory, "functions.env");
  writeFileSync(functions, `SUPABASE_URL=${supabase.url}\nGATEWAY_DB_URL=${supabase.dbUrl}\n`);
  const { said, code } = await doctor(["--env", web, "--env", functions]);
  expect(said).toContain("answers and takes both keys");
  expect(said).toContain("GATEWAY_DB_URL logs in as postgres");
  expect(said).toContain("it holds what this checkout's migrations make");
  expect(code).toBe(1);
});

/** Serves the response that Supabase's platform gives if the functions are not deployed, or if verify_jwt is on. */
async function inPlaceOfFunctions(status: number, body: object) {
  const server = createServer((_, response) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body)),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() };
}

test.each([
  ["behind the platform's own token check", 401, { code: 401, message: "Invalid JWT" }, "with verify_jwt off"],
  ["not deployed", 404, { code: "NOT_FOUND" }, "deploy the functions"],
])("reports functions that are %s", async (_, status, body, says) => {
  const functions = await inPlaceOfFunctions(status, body);
  const { said, code } = await doctor(["--env", configure({ AI_URL: functions.url })]);
  functions.close();
  expect(said).toContain(says);
  expect(code).toBe(1);
});

test("reports a project that does not respond, or a missing settings file, in one line", async () => {
  const away = await doctor(["--env", configure({ SUPABASE_URL: "http://127.0.0.1:9" })]);
  expect(away).toMatchObject({ code: 1, said: expect.stringContaining("does not answer") });
  const none = await doctor(["--env", path.join(directory, "none.env")]);
  expect(none).toMatchObject({ code: 1, complained: expect.stringContaining("There is no file") });
});
