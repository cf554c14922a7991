import { freePort } from "@gatehousehq/local-stack/ports";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readUpstream, startUpstream } from "../upstream/upstream.ts";
import type { Call } from "./call.ts";
import { runClosedLoop, runOpenLoop, runStreams } from "./load.ts";
import type { ServiceProcess } from "./service-process.ts";

const { signal } = new AbortController();
let upstream: ServiceProcess;
let call: Call;

beforeAll(async () => {
  upstream = await startUpstream(await freePort());
  call = { url: `${upstream.url}/v1/chat/completions`, headers: {}, authorizations: ["Bearer a", "Bearer b"] };
});
afterAll(() => upstream.stop());

const answered = async () => (await readUpstream(upstream)).answered;

test("an open-loop load sends requests at the given rate and counts only requests sent after the warm-up", async () => {
  const before = await answered();
  const load = await runOpenLoop({ call, perSecond: 100, warmUpMs: 100, durationMs: 300 }, signal);
  expect((await answered()) - before).toBe(40);
  expect(load).toMatchObject({ failed: 0 });
  expect(load.latenciesMs).toHaveLength(30);
  expect(Math.min(...load.latenciesMs)).toBeGreaterThan(0);
});

test("an open loop reports refused requests as failures, not as answers", async () => {
  const wrong = { ...call, url: `${upstream.url}/elsewhere` };
  const load = await runOpenLoop({ call: wrong, perSecond: 100, warmUpMs: 0, durationMs: 50 }, signal);
  expect(load).toMatchObject({ failed: 5, latenciesMs: [] });
  expect(load.firstFailure).toContain("404");
});

test("a closed-loop load counts no more requests than the upstream answered", async () => {
  const before = await answered();
  const load = await runClosedLoop({ call, connections: 2, warmUpMs: 100, durationMs: 300 }, signal);
  expect(load.failed).toBe(0);
  expect(load.answered).toBeGreaterThan(load.perSecond * 0.3 - 1);
  expect(load.answeredInAll).toBeGreaterThan(load.answered);
  expect(load.answeredInAll).toBeLessThanOrEqual((await answered()) - before);
});

test("a closed-loop load counts failed requests in the measured time only, and gives them infinite latency", async () => {
  const wrong = { ...call, url: `${upstream.url}/elsewhere` };
  const load = await runClosedLoop({ call: wrong, connections: 1, warmUpMs: 200, durationMs: 200 }, signal);
  expect(load).toMatchObject({ answered: 0, answeredInAll: 0, perSecond: 0 });
  expect(load.failed).toBeGreaterThan(0);
  expect(load.quantilesMs).toContain(Number.POSITIVE_INFINITY);
});

test("the streaming load receives whole streams whose hashes match what the upstream sent", async () => {
  const names = ["stream-0", "stream-1"];
  const { streams } = await runStreams({ call, names, staggerMs: 5 }, signal);
  const sent = (await readUpstream(upstream)).streams;
  for (const { name, whole, sha256, firstMs } of streams) {
    expect({ whole, sha256 }).toEqual({ whole: true, sha256: sent[name]?.sha256 });
    expect(firstMs).toBeGreaterThan(0);
  }
});
