import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createSchedule, type ScheduledTask } from "./schedule.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Returns the lines that are logged from now on. */
function readLog(): string[] {
  const lines: string[] = [];
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(line));
  return lines;
}

function scheduleOf(run: (signal: AbortSignal) => Promise<void>) {
  const lines = readLog();
  const runs: boolean[] = [];
  const schedule = createSchedule({
    tasks: [{ name: "upkeep", intervalMs: 1_000, run }],
    count: ({ hasFailed }) => runs.push(hasFailed),
  });
  schedule.start();
  return { lines, runs, ...schedule };
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

describe("runOnce", () => {
  test("concurrent calls share a task's run with each other and with the loop", async () => {
    let finish = () => {};
    const run = vi.fn(() => new Promise<void>((resolve) => (finish = resolve)));
    const { runOnce, stop } = scheduleOf(run);
    await vi.advanceTimersByTimeAsync(1_000);
    const answers = Promise.all([runOnce(AbortSignal.timeout(5_000)), runOnce(AbortSignal.timeout(5_000))]);
    await vi.advanceTimersByTimeAsync(1_000);
    finish();
    expect(await answers).toEqual(Array(2).fill({ completed: ["upkeep"], failed: [] }));
    expect(run).toHaveBeenCalledTimes(1);
    await stop();
  });

  test("names the tasks that failed, also by its time limit, and logs them", async () => {
    vi.useRealTimers();
    const lines = readLog();
    const waits = (signal: AbortSignal) =>
      new Promise<void>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const tasks: ScheduledTask[] = [
      { name: "works", intervalMs: 1_000, run: async () => {} },
      { name: "breaks", intervalMs: 1_000, run: () => Promise.reject(new Error("no database")) },
      { name: "waits", intervalMs: 1_000, run: waits },
    ];
    const { runOnce } = createSchedule({ tasks });
    expect(await runOnce(AbortSignal.timeout(1))).toEqual({ completed: ["works"], failed: ["breaks", "waits"] });
    expect(lines).toEqual([
      "schedule task=breaks fails: Error: no database",
      expect.stringMatching(/^schedule task=waits fails: TimeoutError/),
    ]);
  });

  test("waits for the work that a run leaves in the background", async () => {
    let isDelivered = false;
    const delivery = Promise.withResolvers<void>();
    const tasks = [{ name: "send", intervalMs: 1_000, run: async () => {}, settle: () => delivery.promise }];
    const answer = createSchedule({ tasks }).runOnce(AbortSignal.timeout(5_000));
    void answer.then(() => expect(isDelivered).toBe(true));
    await vi.advanceTimersByTimeAsync(10);
    isDelivered = true;
    delivery.resolve();
    expect(await answer).toEqual({ completed: ["send"], failed: [] });
  });

  test("stopping the schedule aborts a call's run and waits for it and its work in the background, without the loop", async () => {
    const lines = readLog();
    const [run, delivery] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const signals: AbortSignal[] = [];
    const { runOnce, stop } = createSchedule({
      tasks: [
        {
          name: "send",
          intervalMs: 1_000,
          run(signal) {
            signals.push(signal);
            return run.promise;
          },
          settle: () => delivery.promise,
        },
      ],
    });
    const answer = runOnce(AbortSignal.timeout(5_000));
    const ended = vi.fn();
    const stopped = stop().then(ended);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    run.resolve();
    await vi.advanceTimersByTimeAsync(10);
    expect(ended).not.toHaveBeenCalled();
    delivery.resolve();
    await Promise.all([stopped, answer]);
    expect(await runOnce(AbortSignal.timeout(5_000))).toEqual({ completed: [], failed: ["send"] });
    expect([signals.length, lines]).toEqual([1, []]);
  });
});
