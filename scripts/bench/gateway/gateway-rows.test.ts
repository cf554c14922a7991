import { expect, test } from "vitest";
import { figureText, goalText, verdictOf } from "../report/rows.ts";
import { curveShares } from "../statistics.ts";
import { gatewayRows, targetTable } from "./gateway-rows.ts";
import type { GatewayMeasurements, ThroughputSample } from "./measurements.ts";

const curve = (p50: number, p99: number) => curveShares.map((share) => (share < 0.99 ? p50 : p99));
const latency = (p50: number) => ({ quantilesMs: curve(p50, 9), sentLateMs: 0.1, failed: 0 });
const stream = (firstMs: number, identical = 50) => ({ firstMs: [firstMs], streams: 50, identical });
const load = (perSecond: number, p99: number, cpu: [number, number]): ThroughputSample => ({
  perSecond,
  quantilesMs: curve(1, p99),
  failed: 0,
  gatewayCpuMs: cpu[0],
  postgresCpuMs: cpu[1],
});
const notCounted = { ...load(Number.NaN, 1, [0, 0]), quantilesMs: [], gatewayCpuMs: undefined };

const measured: GatewayMeasurements = {
  latency: {
    gatehouse: [latency(4), latency(5), latency(4.5)],
    floor: [latency(2), latency(4), latency(2)],
    bare: [latency(1), latency(3), latency(1)],
  },
  throughput: {
    16: {
      gatehouse: [load(1_200, 10, [0.25, 0.25])],
      portkey: [load(1_000, 10, [0.6, 0])],
      litellm: [load(120, 90, [9, 0])],
    },
    64: {
      gatehouse: [notCounted, load(2_800, 31, [0.2, 0.2])],
      portkey: [load(1, 1, [1, 0]), load(2_000, 30, [0.4, 0])],
    },
  },
  streams: { gatehouse: [stream(6, 49), stream(6)], portkey: [stream(16), stream(16)], bare: [stream(1), stream(1)] },
  books: { runs: 10, wrong: 0, unbalanced: 1 },
};

function rowOf(id: string, given: GatewayMeasurements = measured) {
  const row = gatewayRows(given).find((candidate) => candidate.id === id);
  if (!row) throw new Error(`no row ${id}`);
  return { goal: goalText(row), figure: figureText(row), verdict: verdictOf(row) };
}

test("compares benchmark targets within the same round", () => {
  expect(rowOf("rate-16")).toEqual({ goal: "≥ 1.20 ×", figure: "1.20 ×", verdict: "met" });
  expect(rowOf("p99-16")).toEqual({ goal: "≤ 1 ×", figure: "1.00 ×", verdict: "met" });
  expect(rowOf("cpu-16")).toEqual({ goal: "≥ 1.20 ×", figure: "1.20 ×", verdict: "met" });
  expect(rowOf("litellm-16")).toEqual({ goal: "≥ 10 ×", figure: "10.0 ×", verdict: "met" });
  expect(rowOf("p99-64").verdict).toBe("missed");
});

test("excludes an invalid load from the benchmark figures that use it, and keeps the other loads of the same round", () => {
  expect(rowOf("rate-64")).toEqual({ goal: "≥ 1.40 ×", figure: "1.40 ×", verdict: "met" });
  expect(rowOf("cpu-64").figure).toBe("1.00 ×");
});

test("computes benchmark ratios from the latency that each target adds to the upstream's own time", () => {
  expect(rowOf("added-p50")).toEqual({ goal: "≤ 3 ×", figure: "3.00 (2.00–3.50) ×", verdict: "met" });
  expect(rowOf("first-token")).toEqual({ goal: "≤ 0.33 ×", figure: "0.33 ×", verdict: "met" });
});

test("excludes a benchmark round whose upstream was slower than the gateway", () => {
  const slow = { ...measured, latency: { ...measured.latency, bare: [latency(9), latency(3), latency(1)] } };
  expect(rowOf("added-p50", slow).figure).toBe("2.00 (2.00–3.50) ×");
});

test("a benchmark goal that compares with a peer gateway is unmeasured if that gateway did not run", () => {
  const alone = { ...measured, throughput: { 16: { gatehouse: [load(9, 9, [1, 1])] } }, streams: {} };
  for (const id of ["rate-16", "p99-16", "cpu-16", "litellm-16", "first-token", "identical"])
    expect(rowOf(id, alone).verdict).toBe("not measured");
});

test("a benchmark goal is missed if a stream's contents differ or a workspace's ledger does not balance", () => {
  expect(rowOf("identical")).toMatchObject({ figure: "1", verdict: "missed" });
  expect(rowOf("unbalanced")).toMatchObject({ figure: "1", verdict: "missed" });
  expect(rowOf("wrong-counts")).toMatchObject({ figure: "0", verdict: "met" });
});

test("the table of benchmark targets has a column for each target that ran", () => {
  const [head, , rate] = targetTable(measured, { perSecond: 200 }).split("\n");
  expect(
    head
      ?.split("|")
      .map((cell) => cell.trim())
      .slice(2, -1),
  ).toEqual(["Gatehouse", expect.stringContaining("Portkey"), expect.stringContaining("LiteLLM")]);
  expect(rate).toMatch(/16: a second +\| 1,200 +\| 1,000 +\| 120 /);
});
