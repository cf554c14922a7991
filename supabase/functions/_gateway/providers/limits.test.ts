import { describe, expect, test } from "vitest";
import { maxCallSeconds } from "../../_shared/longest-call.ts";
import { timeLimitsOf } from "./limits.ts";

describe("All time limits follow from the longest call", () => {
  test("allows ten minutes of silence and an hour in all, and hosted Supabase's 150 s and 400 s there", () => {
    expect(timeLimitsOf({ isHosted: false })).toMatchObject({
      firstByteMs: 600_000,
      idleMs: 600_000,
      totalMs: 3_600_000,
      wholeAnswerMs: 3_600_000,
    });
    expect(timeLimitsOf({ isHosted: true })).toMatchObject({
      firstByteMs: 400_000,
      idleMs: 400_000,
      totalMs: 400_000,
      wholeAnswerMs: 140_000,
    });
  });

  test.for(
    [1, 70, 599, 601, maxCallSeconds].flatMap((totalSeconds) =>
      [true, false].map((isHosted) => ({ totalSeconds, isHosted })),
    ),
  )("no limit exceeds the longest call, and silence is within it: %j", (options) => {
    const { totalMs, firstByteMs, idleMs, wholeAnswerMs, endMs } = timeLimitsOf(options);
    expect(totalMs).toBe(Math.min(options.totalSeconds * 1_000, options.isHosted ? 400_000 : Number.POSITIVE_INFINITY));
    expect([firstByteMs, idleMs]).toEqual([Math.min(600_000, totalMs), Math.min(600_000, totalMs)]);
    for (const each of [wholeAnswerMs, endMs]) expect(each).toBeLessThanOrEqual(totalMs);
  });

  // AWS ALB, Google Cloud's and nginx's defaults are 60 s or less to wait for a response and between two parts of it.
  test.for([true, false])("clients and load balancers hear from a call well within 60 s (hosted: %s)", (isHosted) => {
    const { beginMs, keepaliveMs } = timeLimitsOf({ isHosted });
    expect(beginMs).toBe(20_000);
    expect(keepaliveMs).toBe(15_000);
  });
});
