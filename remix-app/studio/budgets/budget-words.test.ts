import { expect, test } from "vitest";
import { resetWords, savedWords, settingsWords, timeUntil } from "./budget-words.ts";

const window = { startsAt: "2026-01-01T00:00:00Z" };

test.each([
  ["a day in UTC", "day", "UTC", "2026-12-01T00:00:00Z", "2026-11-30T19:00:00Z", "resets 00:00 UTC (in 5 h)"],
  [
    "a day of a zone",
    "day",
    "Europe/Berlin",
    "2026-11-30T23:00:00Z",
    "2026-11-30T18:00:00Z",
    "resets 00:00 Europe/Berlin (in 5 h)",
  ],
  [
    "a day of 25 hours, when clocks go back",
    "day",
    "Europe/Berlin",
    "2026-10-25T23:00:00Z",
    "2026-10-24T22:00:00Z",
    "resets 00:00 Europe/Berlin (in 25 h)",
  ],
  [
    "a day of 23 hours, when clocks go forward",
    "day",
    "America/New_York",
    "2026-03-09T04:00:00Z",
    "2026-03-08T05:00:00Z",
    "resets 00:00 America/New_York (in 23 h)",
  ],
  [
    "a day whose next midnight is skipped",
    "day",
    "Africa/Cairo",
    "2026-04-23T22:00:00Z",
    "2026-04-23T21:30:00Z",
    "resets 01:00 Africa/Cairo (in 30 min)",
  ],
  [
    "a week in a zone with half an hour",
    "week",
    "Asia/Kolkata",
    "2026-12-06T18:30:00Z",
    "2026-11-30T18:30:00Z",
    "resets 7 Dec 2026, 00:00 Asia/Kolkata (in 6 days)",
  ],
  [
    "a month beyond UTC's",
    "month",
    "Pacific/Kiritimati",
    "2026-11-30T10:00:00Z",
    "2026-11-30T09:59:30Z",
    "resets 1 Dec 2026, 00:00 Pacific/Kiritimati (in 1 min)",
  ],
  [
    "a zone that this runtime doesn't know",
    "day",
    "Mars/Olympus",
    "2026-12-01T03:00:00Z",
    "2026-12-01T00:00:00Z",
    "resets 03:00 UTC (in 3 h)",
  ],
] as const)("the reset of %s is described in its time zone", (_, period, timeZone, endsAt, now, words) => {
  expect(resetWords({ ...window, period, timeZone, endsAt }, new Date(now))).toBe(words);
});

test("budgets without a window have no reset", () => {
  expect(resetWords({ period: "total", timeZone: "UTC", startsAt: null, endsAt: null }, new Date())).toBeNull();
});

test.each([
  [-1, "now"],
  [0, "now"],
  [1, "in 1 min"],
  [59 * 60_000, "in 59 min"],
  [59 * 60_000 + 1, "in 1 h"],
  [47 * 3_600_000, "in 47 h"],
  [48 * 3_600_000, "in 2 days"],
  [30 * 86_400_000, "in 30 days"],
])("a reset in %d ms is %s", (ms, words) => {
  const now = new Date("2026-11-30T00:00:00Z");
  expect(timeUntil(new Date(now.getTime() + ms).toISOString(), now)).toBe(words);
});

const saved = { name: "CI", hasOthers: false };

test.each([
  [{ period: "month", budget: { limitUsd: "12.5", maxCalls: null } }, "Budget saved: $12.50 per month for CI."],
  [{ period: "day", budget: { limitUsd: "1", maxCalls: null } }, "Budget saved: $1.00 per day for CI."],
  [{ period: "total", budget: { limitUsd: "1", maxCalls: null } }, "Budget saved: $1.00 in total for CI."],
  [{ period: "concurrent", budget: { limitUsd: null, maxCalls: 1 } }, "Limit saved: 1 concurrent call for CI."],
  [{ period: "month", budget: null }, "CI no longer has a budget."],
  [{ period: "month", budget: null, hasOthers: true }, "CI no longer has a monthly budget."],
  [{ period: "concurrent", budget: null }, "CI no longer has a limit of concurrent calls."],
] as const)("a saved budget %j is confirmed as %s", (changes, words) => {
  expect(savedWords({ ...saved, ...changes })).toBe(words);
});

const stored = { limitUsd: "5", maxCalls: null, timeZone: "UTC", thresholds: [50, 80, 100], reservesExpected: false };

test.each([
  [{}, "it is $5.00 now"],
  [{ timeZone: "Asia/Tokyo", thresholds: [90] }, "it is $5.00 in Asia/Tokyo with warnings at 90% now"],
  [{ reservesExpected: true }, "it is $5.00, and reserves less for streamed requests, now"],
  [{ thresholds: [] }, "it is $5.00 with no warnings now"],
  [{ limitUsd: null }, "it was removed"],
  [{ limitUsd: null, maxCalls: 3 }, "it is 3 calls now"],
])("settings %j that replaced what the form showed are described as %s", (changes, words) => {
  expect(settingsWords("day", { ...stored, ...changes })).toBe(words);
});
