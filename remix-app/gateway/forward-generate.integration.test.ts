import { randomUUID } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createAiKey } from "#shared/ai-key.ts";
import { keepSession } from "../../scripts/test/keep-session.ts";
import { createPerson, deletePerson } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../supabase/tests/gateway/tenant.ts";
import { expectTruth, leaveOnceAsked } from "../../supabase/tests/gateway/truth.ts";
import type { StoredSession } from "../session/cookies.ts";
import { newAddress } from "../testing/visitor.ts";

const { ai, base, supabase } = readStack();
const successor = `<${ai}/v1/chat/completions>; rel="successor-version"`;

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

type Call = { body?: unknown; key?: string | null; headers?: Record<string, string>; url?: string };

async function generate({ body = { prompt: "Grüße" }, key = tenant.key, headers = {}, url = base }: Call = {}) {
  const response = await fetch(`${url}${url === base ? "/api/ai" : "/v1"}/generate`, {
    method: "POST",
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      "content-type": "application/json",
      ...headers,
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

test("returns the generate function's metered answer with a link to the successor endpoint", async () => {
  const requestId = randomUUID();
  const { status, headers, body } = await generate({
    headers: { "x-request-id": requestId, "X-Platform-Operation": "legacy" },
  });
  expect([status, body.output, body.finishReason]).toEqual([200, expect.stringContaining("Grüße"), "stop"]);
  const account = await tenant.accountOf(requestId);
  expectTruth(account);
  expect([account.run.feature, account.truth.length]).toEqual(["legacy", 1]);
  expect(Number(headers.get("x-platform-billed-credits"))).toBe(Number(account.charged));
  expect(Object.fromEntries(headers)).toMatchObject({
    "x-request-id": requestId,
    "cache-control": "private, no-store",
    deprecation: "@1767225600",
    link: successor,
  });
  expect(headers.has("set-cookie")).toBe(false);
});

test.for([
  [{ prompt: "" }, 400, "invalid_request"],
  ["{", 400, "invalid_json"],
  [{ prompt: "x", model: "no-such-model" }, 404, "model_not_found"],
  [{ prompt: "x", model: "demo-error-500" }, 502, "provider_error"],
] as const)(
  "passes on the generate function's error for %j in the function's own format",
  async ([body, status, code]) => {
    const answer = await generate({ body });
    expect([answer.status, answer.body.error.code]).toEqual([status, code]);
    expect(answer.body.error.request_id).toBe(answer.headers.get("x-request-id"));
    expect(answer.headers.has("deprecation")).toBe(true);
  },
);

test("answers a GET with 405 in the generate function's error format", async () => {
  const method = await fetch(`${base}/api/ai/generate`);
  expect([method.status, method.headers.get("allow")]).toEqual([405, "POST"]);
  expect((await method.json()).error).toMatchObject({ code: "invalid_request", message: "Send a POST request." });
  const bodyOf = (bytes: number) => JSON.stringify({ prompt: "x".repeat(bytes - '{"prompt":""}'.length) });
  expect((await generate({ body: bodyOf(64 * 1024) })).status).toBe(200);
  const large = await generate({ body: bodyOf(64 * 1024 + 1) });
  expect([large.status, large.body.error.code]).toEqual([413, "payload_too_large"]);
  const labelled = await generate({ headers: { "x-request-id": "no label" } });
  expect([labelled.status, labelled.body.error.param]).toEqual([400, "x-request-id"]);
  for (const { headers } of [method, large, labelled, await generate({ key: null })]) {
    expect([headers.get("deprecation"), headers.get("link")]).toEqual(["@1767225600", successor]);
  }
});

test("gives the same answer to a missing, an unknown and a cookie-only credential", async () => {
  const person = await createPerson();
  const client = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
  const { data } = await client.auth.signInWithPassword(person);
  const cookie = await keepSession(data.session as unknown as StoredSession);
  const unknown = (await createAiKey()).text;
  const calls: Call[] = [
    { key: null },
    { key: null, headers: { cookie, origin: base, "sec-fetch-site": "same-origin" } },
    { key: "nonsense", headers: { cookie } },
    { key: unknown, headers: { cookie } },
    { key: "a.b.c", headers: { cookie } },
  ];
  for (const call of calls) {
    const { status, headers, body } = await generate(call);
    expect([status, headers.get("www-authenticate"), body.error.code]).toEqual([401, "Bearer", "invalid_api_key"]);
  }
  await deletePerson(person);
});

test("the generate endpoint honors an idempotency key as the gateway does", async () => {
  const headers = { "idempotency-key": randomUUID() };
  expect((await generate({ headers })).status).toBe(200);
  await expect.poll(async () => (await generate({ headers })).body.error?.code).toBe("idempotency_key_used");
  expect((await generate({ headers, body: { prompt: "other" } })).status).toBe(422);
});

test("checks a key's allowed addresses against the caller's address, not this server's", async () => {
  const bound = await createGatewayTenant();
  const address = newAddress();
  const allow = (addresses: string) =>
    bound.db.query("update ai.keys set allowed_addresses = $2 where id = $1", [bound.keyId, addresses]);
  const statusFrom = async (from: string, headers: Record<string, string> = {}) =>
    (await generate({ key: bound.key, headers: { "x-forwarded-for": from, ...headers } })).status;
  await allow(`{${address}}`);
  expect(await statusFrom(address)).toBe(200);
  expect(await statusFrom(newAddress())).toBe(403);
  expect(await statusFrom(newAddress(), { "x-platform-forwarded-for": address })).toBe(403);
  expect(await statusFrom(`${address}, ${newAddress()}`)).toBe(403);
  // The gateway ignores the address that a direct caller claims to have.
  const claim = { "x-platform-forwarded-for": address, apikey: supabase.publishableKey };
  expect((await generate({ key: bound.key, headers: claim, url: ai })).status).toBe(403);
  await allow("{127.0.0.0/8,::1}");
  expect(await statusFrom(newAddress())).toBe(403);
  await bound.close();
});

test("cancels the provider's call when the client disconnects", async () => {
  const requestId = randomUUID();
  const leaving = new AbortController();
  const call = fetch(`${base}/api/ai/generate`, {
    method: "POST",
    headers: { authorization: `Bearer ${tenant.key}`, "content-type": "application/json", "x-request-id": requestId },
    body: JSON.stringify({ prompt: "[[first=5000]]" }),
    signal: leaving.signal,
  });
  void leaveOnceAsked(tenant, { requestId, leaving });
  await expect(call).rejects.toThrow("aborted");
  const { run, truth } = await tenant.accountOf(requestId);
  expect([run.status, run.http_status, truth[0]?.aborted]).toEqual(["cancelled", 499, true]);
});
