import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createExporter } from "./span-exporter.ts";
import { createTrace, newTraceId } from "./spans.ts";

/** The requests that the collector has not answered yet. */
const pending: ServerResponse[] = [];
let received = 0;
const collector = createServer(async (request, response) => {
  const { resourceSpans } = JSON.parse((await request.toArray()).join(""));
  received += resourceSpans[0].scopeSpans[0].spans.length;
  pending.push(response);
});

beforeEach(async () => {
  received = 0;
  pending.length = 0;
  await once(collector.listen(0, "127.0.0.1"), "listening");
});
afterEach(() => {
  collector.closeAllConnections();
  collector.close();
});

function start() {
  const { port } = collector.address() as AddressInfo;
  const settings = { url: `http://127.0.0.1:${port}`, headers: {}, serviceName: "test" };
  return createExporter(settings, { waitUntil: () => {}, report: () => {} });
}

const spans = (count: number) => {
  const trace = createTrace({ traceId: newTraceId(), epochMs: 0 });
  const facts = { name: "GET", kind: "server", hasFailed: false, startedAt: 0, endedAt: 1, attributes: {} } as const;
  return Array.from({ length: count }, () => trace.createSpan(facts));
};

test("drops spans while a slow collector has 4,096 of them, and sends spans again once it has answered", async () => {
  const { add } = start();
  for (let batch = 0; batch < 20; batch += 1) add(spans(512));
  await expect.poll(() => received).toBe(4_096);
  add(spans(512));
  for (const response of pending.splice(0)) response.end();
  await expect
    .poll(() => {
      add(spans(512));
      return received;
    })
    .toBeGreaterThan(4_096);
});

test("a flush also waits for spans that are being sent", async () => {
  const { add, flush } = start();
  add(spans(512));
  await expect.poll(() => pending.length).toBe(1);
  let isDone = false;
  const flushed = flush().then(() => {
    isDone = true;
  });
  await new Promise(setImmediate);
  expect(isDone).toBe(false);
  pending[0]?.end();
  await flushed;
});
