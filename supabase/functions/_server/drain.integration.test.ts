import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type GatewayProcess, startGatewayProcess } from "../../tests/gateway/gateway-process.ts";
import { type PausedProvider, startPausedProvider } from "../../tests/gateway/paused-stream.ts";
import { createPricedModel } from "../../tests/gateway/priced-model.ts";
import { createGatewayTenant, type GatewayTenant } from "../../tests/gateway/tenant.ts";

let tenant: GatewayTenant;
let provider: PausedProvider;
let model: string;

beforeAll(async () => {
  [tenant, provider] = await Promise.all([createGatewayTenant(), startPausedProvider()]);
  model = await createPricedModel(tenant, { providers: ["paused"] });
});
afterAll(async () => {
  provider.close();
  await tenant.close();
});

const start = (env: Record<string, string> = {}) =>
  startGatewayProcess({ AI_PROVIDER_PAUSED_BASE_URL: provider.url, ...env });

/** Begins a stream, and reads its first word. */
async function beginStream({ url }: GatewayProcess) {
  const requestId = `it-${randomUUID()}`;
  const client = new OpenAI({ baseURL: `${url}/functions/v1`, apiKey: tenant.key, maxRetries: 0 });
  const stream = await client.chat.completions.create(
    { model, stream: true, messages: [{ role: "user", content: "hello" }] },
    { headers: { "x-request-id": requestId } },
  );
  const chunks = stream[Symbol.asyncIterator]();
  const first = (await chunks.next()).value?.choices[0]?.delta.content;
  async function readRest(): Promise<string> {
    let rest = "";
    for (let next = await chunks.next(); !next.done; next = await chunks.next())
      rest += next.value.choices[0]?.delta.content ?? "";
    return rest;
  }
  return { requestId, first, readRest };
}

const isRefused = ({ url }: GatewayProcess) =>
  fetch(`${url}/healthz`).then(
    () => false,
    () => true,
  );

describe("the gateway's process after SIGTERM", { tags: "needs-stack-server" }, () => {
  test("refuses connections, completes a stream with its content, charges it and ends with code 0", async () => {
    const gateway = await start();
    const { requestId, first, readRest } = await beginStream(gateway);
    const stopped = gateway.stop();
    await expect.poll(() => isRefused(gateway)).toBe(true);
    provider.finish();
    expect(first + (await readRest())).toBe("first last");
    expect(await stopped).toBe(0);
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "succeeded", usage_source: "provider", input_tokens: 20, output_tokens: 30 });
    expect(charged).toBe(run.billed_credits);
  });

  test("ends calls that wait for an envelope with 503, so that clients send them to another process", async () => {
    const gateway = await start();
    const label = randomUUID();
    const send = (path: string, init?: RequestInit) =>
      fetch(`${gateway.url}/functions/v1${path}`, { headers: { authorization: `Bearer ${tenant.key}` }, ...init });
    const waiting = send("/chat/completions", {
      method: "POST",
      headers: {
        authorization: `Bearer ${tenant.key}`,
        "content-type": "application/json",
        "x-platform-entity-id": label,
        "x-platform-envelope": "usd=0.0000001; wait=600",
      },
      body: JSON.stringify({ model, messages: [{ role: "user", content: "hello" }] }),
    });
    const id = await vi.waitFor(async () => {
      const [row] = await tenant.db.query<{ id: string }>("select id from ai.envelopes where label = $1", [label]);
      if (!row) throw new Error("the envelope is not open yet");
      return row.id;
    });
    const reading = send(`/envelopes/${id}?wait=60`);
    await sleep(1_500);
    const startedAt = performance.now();
    const stopped = gateway.stop();
    const [refused, read] = await Promise.all([waiting, reading]);
    const { error } = (await refused.json()) as { error: { code: string } };
    expect([refused.status, error.code, refused.headers.get("x-should-retry")]).toEqual([
      503,
      "service_unavailable",
      null,
    ]);
    expect([read.status, await read.json()]).toEqual([200, expect.objectContaining({ id, state: "open" })]);
    expect(await stopped).toBe(0);
    expect(performance.now() - startedAt).toBeLessThan(10_000);
  });

  test("cuts a stream off after AI_DRAIN_SECONDS, and charges what the client has", async () => {
    const gateway = await start({ AI_DRAIN_SECONDS: "1" });
    const { requestId, readRest } = await beginStream(gateway);
    const stopped = gateway.stop();
    await expect(readRest()).rejects.toThrow();
    expect(await stopped).toBe(0);
    const { run, charged } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ status: "cancelled", swept: false });
    expect(charged).toBe(run.billed_credits);
    expect(Number(charged)).toBeGreaterThan(0);
  });
});

describe("the gateway's process", { tags: "needs-stack-server" }, () => {
  test("is alive but not ready without its database", async () => {
    const gateway = await start({ GATEWAY_DB_URL: "postgres://gateway:x@127.0.0.1:1/postgres" });
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    const response = await fetch(`${gateway.url}/readyz`);
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual({ status: "unavailable", reason: "The database does not answer." });
    expect(await gateway.stop()).toBe(0);
  });

  test("serves the functions below the public path, and below / as Supabase's proxy forwards them", async () => {
    const gateway = await start();
    const headers = { authorization: `Bearer ${tenant.key}` };
    for (const path of ["/functions/v1/models", "/models", `/models/${model}`]) {
      expect([path, (await fetch(gateway.url + path, { headers })).status]).toEqual([path, 200]);
    }
    expect(await gateway.stop()).toBe(0);
  });

  test("answers 404 in the API's format for paths that no function serves", async () => {
    const gateway = await start();
    for (const path of [
      "/functions/v1/files",
      "/functions/v1/unknown/deep",
      "/functions/v1",
      "/files",
      "/",
      "/constructor",
    ]) {
      const response = await fetch(gateway.url + path);
      expect([path, response.status]).toEqual([path, 404]);
      expect(await response.json()).toMatchObject({ error: { code: "not_found", type: "invalid_request_error" } });
    }
    expect(await gateway.stop()).toBe(0);
  });
});
