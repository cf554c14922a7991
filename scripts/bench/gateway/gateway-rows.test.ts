import { expect, test } from "vitest";
import { figureText, goalText, verdictOf } from "../report/rows.ts";
import { curveShares } from "../statistics.ts";
import { gatewayRows } from "./gateway-rows.ts";
import type { GatewayMeasurements, ThroughputSample } from "./measurements.ts";

const plan = {
  openLoop: { perSecond: 200, durationMs: 1 },
  workspaces: 1_000,
  streams: { count: 50, staggerMs: 1, warmUp: 1 },
};

/** A curve whose median and p99 are these. */
const curve = (p50: number, p99: number) => curveShares.map((share) => (share < 0.99 ? p50 : p99));
const latency = (p50: number, p99: number) => ({ quantilesMs: curve(p50, p99), sentLateMs: 0.1, failed: 0 });
const load = (perSecond: number, p99: number, cpuMsEach?: number): ThroughputSample => ({
  perSecond,
  quantilesMs: curve(1, p99),
  failed: 0,
  cpuMsEach,
  postgresCpuMsEach: 0.1,
});

const measured: GatewayMeasurements = {
  latency: {
    gatehouse: [latency(1.5, 6), latency(2.5, 9), latency(1.8, 7)],
    bare: [latency(1, 2), latency(2, 3), latency(1, 2)],
  },
  throughput: {
    "16": { gatehouse: [load(4_100, 9)], bare: [load(20_000, 2)] },
    "64": { gatehouse: [load(4_200, 30, 0.2)], bare: [load(20_000, 5)] },
    hot: { gatehouse: [load(1_999, 40)] },
  },
  streams: {},
  leaving: [{ left: 50, cancelled: 50, metered: 49 }],
  books: { runs: 10, cancelled: 1, wrong: 0, unbalanced: 0 },
  rss: [{ atSeconds: 0, bytes: 150 * 2 ** 20 }],
  closedLoopBy: "wrk",
};
const portkey = { "16": [load(4_500, 10)], "64": [load(3_000, 20, 0.5)] };

const rowOf = (given: GatewayMeasurements, id: string, workspaces = plan.workspaces) => {
  const row = gatewayRows(given, { ...plan, workspaces }).find((candidate) => candidate.id === id);
  if (!row) throw new Error(`no row ${id}`);
  return { goal: goalText(row), figure: figureText(row), verdict: verdictOf(row) };
};

test("what is added is the difference within a round, not of medians", () => {
  expect(rowOf(measured, "added-p50")).toEqual({ goal: "≤ 1 ms", figure: "0.50 (0.50–0.80) ms", verdict: "met" });
  expect(rowOf(measured, "added-p99")).toEqual({ goal: "≤ 8 ms", figure: "5.00 (4.00–6.00) ms", verdict: "met" });
});

test("without Portkey what is held against it is not measured, and the rest has its own goals", () => {
  for (const id of ["p99-16", "p99-64", "cpu-ratio"]) expect(rowOf(measured, id).verdict).toBe("not measured");
  expect(rowOf(measured, "rate-16")).toMatchObject({ goal: "≥ 4,000 a second", verdict: "met" });
  expect(rowOf(measured, "rate-hot")).toMatchObject({ goal: "≥ 2,000 a second", verdict: "missed" });
  expect(rowOf(measured, "left-cancelled").verdict).toBe("met");
  expect(rowOf(measured, "left-metered").verdict).toBe("missed");
  expect(rowOf(measured, "memory").verdict).toBe("not measured");
  expect(rowOf(measured, "unbalanced").verdict).toBe("met");
});

test("what has to hold each time is judged by the worst round", () => {
  const round = { left: 50, cancelled: 50, metered: 50 };
  const quantiles = { firstQuantilesMs: curve(1, 1), delayQuantilesMs: curve(1, 1) };
  const stream = { firstMs: [1], ...quantiles, streams: 50, whole: 50, identical: 50 };
  const leaving = [round, { ...round, cancelled: 49 }, round];
  const streams = { gatehouse: [stream, { ...stream, identical: 49 }, stream] };
  const given = { ...measured, leaving, streams };
  expect(rowOf(given, "left-cancelled")).toMatchObject({ figure: "49", verdict: "missed" });
  expect(rowOf(given, "left-metered")).toMatchObject({ figure: "50", verdict: "met" });
  expect(rowOf(given, "identical")).toMatchObject({ figure: "49", verdict: "missed" });
  for (const id of ["left-cancelled", "left-metered", "identical"])
    expect(rowOf({ ...measured, leaving: [] }, id).verdict).toBe("not measured");
});

test("beside Portkey ours has to be ahead of it, too", () => {
  const { throughput } = measured;
  const both = {
    ...measured,
    throughput: {
      "16": { ...throughput["16"], portkey: portkey["16"] },
      "64": { ...throughput["64"], portkey: portkey["64"] },
      hot: throughput.hot,
    },
  };
  expect(rowOf(both, "rate-16")).toMatchObject({ goal: "≥ 4,500 a second", verdict: "missed" });
  expect(rowOf(both, "rate-64")).toMatchObject({ goal: "≥ 4,000 a second", verdict: "met" });
  expect(rowOf(both, "p99-16")).toMatchObject({ goal: "≤ 10 ms", verdict: "met" });
  expect(rowOf(both, "p99-64")).toMatchObject({ goal: "≤ 20 ms", verdict: "missed" });
  expect(rowOf(both, "cpu-ratio")).toEqual({ goal: "≥ 2 ×", figure: "2.50 ×", verdict: "met" });
});

test("a load that does not count is no sample", () => {
  const none = { ...latency(1, 1), quantilesMs: [] };
  const failed = { ...load(Number.NaN, 1), quantilesMs: [] };
  const partly = {
    ...measured,
    latency: { ...measured.latency, gatehouse: [none, latency(2.5, 9), none] },
    throughput: { "16": { gatehouse: [failed, load(4_100, 9)] }, "64": { gatehouse: [failed] }, hot: {} },
  };
  expect(rowOf(partly, "added-p50").figure).toBe("0.50 ms");
  expect(rowOf(partly, "rate-16").figure).toBe("4,100 a second");
  expect(rowOf(partly, "rate-64").verdict).toBe("not measured");
});

test("memory of minutes is never within the goal of half an hour, and beyond it at once", () => {
  const most = (megabytes: number) => ({ ...measured, rss: [{ atSeconds: 0, bytes: megabytes * 2 ** 20 }] });
  expect(rowOf(most(200), "memory").verdict).toBe("not measured");
  expect(rowOf(most(201), "memory").verdict).toBe("missed");
});

test("rates over fewer workspaces than the goal's are no rates of the goal", () => {
  expect(rowOf(measured, "rate-16", 999).verdict).toBe("not measured");
  expect(rowOf(measured, "rate-16", 1_000).verdict).toBe("met");
  expect(rowOf(measured, "rate-hot", 999).verdict).toBe("missed");
});

test("what failed is in the tail: of ours it misses the goal, and beside an upstream that failed nothing is added", () => {
  const failed = { ...latency(1.5, Number.POSITIVE_INFINITY), failed: 20 };
  const beside = (gatehouse: typeof failed, bare: typeof failed) => ({
    ...measured,
    latency: { gatehouse: [gatehouse], bare: [bare] },
  });
  expect(rowOf(beside(failed, latency(1, 2)), "added-p99")).toMatchObject({ figure: "∞ ms", verdict: "missed" });
  expect(rowOf(beside(failed, latency(1, 2)), "added-p50").verdict).toBe("met");
  expect(rowOf(beside(latency(1.5, 6), failed), "added-p99").verdict).toBe("not measured");
});

test("a round in which the upstream alone was held up says nothing of us", () => {
  const rounds = (...bare: number[]) => ({
    ...measured,
    latency: { gatehouse: bare.map(() => latency(1.5, 6)), bare: bare.map((p99) => latency(1, p99)) },
  });
  expect(rowOf(rounds(8), "added-p99").verdict).toBe("not measured");
  expect(rowOf(rounds(8, 5, 5), "added-p99").figure).toBe("1.00 ms");
});

test("a chunk's delay is judged by its tail", () => {
  const stream = (p50: number, p99: number) => ({
    firstMs: [1],
    firstQuantilesMs: curve(1, 1),
    delayQuantilesMs: curve(p50, p99),
    streams: 50,
    whole: 50,
    identical: 50,
  });
  const delayed = (p99: number) => ({
    ...measured,
    streams: { gatehouse: [stream(0.5, p99)], bare: [stream(0.25, 1)] },
  });
  expect(rowOf(delayed(2), "chunk-delay")).toMatchObject({ figure: "1.00 ms", verdict: "met" });
  expect(rowOf(delayed(2.25), "chunk-delay").verdict).toBe("missed");
});

test("errors that wrk has timed as answers are told of", () => {
  const slow = { ...load(4_100, 9), failed: 3 };
  const notes = gatewayRows({ ...measured, throughput: { "16": { gatehouse: [slow] } } }, plan).map(({ note }) => note);
  expect(notes).toContainEqual(expect.stringContaining("3 errors, in the quantiles by wrk"));
});
