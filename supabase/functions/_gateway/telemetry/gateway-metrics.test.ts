import { expect, test } from "vitest";
import type { Attempt } from "../../_shared/attempt.ts";
import { createCooldowns } from "../providers/cooldowns.ts";
import type { EndedRun } from "../runs/ended-run.ts";
import { createGatewayMetrics } from "./gateway-metrics.ts";

const failed: Attempt = { route: 1, provider: "first", model: "secret-model", failure: "timeout", latency_ms: 10 };
const answered: Attempt = { route: 2, provider: "second", model: "secret-model", status: 200, latency_ms: 10 };
const run = {
  request: { stream: true },
  outcome: { status: "succeeded" },
  attempts: [failed, answered],
  run: { workspace_id: "secret-workspace", key_name: "secret key", model: "secret-model" },
} as unknown as EndedRun;

/** Returns the lines of our own metrics. */
async function read(metrics: ReturnType<typeof createGatewayMetrics>): Promise<string[]> {
  const response = await metrics.respond();
  expect(response.headers.get("content-type")).toMatch(/^application\/openmetrics-text; version=1\.0\.0/);
  const text = await response.text();
  expect(text.endsWith("# EOF\n")).toBe(true);
  return text.split("\n").filter((line) => /^gatehouse_gateway_(?!.*_bucket)/.test(line));
}

test("counts requests, refusals by code, runs, attempts by provider, and runs in progress", async () => {
  const metrics = createGatewayMetrics();
  const route = "/chat/completions";
  metrics.request({ method: "POST", route, requestId: "r", status: 200, latencyMs: 250 });
  metrics.request({ method: "POST", route, requestId: "r", status: 429, code: "rate_limit_exceeded", latencyMs: 250 });
  metrics.request({ method: "GET", requestId: "r", status: 404, code: "not_found", latencyMs: 0 });
  for (const stream of [true, true, false]) metrics.runBegan({ stream });
  metrics.run(run);
  const lines = await read(metrics);
  expect(lines).toEqual([
    'gatehouse_gateway_requests_total{route="/chat/completions",status="200",code=""} 1',
    'gatehouse_gateway_requests_total{route="/chat/completions",status="429",code="rate_limit_exceeded"} 1',
    'gatehouse_gateway_requests_total{route="",status="404",code="not_found"} 1',
    'gatehouse_gateway_request_duration_seconds_sum{route="/chat/completions"} 0.5',
    'gatehouse_gateway_request_duration_seconds_count{route="/chat/completions"} 2',
    'gatehouse_gateway_request_duration_seconds_sum{route=""} 0',
    'gatehouse_gateway_request_duration_seconds_count{route=""} 1',
    'gatehouse_gateway_runs_total{status="succeeded"} 1',
    'gatehouse_gateway_provider_attempts_total{provider="first",outcome="timeout"} 1',
    'gatehouse_gateway_provider_attempts_total{provider="second",outcome="answered"} 1',
    'gatehouse_gateway_open_runs{streamed="true"} 1',
    'gatehouse_gateway_open_runs{streamed="false"} 1',
  ]);
  expect(lines.join()).not.toContain("secret");
});

test("shows the routes that are set aside by provider, until they answer or their cooldown ends", async () => {
  let time = 0;
  const metrics = createGatewayMetrics();
  const cooldowns = [createCooldowns({ now: () => time }), createCooldowns({ now: () => time })];
  for (const each of cooldowns) metrics.watchCooldowns(each.countCooling);
  const fail = (at: number, key: string) =>
    cooldowns[at]?.noteFailure(key, {
      failure: "rate_limited",
      startedAt: time,
      retryAfterSeconds: 60,
      undecided: false,
    });
  const cooling = async () => (await read(metrics)).filter((line) => line.includes("cooling"));
  fail(0, "first a chat");
  fail(0, "first b chat");
  fail(1, "first a chat");
  fail(1, "second a chat");
  expect(await cooling()).toEqual([
    'gatehouse_gateway_cooling_routes{provider="first"} 3',
    'gatehouse_gateway_cooling_routes{provider="second"} 1',
  ]);
  cooldowns[0]?.noteAnswer("first a chat");
  expect(await cooling()).toContain('gatehouse_gateway_cooling_routes{provider="first"} 2');
  time = 60_001;
  expect(await cooling()).toEqual([]);
});
