import { expect, test } from "vitest";
import { judgeAmounts, leastOfMs } from "./amounts.ts";

const judged = (count: number, { trafficMs = leastOfMs, grows = true } = {}) =>
  judgeAmounts([{ what: "runs", count, least: 60, grows }], trafficMs).ok;

test("too little to judge fails, at the least and just below it", () => {
  expect(judged(60)).toBe(true);
  expect(judged(59)).toBe(false);
  expect(judged(0)).toBe(false);
});

test("of a longer run more is needed, of what does not grow the same", () => {
  expect(judged(120, { trafficMs: 2 * leastOfMs })).toBe(true);
  expect(judged(119, { trafficMs: 2 * leastOfMs })).toBe(false);
  expect(judged(60, { trafficMs: 2 * leastOfMs, grows: false })).toBe(true);
});

test("of a run that is ended at once something is needed still", () => {
  expect(judged(0, { trafficMs: 1 })).toBe(false);
  expect(judged(1, { trafficMs: 1 })).toBe(true);
});
