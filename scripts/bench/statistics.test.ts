import { expect, test } from "vitest";
import { curveShares, quantile, quantilesOf, saturate, spread } from "./statistics.ts";

test("a quantile is the smallest value that the given share of the sample does not exceed", () => {
  const sample = [5, 1, 4, 2, 3];
  expect(quantile(sample, 0)).toBe(1);
  expect(quantile(sample, 0.5)).toBe(3);
  expect(quantile(sample, 0.8)).toBe(4);
  expect(quantile(sample, 0.81)).toBe(5);
  expect(quantile(sample, 1)).toBe(5);
  expect(quantile([7], 0.99)).toBe(7);
});

test("a failed request has infinite latency", () => {
  const p99 = (failed: number) =>
    quantilesOf(new Array<number>(100 - failed).fill(5), failed)[curveShares.indexOf(0.99)];
  expect(p99(1)).toBe(5);
  expect(p99(2)).toBe(Number.POSITIVE_INFINITY);
  expect(quantilesOf([], 1)).toEqual(curveShares.map(() => Number.POSITIVE_INFINITY));
  expect(quantilesOf([])).toEqual([]);
});

test("a spread is the median with the lowest and the highest value", () => {
  expect(spread([3, 1, 2], 1)).toBe("2.0 (1.0–3.0)");
});

test("saturate keeps the given number of calls running, starts none after the end time, and counts every started call", async () => {
  let [running, most, calls] = [0, 0, 0];
  const { perSecond, latenciesMs } = await saturate({
    concurrency: 4,
    durationMs: 100,
    work: async () => {
      running += 1;
      calls += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 10));
      running -= 1;
    },
  });
  expect(most).toBe(4);
  expect(running).toBe(0);
  expect(latenciesMs).toHaveLength(calls);
  expect(perSecond).toBeGreaterThan(0);
  expect(perSecond).toBeLessThanOrEqual(calls / 0.1);
});
