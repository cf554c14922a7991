import { expect, test } from "vitest";
import { judgeAmounts, leastOfMs } from "./amounts.ts";

const judged = (count: number, { trafficMs = leastOfMs, grows = true } = {}) =>
  judgeAmounts([{ what: "runs", count, least: 60, grows }], trafficMs).ok;

test("an audit check fails if it has seen fewer facts than its minimum", () => {
  expect(judged(60)).toBe(true);
  expect(judged(59)).toBe(false);
  expect(judged(0)).toBe(false);
});

test("an audit check scales its minimum to the length of the run, but only for facts that grow with time", () => {
  expect(judged(120, { trafficMs: 2 * leastOfMs })).toBe(true);
  expect(judged(119, { trafficMs: 2 * leastOfMs })).toBe(false);
  expect(judged(60, { trafficMs: 2 * leastOfMs, grows: false })).toBe(true);
});

test("an audit check fails if it has nothing to judge, even if the run was stopped immediately", () => {
  expect(judged(0, { trafficMs: 1 })).toBe(false);
  expect(judged(1, { trafficMs: 1 })).toBe(true);
});
