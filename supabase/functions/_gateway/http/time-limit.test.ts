import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { startTimeLimit } from "./time-limit.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.runOnlyPendingTimers();
  vi.useRealTimers();
});

test("a time limit expires only once, never early, and soon after its time", () => {
  const fall = vi.fn();
  startTimeLimit(1_000, fall);
  vi.advanceTimersByTime(999);
  expect(fall).not.toHaveBeenCalled();
  vi.advanceTimersByTime(26);
  expect(fall).toHaveBeenCalledOnce();
  vi.advanceTimersByTime(10_000);
  expect(fall).toHaveBeenCalledOnce();
});

test("a restarted time limit expires at its new time, however often it was restarted", () => {
  const fall = vi.fn();
  const limit = startTimeLimit(100, fall);
  for (let turn = 0; turn < 50; turn++) {
    vi.advanceTimersByTime(90);
    limit.restart(100);
  }
  expect(fall).not.toHaveBeenCalled();
  limit.restart(Number.POSITIVE_INFINITY);
  vi.advanceTimersByTime(100_000);
  expect(fall).not.toHaveBeenCalled();
  limit.restart(40);
  vi.advanceTimersByTime(65);
  expect(fall).toHaveBeenCalledOnce();
});

test("a time limit that was ended early never fires and leaves no timer behind", () => {
  const fall = vi.fn();
  const limits = Array.from({ length: 1_000 }, (_, n) => startTimeLimit(50 + n, fall));
  expect(vi.getTimerCount()).toBe(1);
  for (const { end } of limits) end();
  vi.advanceTimersByTime(25);
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(10_000);
  expect(fall).not.toHaveBeenCalled();
});

test("the callback of a time limit can end other limits and start new ones", () => {
  const told: string[] = [];
  const other = startTimeLimit(60, () => told.push("other"));
  startTimeLimit(50, () => {
    told.push("first");
    other.end();
    startTimeLimit(100, () => told.push("second"));
  });
  vi.advanceTimersByTime(80);
  expect(told).toEqual(["first"]);
  vi.advanceTimersByTime(120);
  expect(told).toEqual(["first", "second"]);
});

test("a time limit whose callback throws does not stop other limits from expiring", () => {
  const fall = vi.fn();
  startTimeLimit(50, () => {
    throw new Error("of this limit alone");
  });
  startTimeLimit(50, fall);
  expect(() => vi.advanceTimersByTime(80)).toThrow("of this limit alone");
  vi.advanceTimersByTime(50);
  expect(fall).toHaveBeenCalledOnce();
});
