import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { requestGenerations } from "./fetch-generations.ts";

const runId = "0193a1b2-0000-7000-8000-000000000001";

/** Answers a request for a generation. */
let answer: (response: ServerResponse, id: string) => void;
let requests: string[] = [];
let running = 0;
let maxRunning = 0;
const server = createServer((request, response) => {
  requests.push(`${request.headers.authorization} ${request.url}`);
  running += 1;
  maxRunning = Math.max(maxRunning, running);
  response.on("close", () => {
    running -= 1;
  });
  response.setHeader("x-request-id", "req_1");
  answer(response, new URL(request.url ?? "", "http://provider.test").searchParams.get("id") ?? "");
});
let baseUrl = "";
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  requests = [];
  maxRunning = 0;
});

// https://openrouter.ai/docs/api/api-reference/generations/get-generation
const generation = (id: string, members = `"total_cost": 0.0015, "is_byok": false`) =>
  `{"data": {"id": ${JSON.stringify(id)}, "upstream_id": "chatcmpl-791bcf62-080e-4568-87d0-94c72e3b4946", "cache_discount": 0.0002,
    "upstream_inference_cost": 0.0012, "created_at": "2024-07-15T23:33:19.433273+00:00", "model": "sao10k/l3-stheno-8b",
    "app_id": 12345, "streamed": true, "cancelled": false, "usage": 0.0015, "api_type": "completions", ${members}}}`;
const notFound = `{"error": {"code": 404, "message": "Generation not found"}}`;

async function request(ids: string[], options: { timeoutMs?: number; now?: () => number } = {}) {
  const calls = ids.map((generationId) => ({ runId, generationId }));
  const { costs, failure } = await requestGenerations({ baseUrl, key: "sk-or-secret" }, { calls, ...options });
  expect(failure?.message ?? "").not.toContain("secret");
  return {
    costs: costs.map(({ generationId, costUsd, ownKeyUsd }) => [generationId, costUsd, ownKeyUsd]).toSorted(),
    failure: failure?.message,
    retryAfterSeconds: failure?.retryAfterSeconds,
  };
}

const ids = (count: number) => Array.from({ length: count }, (_, n) => `gen-${n}`);

describe("what a generation cost", () => {
  // For OpenRouter's own key, upstream_inference_cost is a part of the charge; for an own key, it is an additional charge
  // by another provider: https://github.com/OpenRouterTeam/ai-sdk-provider/issues/532,
  // https://github.com/tailcallhq/forgecode/issues/1641
  test.for<[what: string, members: string, costUsd: string, ownKeyUsd: string | null]>([
    ["OpenRouter's key", `"total_cost": 0.0015, "is_byok": false`, "0.0015", null],
    ["all digits", `"total_cost": 0.13080438340307526`, "0.13080438340307526", null],
    ["an exponent", `"total_cost": 4.5e-08`, "0.000000045", null],
    ["a free call", `"total_cost": 0`, "0", null],
    ["an own key", `"total_cost": 0, "is_byok": true, "upstream_inference_cost": 0.0360795`, "0", "0.0360795"],
    [
      "an own key without a statement",
      `"total_cost": 0.001, "is_byok": true, "upstream_inference_cost": null`,
      "0.001",
      null,
    ],
  ])("is read exactly with %s", async ([, members, costUsd, ownKeyUsd]) => {
    answer = (response, id) => void response.end(generation(id, members));
    expect(await request(["gen-1"])).toMatchObject({ costs: [["gen-1", costUsd, ownKeyUsd]], failure: undefined });
    expect(requests).toEqual(["Bearer sk-or-secret /api/v1/generation?id=gen-1"]);
  });

  test("is read without members that it does not need", async () => {
    answer = (response, id) => void response.end(`{"data": {"id": "${id}", "total_cost": 1}}`);
    expect((await request(["gen-1"])).costs).toEqual([["gen-1", "1", null]]);
  });

  test("is requested for an id with any characters", async () => {
    const odd = "gen-1&id=gen-2/../?#%25+=é";
    answer = (response, id) => void response.end(generation(id));
    expect((await request([odd])).costs).toEqual([[odd, "0.0015", null]]);
  });

  test.for([404, 400])("is unknown after a %i, and the other calls are asked", async (status) => {
    answer = (response, id) =>
      void (id === "gen-1" ? response.writeHead(status).end(notFound) : response.end(generation(id)));
    expect(await request(ids(3))).toMatchObject({
      costs: [
        ["gen-0", "0.0015", null],
        ["gen-1", null, null],
        ["gen-2", "0.0015", null],
      ],
      failure: undefined,
    });
  });

  test.for<[what: string, body: string, failure: RegExp]>([
    ["another generation", generation("gen-other"), /gen-1 is not the cost of that call/],
    ["no cost", generation("gen-1", `"is_byok": false`), /gen-1 is not the cost/],
    ["a negative cost", generation("gen-1", `"total_cost": -1`), /gen-1 is not the cost/],
    ["a cost in words", generation("gen-1", `"total_cost": "much"`), /gen-1 is not the cost/],
    ["no JSON", "<!doctype html>", /answered no JSON object \(request req_1\)/],
    ["a cut answer", generation("gen-1").slice(0, 50), /answered no JSON object/],
    ["more than 1 MiB", `{"data": "${"x".repeat(1024 * 1024)}"}`, /answered more than 1 MiB/],
  ])("leaves out a call that is answered with %s", async ([, body, failure]) => {
    answer = (response, id) => void response.end(id === "gen-1" ? body : generation(id));
    const read = await request(ids(6));
    expect(read.costs.map(([id]) => id)).toEqual(["gen-0", "gen-2", "gen-3", "gen-4", "gen-5"]);
    expect(read.failure).toMatch(failure);
  });
});

describe("a request for the costs of a day", () => {
  test("has four requests at a time", async () => {
    answer = (response, id) => void setTimeout(() => response.end(generation(id)), 20);
    expect((await request(ids(20))).costs).toHaveLength(20);
    expect(maxRunning).toBe(4);
  });

  test.for<[what: string, script: (response: ServerResponse) => void, failure: RegExp, retryAfterSeconds: number]>([
    [
      "a rate limit",
      (response) => void response.writeHead(429, { "retry-after": "12" }).end("{}"),
      /^OpenRouter asks to wait \(429, request req_1\)\.$/,
      12,
    ],
    ["a wrong key", (response) => void response.writeHead(401).end("{}"), /refuses the key.*OPENROUTER_ADMIN_KEY/, 0],
    ["an outage", (response) => void response.writeHead(502).end("{}"), /is unavailable/, 0],
    ["a lost connection", (response) => void response.destroy(), /could not be reached/, 0],
    ["silence", () => {}, /did not answer within 0.2 seconds/, 0],
  ])("ends at %s and keeps what was answered before", async ([, script, failure, retryAfterSeconds]) => {
    answer = (response, id) => (Number(id.slice(4)) < 10 ? void response.end(generation(id)) : script(response));
    const read = await request(ids(100), { timeoutMs: 200 });
    expect(read.failure).toMatch(failure);
    expect(read.retryAfterSeconds).toBe(retryAfterSeconds);
    expect(read.costs.length).toBeGreaterThanOrEqual(7);
    expect(read.costs.length).toBeLessThanOrEqual(10);
    expect(requests.length).toBeLessThan(20);
  });

  test("asks about the other calls if three always fail", async () => {
    answer = (response, id) =>
      void (Number(id.slice(4)) < 3 ? response.writeHead(500).end() : response.end(generation(id)));
    const read = await request(ids(50));
    expect(read.costs).toHaveLength(47);
    expect(read.failure).toMatch(/is unavailable/);
  });

  test("begins no request after ten seconds", async () => {
    answer = (response, id) => void response.end(generation(id));
    let time = 0;
    const now = () => {
      time += 1_000;
      return time;
    };
    const read = await request(ids(100), { now });
    expect(read.failure).toBeUndefined();
    expect(read.costs).toHaveLength(9);
  });
});
