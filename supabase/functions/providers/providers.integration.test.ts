import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";
import { type InProcessGateway, openGateway } from "../../tests/gateway/in-process.ts";
import {
  answerError,
  answerWell,
  hang,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
} from "../../tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";
import { providerListing, routeTestAnswer } from "../_shared/provider-setup.ts";

const { ai, supabase, provider: demo, providerKey } = readStack();
const secretKey = "sb_secret_of_this_test";
const id = `tested_${randomUUID().slice(0, 8)}`;
const name = `AI_PROVIDER_${id.toUpperCase()}`;
/** The request id of all calls of this file. */
const requestId = `it-${id}`;
const leak = "sk-leaked by the provider";

let tenant: GatewayTenant;
let upstream: ScriptedProvider;
let gateway: InProcessGateway;

beforeAll(async () => {
  [tenant, upstream] = await Promise.all([createGatewayTenant(), startScriptedProvider()]);
  gateway = await openGateway({
    SUPABASE_SECRET_KEY: secretKey,
    AI_TOTAL_LIMIT_SECONDS: "1",
    [`${name}_BASE_URL`]: upstream.url,
    [`${name}_API_KEY`]: "sk-secret",
    AI_PROVIDER_NOWHERE_BASE_URL: "http://127.0.0.1:9/v1",
  });
});
beforeEach(() => {
  Object.assign(upstream, { script: answerWell, calls: 0, bodies: [] });
});
afterAll(async () => {
  await tenant.db.query("delete from ai.provider_limits where provider_id = $1", [id]);
  await gateway.close();
  upstream.close();
  await tenant.close();
});

/** Calls the gateway of this file as our web server does. */
async function call(path: string, { key = secretKey, body }: { key?: string | null; body?: unknown } = {}) {
  const response = await gateway.fetch(`http://gateway.test/v1${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      "content-type": "application/json",
      "x-request-id": requestId,
      ...(key === null ? {} : { apikey: key }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, text, body: JSON.parse(text) };
}

const chat = { provider: id, model: "m", endpoint: "chat" };

async function testRoute(script: Script, test: object = chat) {
  upstream.script = script;
  const { status, text, body } = await call("/providers/test", { body: test });
  expect(status).toBe(200);
  expect(text).not.toContain("sk-");
  return routeTestAnswer.parse(body);
}

describe("who may read and test providers", () => {
  test.for([
    ["GET", "/providers"],
    ["POST", "/providers/test"],
  ])("the gateway refuses %s %s without a secret key", async ([method, path = ""]) => {
    const wrong = [null, "", "sb_secret_other", supabase.publishableKey, `${secretKey}x`, tenant.key];
    for (const key of wrong) {
      const { status, body } = await call(path, { key, ...(method === "POST" ? { body: { nonsense: true } } : {}) });
      expect([status, body.error.code], String(key)).toEqual([401, "invalid_api_key"]);
    }
    const response = await fetch(`${ai}/v1${path}`, {
      method: method ?? "GET",
      headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json" },
      ...(method === "POST" ? { body: JSON.stringify(chat) } : {}),
    });
    expect(response.status).toBe(401);
    expect(upstream.calls).toBe(0);
  });

  test("the served gateway accepts the project's secret key", async () => {
    const response = await fetch(`${ai}/v1/providers`, { headers: { apikey: supabase.secretKey } });
    expect([response.status, response.headers.get("cache-control")]).toEqual([200, "private, no-store"]);
    const text = await response.text();
    const { providers } = providerListing.parse(JSON.parse(text));
    expect(providers).toEqual(expect.arrayContaining([expect.objectContaining({ id: "demo", kind: "openai" })]));
    for (const secret of [providerKey, demo, supabase.secretKey]) expect(text).not.toContain(secret);
  });
});

test("GET /v1/providers lists the configured providers and all kinds, without keys and addresses", async () => {
  const { status, text, body } = await call("/providers");
  expect(status).toBe(200);
  const { providers, kinds } = providerListing.parse(body);
  expect(providers.find((each) => each.id === id)).toEqual({
    id,
    kind: "openai-compatible",
    endpoints: ["chat", "responses", "embeddings"],
    region: null,
    billingName: null,
    account: null,
    hasKey: true,
  });
  expect(kinds.find((kind) => kind.name === "openai")?.needs).toEqual(["KIND", "API_KEY"]);
  expect(text).not.toMatch(/sk-secret|127\.0\.0\.1|sb_secret/);
});

describe("POST /v1/providers/test", () => {
  test("a test sends one short request to the provider, and returns the time and the usage", async () => {
    expect(await testRoute(answerWell)).toMatchObject({
      ok: true,
      latencyMs: expect.any(Number),
      usage: { input_tokens: 20 },
      estimated: false,
      servedTier: null,
      upstreamRequestId: "req_good",
    });
    expect(upstream.bodies).toEqual([
      { model: "m", messages: [{ role: "user", content: "Say ok." }], max_tokens: 1_024 },
    ]);
  });

  test.for<[string, Script, object]>([
    ["refuses the key", answerError(401, { message: leak }), { failure: "unauthorized", status: 401 }],
    [
      "is busy",
      answerError(429, { message: leak }, { "retry-after": "7" }),
      { failure: "rate_limited", status: 429, retryAfterSeconds: 7, upstreamRequestId: "req_bad" },
    ],
    ["lacks the model", answerError(404, { message: leak }), { failure: "not_found", status: 404 }],
    ["fails", answerError(500, { message: leak }), { failure: "server_error", status: 500 }],
    ["never answers", hang, { failure: "timeout", status: null, upstreamRequestId: null }],
    [
      "answers with a page",
      (response) => void response.writeHead(200, { "content-type": "text/html" }).end(`<html>${leak}`),
      { failure: "invalid_answer", status: 200 },
    ],
    [
      "answers with another object",
      (response) => void response.writeHead(200, { "content-type": "application/json" }).end(`{"text":"${leak}"}`),
      { failure: "invalid_answer", status: 200 },
    ],
    ["closes the connection", (response) => void response.destroy(), { failure: "connection_lost", status: null }],
  ])("a test says which way it failed if the provider %s", async ([, script, facts]) => {
    const startedAt = performance.now();
    expect(await testRoute(script)).toMatchObject({ ok: false, latencyMs: expect.any(Number), ...facts });
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(upstream.calls).toBe(1);
  });

  test("a test says that nothing listens at the provider's address", async () => {
    const answer = await testRoute(answerWell, { ...chat, provider: "nowhere" });
    expect(answer).toMatchObject({ ok: false, failure: "unreachable", status: null });
  });

  test("a test counts in the limits that the console sets for the provider", async () => {
    await tenant.db.query("insert into ai.provider_limits (provider_id, requests_per_minute) values ($1, 1)", [id]);
    expect(await testRoute(answerWell)).toMatchObject({ ok: true });
    const refused = await testRoute(answerWell);
    expect(refused).toMatchObject({ ok: false, failure: "rate_limited", status: null });
    expect(refused.ok === false && refused.retryAfterSeconds).toBeGreaterThan(50);
    expect(upstream.calls).toBe(1);
    await tenant.db.query("delete from ai.provider_limits where provider_id = $1", [id]);
  });

  test("a test is not a run, and says nothing about the health of the route", async () => {
    for (const script of [answerWell, answerError(500), answerError(500), answerError(500), answerError(500)]) {
      await testRoute(script);
    }
    expect(upstream.calls).toBe(5);
    await gateway.settled();
    const [found] = await tenant.db.query(
      `select
         (select count(*)::integer from ai.runs where request_id = $1) as runs,
         (select count(*)::integer from ai.route_health where provider_id = $2) as health`,
      [requestId, id],
    );
    expect(found).toEqual({ runs: 0, health: 0 });
  });

  test.for<[object, string]>([
    [{ provider: "unknown" }, "provider"],
    [{ endpoint: "messages" }, "endpoint"],
    [{ endpoint: "speech" }, "endpoint"],
    [{ endpoint: "count_tokens" }, "endpoint"],
    [{ model: "" }, "model"],
    [{ model: "x".repeat(201) }, "model"],
    [{ baseUrl: "https://elsewhere.example" }, "baseUrl"],
    [{ messages: [] }, "messages"],
  ])("refuses the test %j without a call to a provider", async ([change, param]) => {
    const { status, body } = await call("/providers/test", { body: { ...chat, ...change } });
    expect([status, body.error.code, body.error.param]).toEqual([400, "invalid_request", param]);
    expect(upstream.calls).toBe(0);
  });

  test.for([
    { provider: "demo", model: "demo-chat", endpoint: "chat" },
    { provider: "demo", model: "demo-chat", endpoint: "responses" },
    { provider: "demo", model: "demo-embedding", endpoint: "embeddings" },
    { provider: "demo_messages", model: "demo-messages", endpoint: "messages" },
    { provider: "demo_speech", model: "demo-speech", endpoint: "speech", voice: "Kore" },
  ])("tests the demo provider's endpoint: %j", async (test) => {
    const response = await fetch(`${ai}/v1/providers/test`, {
      method: "POST",
      headers: { apikey: supabase.secretKey, "content-type": "application/json" },
      body: JSON.stringify(test),
    });
    const answer = routeTestAnswer.parse(await response.json());
    expect(answer).toMatchObject({ ok: true, usage: { input_tokens: expect.any(Number) }, estimated: false });
  });

  test("a test of speech needs a voice", async () => {
    const response = await fetch(`${ai}/v1/providers/test`, {
      method: "POST",
      headers: { apikey: supabase.secretKey, "content-type": "application/json" },
      body: JSON.stringify({ provider: "demo_speech", model: "demo-speech", endpoint: "speech" }),
    });
    expect([response.status, (await response.json()).error.param]).toEqual([400, "voice"]);
  });
});
