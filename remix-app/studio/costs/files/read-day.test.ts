import { expect, test } from "vitest";
import { lastDayBefore, pacificDay, readMoment, readUsDay } from "./read-day.ts";

test.each([
  ["2026-10-01", "2026-10-01"],
  ["2026-10-01T00:00:00Z", "2026-10-01"],
  ["2026-10-01T00:00Z", "2026-10-01"],
  ["2026-10-01 23:59:59.999999 UTC", "2026-10-01"],
  ["2026-10-01T23:00:00-02:00", "2026-10-02"],
  ["2026-10-01 00:30:00 +0100", "2026-09-30"],
  ["2026-10-01 00:00:00.000", "2026-10-01"],
  ["2026-02-30", undefined],
  ["2026-10-01T25:00:00Z", undefined],
  ["2026-10-01T00:61:00Z", undefined],
  ["10/01/2026", undefined],
  ["2026-1-1", undefined],
  ["yesterday", undefined],
])("reads %s as the UTC day %s", (text, day) => {
  expect(readMoment(text)?.day).toBe(day);
});

test.each([
  ["09/21/2023", "2023-09-21"],
  ["9/4/2023", "2023-09-04"],
  ["09/21/2023 00:00:00", "2023-09-21"],
  ["2023-09-21", "2023-09-21"],
  ["2023-09-21T00:00:00", "2023-09-21"],
  ["20230921", "2023-09-21"],
  ["21/09/2023", null],
  ["02/30/2023", null],
  ["09-21-2023", null],
])("reads Azure's date %s as the day %s", (text, day) => {
  expect(readUsDay(text)).toBe(day);
});

test("Pacific days begin at 07:00 UTC in summer and at 08:00 UTC in winter", () => {
  const day = (text: string) => {
    const moment = readMoment(text);
    return moment && pacificDay(moment);
  };
  expect(day("2026-10-01T06:59:59Z")).toBe("2026-09-30");
  expect(day("2026-10-01T07:00:00Z")).toBe("2026-10-01");
  expect(day("2026-12-01T07:59:59Z")).toBe("2026-11-30");
  expect(day("2026-12-01T08:00:00Z")).toBe("2026-12-01");
  expect(day("2026-10-01")).toBe("2026-10-01");
});

test("the last day of a time span is the day before its exclusive end", () => {
  const last = (text: string) => {
    const moment = readMoment(text);
    return moment && lastDayBefore(moment);
  };
  expect(last("2026-11-01T00:00:00Z")).toBe("2026-10-31");
  expect(last("2026-10-31T23:59:59Z")).toBe("2026-10-31");
  expect(last("2026-11-01")).toBe("2026-10-31");
});
