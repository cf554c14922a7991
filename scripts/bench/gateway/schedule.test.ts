import { expect, test } from "vitest";
import { createSchedule } from "./schedule.ts";

test("a benchmark schedule makes each request due exactly once, at its scheduled time", () => {
  const { count, dueMs, takeDue } = createSchedule({ perSecond: 200, durationMs: 25 });
  expect(count).toBe(5);
  expect([0, 1, 4].map(dueMs)).toEqual([0, 5, 20]);
  expect(takeDue(0)).toEqual([0]);
  expect(takeDue(4.9)).toEqual([]);
  expect(takeDue(5)).toEqual([1]);
  expect(takeDue(5)).toEqual([]);
});

test("after a stall, a benchmark schedule sends all overdue requests immediately and keeps their original due times", () => {
  const { dueMs, takeDue } = createSchedule({ perSecond: 200, durationMs: 1_000 });
  takeDue(0);
  const late = takeDue(50);
  expect(late).toHaveLength(10);
  expect(late.map((index) => 50 - dueMs(index))).toEqual([45, 40, 35, 30, 25, 20, 15, 10, 5, 0]);
  expect(takeDue(10_000)).toHaveLength(189);
  expect(takeDue(20_000)).toEqual([]);
});
