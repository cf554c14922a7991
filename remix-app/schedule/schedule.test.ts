import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { startSchedule } from "./schedule.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function scheduleOf(run: (signal: AbortSignal) => Promise<void>) {
  const lines: string[] = [];
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(line));
  const runs: boolean[] = [];
  const stop = startSchedule({
    tasks: [{ name: "upkeep", intervalMs: 1_000, run }],
    count: ({ hasFailed }) => runs.push(hasFailed),
  });
  return { lines, runs, stop };
}

test("a scheduled task runs at its interval, and never twice concurrently", async () => {
  let finish = () => {};
  const run = vi.fn(() => new Promise<void>((resolve) => (finish = resolve)));
  const { stop } = scheduleOf(run);
  await vi.advanceTimersByTimeAsync(999);
  expect(run).toHaveBeenCalledTimes(0);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(run).toHaveBeenCalledTimes(1);
  finish();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(run).toHaveBeenCalledTimes(2);
  finish();
  await stop();
});

test("an outage of a scheduled task logs one line when it begins and one when it ends", async () => {
  let down = true;
  const { lines, runs, stop } = scheduleOf(async () => {
    if (down) throw new Error("no database");
  });
  await vi.advanceTimersByTimeAsync(60_000);
  down = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(lines).toEqual(["schedule task=upkeep fails: Error: no database", "schedule task=upkeep works again"]);
  expect(runs).toEqual([...Array(60).fill(true), ...Array(60).fill(false)]);
  await stop();
});

test("stopping the schedule waits for the running task, which may have to finish what it has claimed", async () => {
  let finish = () => {};
  const { stop } = scheduleOf(() => new Promise<void>((resolve) => (finish = resolve)));
  await vi.advanceTimersByTimeAsync(1_000);
  const ended = vi.fn();
  const stopped = stop().then(ended);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ended).not.toHaveBeenCalled();
  finish();
  await stopped;
});

test("stopping the schedule aborts the running task without logging, and nothing runs afterwards", async () => {
  const run = vi.fn(
    (signal: AbortSignal) =>
      new Promise<void>((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted")))),
  );
  const { lines, stop } = scheduleOf(run);
  await vi.advanceTimersByTimeAsync(1_000);
  await stop();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(run).toHaveBeenCalledTimes(1);
  expect(lines).toEqual([]);
});
