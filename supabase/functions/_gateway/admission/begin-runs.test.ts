import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { GatewayError } from "../http/errors.ts";
import { createBegin } from "./begin-runs.ts";

const call = {
  credential: { source: "key", hash: "00".repeat(32) },
  request_id: "1",
  feature: "chat",
  kind: "chat",
  providers: ["demo"],
  input_bytes: 3,
  output_limit: 1,
} as const;

/** Calls whose answers never come, of which so many looks find nothing decided. */
function open({ undecidedLooks = 0, cause = new Error("gone") }: { undecidedLooks?: number; cause?: Error } = {}) {
  const looks: { at: number; tails: number }[] = [];
  const startedAt = Date.now();
  const begin = createBegin({
    database: {
      beginRun: () => Promise.reject(new GatewayError("service_unavailable", { cause })),
      async giveBackRuns(tails) {
        looks.push({ at: Date.now() - startedAt, tails: tails.length });
        return looks.length <= undecidedLooks ? [...tails] : [];
      },
    },
    waitUntil: () => {},
  });
  return { looks, begin: () => begin({ ...call, providers: [...call.providers] }).catch(() => {}) };
}

describe("a run that may have begun unheard", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test.each([
    { undecidedLooks: 0, times: [250, 750, 1_750] },
    { undecidedLooks: 3, times: [250, 750, 1_750, 4_750] },
    { undecidedLooks: 9, times: [250, 750, 1_750, 4_750, 14_750] },
  ])("is looked for at $times ms, where $undecidedLooks looks find it undecided", async ({ undecidedLooks, times }) => {
    const { begin, looks } = open({ undecidedLooks });
    await begin();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(looks.map(({ at }) => at)).toEqual(times);
  });

  test("is looked for with others of the same moment", async () => {
    const { begin, looks } = open();
    await Promise.all([begin(), begin(), begin()]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(looks.map(({ tails }) => tails)).toEqual([3, 3, 3]);
  });
});
