import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Run } from "../database/database.ts";
import { createOpenRuns } from "./open-runs.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const run = (id: string) => ({ run_id: id, created_at: "2026-01-01T00:00:00Z" }) as Run;

function collect() {
  const touched: object[][] = [];
  const openRuns = createOpenRuns({
    heartbeat: async (counts) => {
      touched.push([...counts]);
    },
    waitUntil: () => {},
  });
  return { openRuns, touched };
}

describe("Open runs", () => {
  test("open runs are saved together every 15 seconds with their current counts, until they end", async () => {
    const { openRuns, touched } = collect();
    const counts = { input_tokens: 1, output_tokens: 0, cost_usd: "0" };
    const release = openRuns.track(run("a"), () => counts);
    const releaseOther = openRuns.track(run("b"), () => ({ input_tokens: 9, output_tokens: 9, cost_usd: "0" }));
    await vi.advanceTimersByTimeAsync(14_999);
    expect(touched).toEqual([]);
    counts.output_tokens = 7;
    releaseOther();
    await vi.advanceTimersByTimeAsync(1);
    expect(touched).toEqual([
      [{ created_at: "2026-01-01T00:00:00Z", id: "a", input_tokens: 1, output_tokens: 7, cost_usd: "0" }],
    ]);
    release();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(touched).toHaveLength(1);
    expect(vi.getTimerCount()).toBe(0);
  });
});
