import { describe, expect, test } from "vitest";
import { describeOutage, describeRouteState } from "./provider-trouble.ts";

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

test("an outage is named with its beginning, and only if there is one", () => {
  expect(describeOutage({ outageSince: "2026-11-30T19:12:10Z" }, now)).toBe("Outage since 19:12 UTC");
  expect(describeOutage({ outageSince: null }, now)).toBeNull();
});
