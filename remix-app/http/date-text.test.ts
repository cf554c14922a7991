import { expect, test } from "vitest";
import { formatDateTime, formatDay, formatExactDateTime, monthText } from "./date-text.ts";

test("writes a time in UTC, with its zone", () => {
  const at = "2026-09-08T23:05:09.987-01:00";
  expect([formatDay(at), formatDateTime(at), formatExactDateTime(at), monthText(at)]).toEqual([
    "9 Sep 2026",
    "9 Sep 2026, 00:05 UTC",
    "9 Sep 2026, 00:05:09 UTC",
    "September 2026",
  ]);
});

test("formats a date that has no time without shifting it to another day", () => {
  expect([formatDay("2026-02-28"), monthText("2026-02-01")]).toEqual(["28 Feb 2026", "February 2026"]);
});
