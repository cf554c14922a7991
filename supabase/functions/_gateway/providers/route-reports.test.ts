import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { RouteReport } from "../database/database.ts";
import { createRouteReports, type RouteReports } from "./route-reports.ts";

const route = "openai gpt-5 mini chat";
const failed = { failure: "server_error", status: 500, cooldownMs: 0 } as const;

let batches: (readonly RouteReport[])[];
let background: Promise<unknown>[];
let errors: unknown[];
let record: (reports: readonly RouteReport[]) => Promise<void>;
let reports: RouteReports;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  batches = [];
  background = [];
  errors = [];
  record = async () => {};
  reports = createRouteReports({
    async record(batch) {
      batches.push(batch);
      await record(batch);
    },
    now: () => performance.now(),
    waitUntil: (work) => background.push(work),
    report: (error) => errors.push(error),
  });
});
afterEach(() => vi.useRealTimers());

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("When a process reports its routes", () => {
  test("sends a failure after a second, and only once", async () => {
    reports.note(route, failed);
    await pass(999);
    expect(batches).toEqual([]);
    await pass(1);
    expect(batches).toEqual([
      [
        {
          provider: "openai",
          model: "gpt-5 mini",
          endpoint: "chat",
          failing_ms_ago: 1_000,
          failed_ms_ago: 1_000,
          failures: 1,
          failure: "server_error",
          status: 500,
        },
      ],
    ]);
    await pass(60_000);
    await reports.flush();
    expect(batches).toHaveLength(1);
  });

  test("counts each failure in one report, and states the first and the last", async () => {
    reports.note(route, failed);
    await pass(500);
    reports.note(route, { failure: "rate_limited", status: 429, cooldownMs: 30_000 });
    await pass(500);
    reports.note(route, failed);
    await pass(1_000);
    expect(batches).toMatchObject([
      [{ failures: 2, failing_ms_ago: 1_000, failed_ms_ago: 500, failure: "rate_limited", cooldown_ms: 29_500 }],
      [{ failures: 1, failing_ms_ago: 2_000, failed_ms_ago: 1_000, failure: "server_error", cooldown_ms: 28_500 }],
    ]);
  });

  test("sends answers every ten seconds, however many there are", async () => {
    for (let second = 0; second < 25; second += 1) {
      reports.note(route, "answered");
      await pass(1_000);
    }
    expect(batches.map(([report]) => report?.answered_ms_ago)).toEqual([1_000, 1_000]);
  });

  test("sends the answer that ends failures after a second", async () => {
    reports.note(route, failed);
    await pass(1_000);
    reports.note(route, "answered");
    await pass(1_000);
    expect(batches[1]).toMatchObject([{ answered_ms_ago: 1_000, failed_ms_ago: 2_000, failures: 0 }]);
    expect(batches[1]?.[0]?.failing_ms_ago).toBeUndefined();
  });

  test("states which cooldown an answer has ended, if the cooldown was sent", async () => {
    const limited = { failure: "rate_limited", status: 429, cooldownMs: 30_000 } as const;
    reports.note(route, limited);
    reports.note(route, "answered");
    await pass(1_000);
    reports.note(route, limited);
    await pass(1_000);
    reports.note(route, "answered");
    await pass(1_000);
    reports.note(route, failed);
    await pass(1_000);
    expect(batches.map(([report]) => [report?.failing_ms_ago, report?.cooldown_ms])).toEqual([
      [undefined, undefined],
      [1_000, 29_000],
      [undefined, 28_000],
      [1_000, undefined],
    ]);
  });

  test("sends a waiting answer with a failure of another route", async () => {
    reports.note(route, "answered");
    reports.note("eu gpt-5 responses", failed);
    await pass(1_000);
    expect(batches.map((batch) => batch.map(({ provider }) => provider))).toEqual([["openai", "eu"]]);
    await pass(60_000);
    expect(batches).toHaveLength(1);
  });

  test("flushes what waits, and nothing after it", async () => {
    reports.note(route, "answered");
    await reports.flush();
    expect(batches).toHaveLength(1);
    await pass(60_000);
    await reports.flush();
    expect(batches).toHaveLength(1);
  });

  test("sends a failed report again without its failures, which may have been counted, and reports one error", async () => {
    record = () => Promise.reject(new Error("down"));
    reports.note(route, failed);
    await pass(1_000);
    await pass(10_000);
    expect(errors).toHaveLength(1);
    record = async () => {};
    reports.note(route, failed);
    await pass(1_000);
    expect(batches.map(([report]) => [report?.failures, report?.failing_ms_ago])).toEqual([
      [1, 1_000],
      [0, 11_000],
      [1, 12_000],
    ]);
    await pass(60_000);
    expect(batches).toHaveLength(3);
  });

  test("sends one batch at a time", async () => {
    let answer = () => {};
    record = () => new Promise<void>((resolve) => (answer = resolve));
    reports.note(route, failed);
    await pass(1_000);
    reports.note(route, failed);
    await pass(5_000);
    expect(batches).toHaveLength(1);
    answer();
    await pass(0);
    expect(batches).toHaveLength(2);
    answer();
    await Promise.all(background);
  });

  test.for([
    [1_000, 1_000],
    [1_001, 1_000],
  ])("reports at most 1,000 routes together: %i", async ([routes = 0, sent]) => {
    for (let n = 0; n < routes; n += 1) reports.note(`openai m${n} chat`, failed);
    await reports.flush();
    expect(batches[0]).toHaveLength(sent ?? 0);
    reports.note("openai next chat", failed);
    await reports.flush();
    expect(batches[1]).toHaveLength(1);
  });
});
