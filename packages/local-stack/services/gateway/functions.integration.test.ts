import { get } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../../supabase/tests/gateway/tenant.ts";

const { ai, aiKey } = readStack();
const departures = 20;

let tenant: GatewayTenant;
beforeAll(async () => {
  tenant = await createGatewayTenant();
});
afterAll(() => tenant.close());

function stream(content: string, { requestId, signal }: { requestId?: string; signal?: AbortSignal } = {}) {
  return fetch(`${ai}/v1/chat/completions`, {
    method: "POST",
    signal,
    headers: {
      authorization: `Bearer ${tenant.key}`,
      "content-type": "application/json",
      ...(requestId ? { "x-request-id": requestId } : {}),
    },
    body: JSON.stringify({ model: "demo-chat", stream: true, messages: [{ role: "user", content }] }),
  });
}

describe("Functions behind the gateway", () => {
  test("a function answers on its path and sends no CORS headers", async () => {
    const preflight = await fetch(`${ai}/v1/chat/completions`, {
      method: "OPTIONS",
      headers: { origin: "https://app.test", "access-control-request-method": "POST" },
    });
    expect(preflight.status).toBe(204);
    expect([...preflight.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
    expect((await fetch(`${ai}/v1/no-such-function`)).status).toBe(404);
  });

  test("a request with a 12 KiB URL and a 12 KiB header reaches the function", async () => {
    const long = "x".repeat(12 * 1024);
    const response = await fetch(`${ai}/v1/models/none?${long}`, {
      headers: { authorization: `Bearer ${aiKey}`, "x-long": long },
    });
    expect([response.status, (await response.json()).error.code]).toEqual([404, "model_not_found"]);
  });

  test("refuses a WebSocket request with 426", async () => {
    const headers = { connection: "Upgrade", upgrade: "websocket" };
    const status = await new Promise((resolve, reject) => {
      const asked = get(`${ai}/v1/responses`, { headers }, (response) => resolve(response.resume().statusCode));
      asked.once("error", reject);
    });
    expect(status).toBe(426);
  });

  test("streams each chunk of a function's response before the next one is written", async () => {
    const response = await stream("[[words=10 pace=40]]");
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const arrivals: number[] = [];
    const reader = response.body?.getReader();
    while (reader && !(await reader.read()).done) arrivals.push(performance.now());
    expect(arrivals.length).toBeGreaterThan(8);
    expect((arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0)).toBeGreaterThan(250);
  });

  test(`when clients disconnect, cancels the provider's call in ${departures} of ${departures} cases`, async () => {
    const calls = await Promise.all(
      Array.from({ length: departures }, async () => {
        const requestId = `leaves-${crypto.randomUUID()}`;
        const client = new AbortController();
        const response = await stream("[[words=1000 pace=25]]", { requestId, signal: client.signal });
        const reader = response.body?.getReader();
        for (let chunk = 0; chunk < 5; chunk++) await reader?.read();
        client.abort();
        return (await tenant.accountOf(requestId)).truth;
      }),
    );
    expect(calls.map(([call]) => call?.aborted)).toEqual(Array.from({ length: departures }, () => true));
  });
});
