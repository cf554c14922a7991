import { expect, test } from "vitest";
import { commonTimeZones, readTimeZone } from "./time-zone.ts";

test.each([
  ["Europe/Berlin", "Europe/Berlin"],
  [" europe/berlin ", "Europe/Berlin"],
  ["utc", "UTC"],
  ["asia/kolkata", "Asia/Kolkata"],
  ["Europe/Kyiv", "Europe/Kyiv"],
  ["europe/kyiv", "Europe/Kyiv"],
  ["america/port-au-prince", "America/Port-au-Prince"],
  ["AMERICA/NEW_YORK", "America/New_York"],
  ["+01:00", null],
  ["Berlin", null],
  ["Europe/Berlin; drop", null],
  ["", null],
])("the time zone %j is read as %j", (typed, name) => {
  expect(readTimeZone(typed)).toBe(name);
});

test("proposed time zones are read as they are", () => {
  expect(commonTimeZones.map(readTimeZone)).toEqual(commonTimeZones);
});
