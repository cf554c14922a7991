import { createServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../../scripts/test/identity-backend.ts";
import type { WebProcess } from "../testing/web-process.ts";
import { deploymentMetricNames } from "./deployment-metrics.ts";

const token = "the-token-of-the-metrics-of-these-tests";
const authorized = { authorization: `Bearer ${token}` };
const measureCall = "POST /rest/v1/rpc/measure_deployment";
const patience = { timeout: 20_000 };

let backend: IdentityBackend;
let web: WebProcess;
const collected: string[] = [];
const collector = createServer(async (request, response) => {
  for await (const chunk of request) collected.push(String(chunk));
  response.end("{}");
});

beforeAll(async () => {
  await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
  backend = await startIdentityBackend();
  web = await backend.startWeb({
    env: {
      WEB_PROCESSES: "2",
      METRICS_TOKEN: token,
      LOG_FORMAT: "json",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${(collector.address() as AddressInfo).port}`,
    },
  });
  await vi.waitUntil(() => web.output().split("listening on").length === 3, patience);
});
afterAll(async () => {
  await web.stop();
  await backend.close();
  collector.close();
});

/** Requests on a new connection, which goes to the next process. */
function visit(path: string, headers: Record<string, string> = {}): Promise<{ status: number; text: string }> {
  const url = `http://127.0.0.1:${new URL(web.base).port}${path}`;
  return new Promise((resolve, reject) => {
    get(url, { agent: false, headers }, async (response) => {
      let text = "";
      for await (const chunk of response) text += chunk;
      resolve({ status: response.statusCode ?? 0, text });
    }).once("error", reject);
  });
}

const read = async (path = "/metrics") => (await visit(path, authorized)).text;
/** Returns the values of a metric's series by their labels. */
const seriesOf = (text: string, name: string) =>
  Object.fromEntries(
    text.split("\n").flatMap((line) => {
      const [, labels = "", value] = new RegExp(`^${name}(?:\\{(.*)\\})? (\\S+)$`).exec(line) ?? [];
      return value === undefined ? [] : [[labels, Number(value)]];
    }),
  );

test.each(["/metrics", "/metrics/deployment"])("refuses %s without the token", async (path) => {
  expect((await visit(path)).status).toBe(401);
  expect((await visit(path, { authorization: `Bearer ${token}x` })).status).toBe(401);
});

test("any process answers with the metrics of all, each with its own counters", async () => {
  const before = seriesOf(await read(), "gatehouse_web_requests_total");
  await Promise.all(["/login", "/login"].map((path) => visit(path)));
  const after = seriesOf(await read(), "gatehouse_web_requests_total");
  for (const process of ["0", "1"]) {
    const labels = `kind="page",status="200",process="${process}"`;
    expect((after[labels] ?? 0) - (before[labels] ?? 0), labels).toBe(1);
  }
  const text = await read();
  const memory = Object.keys(seriesOf(text, "process_resident_memory_bytes"));
  expect(memory.toSorted()).toEqual(['process="0"', 'process="1"']);
  expect(text.endsWith("# EOF\n")).toBe(true);
});

test("labels requests only by what they were for, so that no caller can add series", async () => {
  await visit("/no/such/page-of-this-test");
  await visit("/healthz");
  const text = await read();
  expect(text).not.toContain("page-of-this-test");
  const kinds = Object.keys(seriesOf(text, "gatehouse_web_requests_total")).map((labels) => labels.split(",")[0]);
  expect(new Set(kinds)).toEqual(new Set(['kind="page"', 'kind="not_found"']));
});

test("a replaced process takes the place of the one that ended, and counts from zero", async () => {
  const lines = () => web.output().split("\n");
  const listening = lines().filter((line) => line.includes("listening on")).length;
  const pid = Number(/process (\d+) runs the scheduled tasks/.exec(web.output())?.[1]);
  process.kill(pid, "SIGKILL");
  await vi.waitUntil(() => lines().filter((line) => line.includes("listening on")).length > listening, patience);
  const starts = seriesOf(await read(), "process_start_time_seconds");
  expect(Object.keys(starts).toSorted()).toEqual(['process="0"', 'process="1"']);
});

test("serves the figures of the deployment, and asks the database once for many scrapes", async () => {
  // On a new stack, the age of the sweep is only known once a server has swept.
  await vi.waitUntil(async () => (await read("/metrics/deployment")).includes("gatehouse_sweep_age_seconds"), patience);
  backend.calls.length = 0;
  const texts = await Promise.all(Array.from({ length: 10 }, () => read("/metrics/deployment")));
  // Each of the two processes asks for itself.
  expect(backend.count(measureCall)).toBeLessThanOrEqual(2);
  const [text = ""] = texts;
  for (const name of deploymentMetricNames) expect(text).toContain(`# TYPE ${name.replace(/_total$/, "")} `);
  expect(seriesOf(text, "gatehouse_usage_age_seconds")[""]).toBeGreaterThan(0);
});

test("answers 503 for the deployment and 200 for the process while the database does not answer", async () => {
  backend.rows = "down";
  await vi.waitUntil(async () => (await visit("/metrics/deployment", authorized)).status === 503, patience);
  expect((await visit("/metrics", authorized)).status).toBe(200);
  backend.rows = "ok";
  await vi.waitUntil(async () => (await visit("/metrics/deployment", authorized)).status === 200, patience);
});

test("logs every line as JSON, with a time, a level and an event", () => {
  const lines = web
    .output()
    .split("\n")
    .filter((line) => line !== "");
  expect(lines.filter((line) => !line.startsWith("{"))).toEqual([]);
  const events = new Set<string>();
  for (const line of lines) {
    const { time, level, event } = JSON.parse(line);
    expect([Number.isNaN(Date.parse(time)), ["info", "warn", "error"].includes(level)]).toEqual([false, true]);
    events.add(event);
  }
  expect([...events].toSorted()).toEqual(expect.arrayContaining(["message", "request"]));
  expect(web.output()).not.toContain(token);
});

test("traces its requests to the collector, by route", async () => {
  await visit("/login?planted=1");
  await vi.waitUntil(() => collected.join("").includes('"GET /login"'), patience);
  expect(collected.join("")).toContain("gatehouse-web");
  for (const secret of ["planted", token]) expect(collected.join("")).not.toContain(secret);
});
