import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createBatchQueue } from "../database/batch-queue.ts";
import { GatewayError } from "../http/errors.ts";
import { createRunStarter } from "./begin-runs.ts";

const waitMs = 20_000;
const call = {
  credential: { source: "key" as const, hash: "00".repeat(32) },
  request_id: "1",
  feature: "chat",
  kind: "chat" as const,
  providers: ["demo"],
  regions: {},
  input_bytes: 3,
  output_limit: 1,
};

/**
 * Simulates a database that never answers the request to begin a run, and records each later lookup of the run.
 * @param options.unansweredLooks how many of the first lookups fail
 * @param options.undecidedLooks how many of the following lookups leave the run undecided
 * @param options.givenUpAtMs when the request to begin a run fails, in milliseconds from the start
 */
function open({ undecidedLooks = 0, unansweredLooks = 0, givenUpAtMs = 0 } = {}) {
  const looks: { at: number; tails: readonly string[]; askedMsAgo: number }[] = [];
  const startedAt = performance.now();
  let last = "";
  const begin = createRunStarter({
    database: {
      beginRun: async ({ run_id_suffix = "" }) => {
        last = run_id_suffix;
        const leftMs = givenUpAtMs - (performance.now() - startedAt);
        if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs));
        throw new GatewayError("service_unavailable", { cause: new Error("gone") });
      },
      async releaseOrphanedRuns(tails, askedMsAgo) {
        looks.push({ at: performance.now() - startedAt, tails, askedMsAgo });
        if (looks.length <= unansweredLooks) throw new GatewayError("service_unavailable");
        return looks.length <= unansweredLooks + undecidedLooks ? [...tails] : [];
      },
    },
    waitUntil: () => {},
  });
  return {
    looks,
    /** Returns the suffix of the run's id. */
    begin: async () => {
      await begin(call).catch(() => {});
      return last;
    },
  };
}

describe("Runs whose begin request was not answered", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(async () => {
    // Lets all time limits expire, because the files of a worker share their timer.
    await vi.runAllTimersAsync();
    vi.useRealTimers();
  });

  test.each([
    { undecidedLooks: 0, times: [250, 750, 1_750, 4_750] },
    { undecidedLooks: 3, times: [250, 750, 1_750, 4_750] },
    { undecidedLooks: 4, times: [250, 750, 1_750, 4_750, 14_750] },
    { undecidedLooks: 9, times: [250, 750, 1_750, 4_750, 14_750, 24_750, 34_750, 44_750, 54_750] },
  ])(
    "looks up an undecided run at $times ms if its first $undecidedLooks lookups bring no decision",
    async ({ undecidedLooks, times }) => {
      const { begin, looks } = open({ undecidedLooks });
      await begin();
      await vi.advanceTimersByTimeAsync(100_000);
      expect(looks.map(({ at }) => Math.round(at))).toEqual(times);
    },
  );

  test("looks up runs with undecided admission in batches of at most 100 if they are due at the same time", async () => {
    const { begin, looks } = open();
    await Promise.all(Array.from({ length: 250 }, begin));
    await vi.advanceTimersByTimeAsync(300);
    expect(looks.map(({ tails }) => tails.length)).toEqual([100, 100, 50]);
  });

  test("runs whose admission is undecided are looked up in one query that reaches back to the earliest request", async () => {
    const { begin, looks } = open({ givenUpAtMs: 1_500 });
    const first = begin();
    await vi.advanceTimersByTimeAsync(100);
    const second = begin();
    await vi.advanceTimersByTimeAsync(1_700);
    await Promise.all([first, second]);
    expect(looks.map(({ tails, askedMsAgo }) => [tails.length, Math.round(askedMsAgo)])).toEqual([[2, 1_750]]);
  });

  test("looks up the run of an unanswered begin call within 300 ms, even after thousands of lookups found no run", async () => {
    const { begin, looks } = open();
    await Promise.all(Array.from({ length: 3_000 }, begin));
    await vi.advanceTimersByTimeAsync(2_000);
    const at = looks.length;
    const tail = await begin();
    await vi.advanceTimersByTimeAsync(300);
    expect(looks.slice(at).flatMap(({ tails }) => tails)).toEqual([tail]);
  });

  test("the run of an unanswered begin call is looked up every second until the database answers, and then at the usual intervals", async () => {
    const { begin, looks } = open({ unansweredLooks: 3 });
    await begin();
    await vi.advanceTimersByTimeAsync(100_000);
    expect(looks.map(({ at }) => Math.round(at))).toEqual([250, 1_250, 2_250, 3_250, 3_750, 4_750, 7_750]);
  });

  test("releases a run that begins long after its call was refused, because its batch waited for a connection", async () => {
    const startedRuns: string[] = [];
    const released: string[] = [];
    const queue = createBatchQueue<string, never>({
      async send(tails) {
        await new Promise((resolve) => setTimeout(resolve, waitMs + 10_000));
        startedRuns.push(...tails);
        throw new GatewayError("service_unavailable", { cause: new Error("gone") });
      },
      laneOf: (tail) => tail,
      maxBatch: 1,
      maxBatches: 1,
      waitMs,
    });
    const waits: Promise<unknown>[] = [];
    const begin = createRunStarter({
      database: {
        beginRun: ({ run_id_suffix = "" }) => queue.ask(run_id_suffix),
        async releaseOrphanedRuns(tails) {
          released.push(...tails.filter((tail) => startedRuns.includes(tail)));
          return [];
        },
      },
      waitUntil: (work) => void waits.push(work),
    });
    const refused = begin(call).catch((error: GatewayError) => error.code);
    await vi.advanceTimersByTimeAsync(waitMs + 100);
    expect(await refused).toBe("service_unavailable");
    await vi.advanceTimersByTimeAsync(10_500);
    expect(startedRuns).toHaveLength(1);
    expect(released).toEqual(startedRuns);
    await vi.advanceTimersByTimeAsync(10_000);
    await Promise.all(waits);
  });

  test("lookups of the run of an unanswered begin call stop after a minute without an answer from the database", async () => {
    const { begin, looks } = open({ unansweredLooks: 1_000 });
    await begin();
    await vi.advanceTimersByTimeAsync(200_000);
    expect(looks).toHaveLength(60);
    await begin();
    await vi.advanceTimersByTimeAsync(300);
    expect(looks).toHaveLength(61);
  });
});
