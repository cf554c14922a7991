import { expect, test } from "vitest";
import { labelRows, type UsageSums } from "./overview.ts";
import { compareFigures, compareRowMetric } from "./overview-metric.ts";

test.each([
  [110, 100, { direction: "up", text: "10%" }],
  [109.9, 100, { direction: "up", text: "9.9%" }],
  ["50.5", "101", { direction: "down", text: "50%" }],
  [0, 5, { direction: "down", text: "100%" }],
  [109.96, 100, { direction: "up", text: "10%" }],
  [1_099, 100, { direction: "up", text: "999%" }],
  [1_100, 100, { direction: "up", text: "over 10 times" }],
  [100_001, 100_000, { direction: "up", text: "under 0.1%" }],
  [7, 7, { direction: "same", text: "0%" }],
  [7, 0, { direction: "up", text: "none before" }],
  [0, 0, null],
  [null, 3, null],
  [3, null, null],
])("a figure of %s after a figure of %s has the change %o", (now, before, change) => {
  expect(compareFigures(now, before)).toEqual(change);
});

test("a row's change is computed from the selected metric, not always from spend", () => {
  const sums = (amountUsd: string, inputTokens: number, latencyP95Ms: number | null) =>
    ({ amountUsd, inputTokens, outputTokens: 0, latencyP95Ms }) as UsageSums;
  const row = { now: sums("86", 97, 400), before: sums("100", 100, 200) };
  expect(compareRowMetric(row, "spend")).toEqual({ direction: "down", text: "14%" });
  expect(compareRowMetric(row, "tokens")).toEqual({ direction: "down", text: "3.0%" });
  expect(compareRowMetric(row, "latency")).toEqual({ direction: "up", text: "100%" });
  expect(compareRowMetric({ ...row, before: null }, "tokens")).toEqual({ direction: "up", text: "none before" });
  expect(compareRowMetric({ ...row, before: null }, "latency")).toBeNull();
});

test("rows with the same name have labels that tell them apart", () => {
  const rows = [
    { key: "a0000000-0000-4000-8000-0000001b2c3d", name: "Former member" },
    { key: "a0000000-0000-4000-8000-0000009f8e7d", name: "Former member" },
    { key: "b0000000-0000-4000-8000-000000000000", name: "Ada" },
    { key: "", name: null },
  ];
  expect(labelRows(rows, "member")).toEqual(["Former member (1b2c3d)", "Former member (9f8e7d)", "Ada", "No member"]);
});
