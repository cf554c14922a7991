import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type { Attempt } from "../../_shared/attempt.ts";
import type { EndedRun } from "../runs/ended-run.ts";
import { readTelemetry } from "./settings.ts";
import { createTelemetry } from "./telemetry.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const step = { startedAt: 10, endedAt: 20, name: "m", status: "succeeded" } as const;
const rejected: Attempt = {
  route: 1,
  provider: "first",
  model: "a",
  status: 401,
  failure: "unauthorized",
  upstream_request_id: "req_first",
  latency_ms: 10,
};
const answered: Attempt = {
  route: 2,
  provider: "second",
  model: "b",
  status: 200,
  upstream_request_id: "req_second",
  latency_ms: 10,
};
const left: Attempt = { route: 2, provider: "second", model: "b", failure: "cancelled", latency_ms: 10 };
const routes = [
  { position: 1, provider: "first", model: "a", prices: [{ min_input_tokens: 0, input: "2.5", output: "8" }] },
  {
    position: 2,
    provider: "second",
    model: "b",
    prices: [{ min_input_tokens: 0, input: "0.15", output: "0.60" }],
    tier_multipliers: { priority: 1.75 },
  },
];
const run: EndedRun = {
  requestId: "r",
  path: "/chat/completions",
  feature: "notes.summary",
  run: {
    run_id: "01a1ffdb-9437-7182-a50d-ced7edb238e2",
    workspace_id: "w",
    model: "m",
    key_name: "Nightly report",
    routes,
  },
  request: { stream: true, outputLimit: 100, choices: 1 },
  steps: [
    { ...step, type: "retry", status: "failed", attempt: rejected },
    {
      ...step,
      type: "model",
      attempt: answered,
      usage: { input_tokens: 7, output_tokens: 3, reasoning_tokens: 2 },
      servedTier: "priority",
    },
    { ...step, type: "tool", name: "calculator" },
    { ...step, type: "model", status: "aborted", attempt: left },
  ],
  attempts: [rejected, answered, left],
  startedAt: 5,
  endedAt: 30,
  outcome: {
    status: "cancelled",
    http_status: 499,
    usage_source: "estimated_partial",
    input_tokens: 7,
    output_tokens: 3,
    served_tier: "priority",
    route: 2,
  },
};

/** Starts a collector that answers every request with the given status. */
async function openCollector(status = 200) {
  const received: { url?: string; headers: IncomingHttpHeaders; body: string }[] = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    received.push({ url: request.url, headers: request.headers, body });
    response.writeHead(status).end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => server.close());
  return { received, endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function open(env: Record<string, string>) {
  const lines: string[] = [];
  const reports: unknown[] = [];
  const telemetry = createTelemetry(readTelemetry(env), {
    waitUntil: () => {},
    report: (error) => reports.push(error),
    write: (line) => lines.push(line),
    epochMs: 1_700_000_000_000,
  });
  return { telemetry, lines, reports };
}

describe("Telemetry", () => {
  test.for<[string, Attempt[], Partial<EndedRun["outcome"]>, boolean]>([
    ["a failed attempt", run.attempts as Attempt[], {}, true],
    ["a failed run", [], { status: "failed" }, true],
    ["unusual usage", [], { marks: ["implausible"] }, true],
    ["a run whose client disconnected", [left], {}, false],
    ["a skipped route", [{ ...rejected, failure: "skipped" }, answered], { status: "succeeded" }, false],
    ["a successful run", [answered], { status: "succeeded" }, false],
  ])("by default logs only runs that need attention: %s", ([, attempts, changes, logged]) => {
    const { telemetry, lines } = open({});
    telemetry.run?.({ ...run, attempts, outcome: { ...run.outcome, ...changes } });
    expect(telemetry.request).toBeUndefined();
    expect(lines.map((line) => JSON.parse(line).level)).toEqual(logged ? ["warn"] : []);
  });

  test("logs the provider and any failure of each attempt, and the prices of the route that answered", () => {
    const { telemetry, lines } = open({});
    telemetry.run?.(run);
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({
      level: "warn",
      event: "run",
      run_id: run.run.run_id,
      request_id: "r",
      workspace_id: "w",
      key_name: "Nightly report",
      model: "m",
      provider: "second",
      provider_route: 2,
      attempts: [rejected, answered, left],
      served_tier: "priority",
      input_usd_per_million: "0.2625",
      output_usd_per_million: "1.05",
    });
  });

  test("traces a run whose route has no price", async () => {
    const { received, endpoint } = await openCollector();
    const { telemetry } = open({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    telemetry.run?.({ ...run, run: { ...run.run, routes: routes.map((route) => ({ ...route, prices: [] })) } });
    await telemetry.flush();
    expect(received).toHaveLength(1);
  });

  test.for<Record<string, string>>([
    { AI_LOG: "yes" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "file:///tmp/spans" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_EXPORTER_OTLP_HEADERS: "novalue" },
  ])("rejects the telemetry settings %j and names the setting", (env) => {
    expect(() => readTelemetry(env)).toThrow(/AI_LOG|OTEL_EXPORTER_OTLP/);
  });

  test("sends all spans in one batch with the collector's headers, and the spans follow the GenAI conventions", async () => {
    const { received, endpoint } = await openCollector();
    const { telemetry } = open({
      OTEL_EXPORTER_OTLP_ENDPOINT: `${endpoint}/`,
      OTEL_EXPORTER_OTLP_HEADERS: "x-team=a%20b, authorization=Bearer c",
      OTEL_SERVICE_NAME: "ours",
    });
    telemetry.run?.(run);
    telemetry.run?.(run);
    await telemetry.flush();
    expect(received).toMatchObject([
      {
        url: "/v1/traces",
        headers: { "x-team": "a b", authorization: "Bearer c", "content-type": "application/json" },
      },
    ]);
    const { resource, scopeSpans } = JSON.parse(received[0]?.body ?? "").resourceSpans[0];
    expect(resource.attributes).toEqual([{ key: "service.name", value: { stringValue: "ours" } }]);
    const spans = scopeSpans[0].spans.slice(0, 5);
    const [root] = spans;
    expect(scopeSpans[0].spans).toHaveLength(10);
    expect(
      spans.map(({ name, kind, status }: { name: string; kind: number; status: object }) => [name, kind, status]),
    ).toEqual([
      ["POST /chat/completions", 2, { code: 0 }],
      ["chat m", 3, { code: 2 }],
      ["chat m", 3, { code: 0 }],
      ["execute_tool calculator", 1, { code: 0 }],
      ["chat m", 3, { code: 2 }],
    ]);
    expect(root).toMatchObject({
      traceId: "01a1ffdb94377182a50dced7edb238e2",
      startTimeUnixNano: "1700000000005000000",
      endTimeUnixNano: "1700000000030000000",
    });
    for (const child of spans.slice(1))
      expect(child).toMatchObject({ traceId: root.traceId, parentSpanId: root.spanId });
    expect(new Set(spans.map(({ spanId }: { spanId: string }) => spanId)).size).toBe(5);
    const attributes = (at: number) =>
      Object.fromEntries(
        spans[at].attributes.map(({ key, value }: { key: string; value: object }) => [key, Object.values(value)[0]]),
      );
    expect(attributes(0)).toMatchObject({ "gatehouse.key.name": "Nightly report" });
    expect(attributes(1)).toMatchObject({
      "gen_ai.provider.name": "first",
      "gen_ai.request.model": "a",
      "http.response.status_code": "401",
      "error.type": "unauthorized",
      "gatehouse.upstream.request_id": "req_first",
      "gatehouse.route.position": "1",
      "gatehouse.price.input_usd_per_million": "2.5",
      "gatehouse.price.output_usd_per_million": "8",
    });
    expect(attributes(2)).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "second",
      "gen_ai.request.model": "b",
      "gen_ai.request.max_tokens": "100",
      "gen_ai.request.stream": true,
      "gen_ai.usage.input_tokens": "7",
      "gen_ai.usage.output_tokens": "3",
      "gen_ai.usage.reasoning.output_tokens": "2",
      "openai.response.service_tier": "priority",
      "http.response.status_code": "200",
      "gatehouse.upstream.request_id": "req_second",
      "gatehouse.route.position": "2",
      "gatehouse.price.input_usd_per_million": "0.2625",
      "gatehouse.price.output_usd_per_million": "1.05",
    });
    expect(attributes(3)).toMatchObject({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "calculator" });
    expect(attributes(4)).toMatchObject({ "error.type": "cancelled" });
  });

  test("telemetry keeps working without its collector and reports the failure once", async () => {
    const { received, endpoint } = await openCollector(503);
    const { telemetry, reports } = open({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    for (const _ of [1, 2, 3]) {
      telemetry.run?.(run);
      await telemetry.flush();
    }
    expect(received).toHaveLength(3);
    expect(reports).toEqual([expect.objectContaining({ name: "ExportFailed" })]);
  });

  test("logs one line per provider call and one per run", () => {
    const { telemetry, lines } = open({ AI_LOG: "json" });
    telemetry.run?.(run);
    telemetry.request?.({
      method: "POST",
      route: "/chat/completions",
      requestId: "r",
      status: 503,
      code: "service_unavailable",
      latencyMs: 4,
    });
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      {
        level: "warn",
        event: "run",
        run_id: run.run.run_id,
        status: "cancelled",
        input_tokens: 7,
        steps: 4,
        latency_ms: 25,
      },
      { level: "error", event: "request", route: "/chat/completions", status: 503, code: "service_unavailable" },
    ]);
  });
});
