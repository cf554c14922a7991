import { describe, expect, test } from "vitest";
import { describeCallers, describeOutage, describeRouteState } from "./provider-trouble.ts";

const now = new Date("2026-11-30T19:18:30Z");
const none = { since: null, skippedUntil: null, now };

describe("the words for a route's state", () => {
  test.for([
    [
      { state: "skipped", since: "2026-11-30T19:12:10Z", skippedUntil: "2026-11-30T19:18:55.4Z" },
      "Skipped until 19:18:55 UTC",
    ],
    [{ state: "skipped", since: null, skippedUntil: "2026-12-01T00:00:05Z" }, "Skipped until 1 Dec 2026, 00:00:05 UTC"],
    [{ state: "failing", since: "2026-11-30T19:12:10Z" }, "Failing since 19:12 UTC"],
    [{ state: "failing", since: "2026-11-29T23:59:59Z" }, "Failing since 29 Nov 2026, 23:59 UTC"],
    [{ state: "working" }, "Working"],
    [{ state: "quiet" }, "No recent calls"],
    [{ state: "quiet", failedAt: "2026-11-30T18:18:30.001Z" }, "No recent answer"],
    [{ state: "quiet", failedAt: "2026-11-30T18:18:30Z" }, "No recent calls"],
  ] as const)("%o is “%s”", ([route, words]) => {
    expect(describeRouteState({ ...none, ...route })).toBe(words);
  });
});

describe("the words for what callers got", () => {
  test.for([
    [
      { calls: 412, answeredElsewhere: 398, failed: [{ status: 503, code: "upstream_error", calls: 14 }] },
      "412 calls: 398 answered by another route, 14 got 503 upstream_error",
    ],
    [{ calls: 1, answeredElsewhere: 1, failed: [] }, "1 call: 1 answered by another route"],
    [
      { calls: 2, answeredElsewhere: 0, failed: [{ status: null, code: "cancelled", calls: 2 }] },
      "2 calls: 2 got cancelled",
    ],
    [{ calls: 0, answeredElsewhere: 0, failed: [] }, "No ended call has failed there since then."],
  ])("%o is “%s”", ([callers, words]) => {
    expect(describeCallers(callers as Parameters<typeof describeCallers>[0])).toBe(words);
  });
});

test("an outage is named with its beginning, and only if there is one", () => {
  expect(describeOutage({ outageSince: "2026-11-30T19:12:10Z" }, now)).toBe("Outage since 19:12 UTC");
  expect(describeOutage({ outageSince: null }, now)).toBeNull();
});
