import { expect, test } from "vitest";
import type { GatewayMeasurements } from "../gateway/measurements.ts";
import { curveShares } from "../statistics.ts";
import { gatewayFigures } from "./figures.ts";
import { renderPage } from "./page.ts";
import { linearScale, logScale } from "./scale.ts";

const pixels = { from: 100, to: 0 };

test("a linear axis begins at zero and ends at a round mark that holds all", () => {
  const { at, marks } = linearScale([3_900, 120], pixels);
  expect(marks).toEqual([0, 1_000, 2_000, 3_000, 4_000]);
  expect([0, 2_000, 4_000].map(at)).toEqual([100, 50, 0]);
  expect(linearScale([0.07], pixels).marks.at(-1)).toBeGreaterThanOrEqual(0.07);
  expect(linearScale([], pixels).marks.length).toBeGreaterThan(1);
});

test("an axis by magnitude goes from a power of ten to another, and holds what is not positive at its foot", () => {
  const { at, marks } = logScale([0.2, 30], pixels);
  expect(marks).toEqual([0.1, 1, 10, 100]);
  expect([0.1, 100, 0, -1].map((value) => Math.round(at(value)))).toEqual([100, 0, 100, 100]);
});

const quantilesMs = curveShares.map((_, index) => index + 0.5);
const throughput = { perSecond: 900, quantilesMs, failed: 0, cpuMsEach: 0.5, postgresCpuMsEach: 0.2 };
const measured: GatewayMeasurements = {
  latency: {
    gatehouse: [{ quantilesMs, sentLateMs: 0.1, failed: 0 }],
    bare: [{ quantilesMs, sentLateMs: 0, failed: 0 }],
  },
  throughput: { "16": { gatehouse: [throughput], portkey: [throughput] }, hot: { gatehouse: [throughput] } },
  streams: {},
  leaving: [],
  rss: [
    { atSeconds: 0, bytes: 100 * 2 ** 20 },
    { atSeconds: 5, bytes: 150 * 2 ** 20 },
  ],
  closedLoopBy: "autocannon",
};

test("there is a plot, and a table of the same figures, for what was measured alone", () => {
  const figures = gatewayFigures(measured, { perSecond: 200 });
  expect(figures.map(({ title }) => title)).toEqual([
    "Latency at 200 requests a second",
    "Requests a second",
    "Requests a CPU-second of the gateway's process",
    "Memory of the functions",
  ]);
  expect(figures[1]?.lines).toEqual([
    ["16 connections", "Gatehouse", "900", "900", "900", "4,000"],
    ["16 connections", "Portkey", "900", "900", "900", "4,000"],
    ["one hot workspace", "Gatehouse", "900", "900", "900", "2,000"],
  ]);
  for (const { plot } of figures) expect(plot).not.toMatch(/NaN|Infinity|undefined/);
});

test("the page stands alone, and shows what it was given as text", () => {
  const html = renderPage({
    machine: {
      takenAt: "2026-11-22T00:00:00.000Z",
      commit: "abc1234",
      changed: false,
      cpus: "2 × <b>CPU</b>",
      memoryGb: 8,
      kernel: "6",
      loadBefore: 0.1,
      versions: { node: "24" },
    },
    rows: [{ id: "x", what: "a & b", goal: { atMost: 1 }, unit: "ms", digits: 1, samples: [2] }],
    figures: gatewayFigures(measured, { perSecond: 200 }),
    complaints: ["<script>"],
  });
  expect(html).toContain("2 × &lt;b&gt;CPU&lt;/b&gt;");
  expect(html).toContain("a &amp; b");
  expect(html).not.toMatch(/<script|<link|https?:|src=/);
  expect(html).toContain("0 goals met, 1 missed, 0 not measured");
  expect(html.length).toBeLessThan(20_000);
});
