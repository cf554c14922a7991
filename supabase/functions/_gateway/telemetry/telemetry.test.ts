import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import type { EndedRun } from "./ended-run.ts";
import { readTelemetry } from "./settings.ts";
import { createTelemetry } from "./telemetry.ts";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

const step = { startedAt: 10, endedAt: 20, name: "m", status: "succeeded" } as const;
const run: EndedRun = {
  runId: "01a1ffdb-9437-7182-a50d-ced7edb238e2",
  requestId: "r",
  workspaceId: "w",
  path: "/chat/completions",
  feature: "notes.summary",
  model: "m",
  streamed: true,
  outputLimit: 100,
  choices: 1,
  routes: [
    { position: 1, provider: "first", model: "a" },
    { position: 2, provider: "second", model: "b" },
  ],
  steps: [
    { ...step, type: "retry", status: "failed" },
    { ...step, type: "model", route: 2, usage: { input_tokens: 7, output_tokens: 3, reasoning_tokens: 2 } },
    { ...step, type: "tool", name: "calculator" },
    { ...step, type: "model", status: "aborted" },
  ],
  attempts: [],
  startedAt: 5,
  endedAt: 30,
  status: "cancelled",
  httpStatus: 499,
  usageSource: "estimated_partial",
  usage: { input_tokens: 7, output_tokens: 3 },
};

/** A collector that answers with a status. */
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

describe("telemetry", () => {
  test("is off by default: nobody is told anything", () => {
    const { telemetry } = open({});
    expect([telemetry.run, telemetry.request]).toEqual([undefined, undefined]);
  });

  test.for<Record<string, string>>([
    { AI_LOG: "yes" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "file:///tmp/spans" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_EXPORTER_OTLP_HEADERS: "novalue" },
  ])("%j is wrong, and said to be", (env) => {
    expect(() => readTelemetry(env)).toThrow(/AI_LOG|OTEL_EXPORTER_OTLP/);
  });

  test("sends spans by the GenAI conventions, with the collector's headers, in one batch", async () => {
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
    expect(attributes(1)).toMatchObject({ "gen_ai.provider.name": "first", "error.type": "provider_error" });
    expect(attributes(2)).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "second",
      "gen_ai.request.model": "b",
      "gen_ai.request.max_tokens": "100",
      "gen_ai.request.stream": true,
      "gen_ai.usage.input_tokens": "7",
      "gen_ai.usage.output_tokens": "3",
      "gen_ai.usage.reasoning.output_tokens": "2",
    });
    expect(attributes(3)).toMatchObject({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "calculator" });
    expect(attributes(4)).toMatchObject({ "error.type": "cancelled" });
  });

  test("goes on without its collector, and says so once", async () => {
    const { received, endpoint } = await openCollector(503);
    const { telemetry, reports } = open({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    for (const _ of [1, 2, 3]) {
      telemetry.run?.(run);
      await telemetry.flush();
    }
    expect(received).toHaveLength(3);
    expect(reports).toEqual([expect.objectContaining({ name: "ExportFailed" })]);
  });

  test("logs one line a call and one a run", () => {
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
        level: "info",
        event: "run",
        run_id: run.runId,
        status: "cancelled",
        input_tokens: 7,
        steps: 4,
        latency_ms: 25,
      },
      { level: "error", event: "request", route: "/chat/completions", status: 503, code: "service_unavailable" },
    ]);
  });
});
