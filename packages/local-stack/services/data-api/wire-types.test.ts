import { describe, expect, test } from "vitest";
import { exactJson, exactNumber, isoTimestamp } from "./wire-types.ts";

describe("numbers in Data API responses", () => {
  test.each([
    ["12.50000000", "12.5"],
    ["100", "100"],
    ["0.00000000", "0"],
    ["9007199254740991", "9007199254740991"],
    ["9007199254740993", "9007199254740993"],
    ["0.123456789012345678", "0.123456789012345678"],
    ["-3", "-3"],
    ["NaN", '"NaN"'],
  ])("writes the number %s as JSON %s", (text, json) => {
    expect(JSON.stringify(exactNumber(text))).toBe(json);
  });

  test("exactJson keeps all digits of numbers", () => {
    const text = '{"a":[9007199254740993,1.5,1e3],"b":"9007199254740993"}';
    expect(JSON.stringify(exactJson(text))).toBe('{"a":[9007199254740993,1.5,1000],"b":"9007199254740993"}');
  });
});

describe("timestamps in Data API responses", () => {
  test.each([
    ["2026-11-21 04:54:38.450578+00", "2026-11-21T04:54:38.450578+00:00"],
    ["2026-11-21 04:54:38+05:30", "2026-11-21T04:54:38+05:30"],
    ["2026-11-21 04:54:38", "2026-11-21T04:54:38"],
    ["infinity", "infinity"],
    ["0044-03-15 12:00:00+00 BC", "0044-03-15T12:00:00+00:00 BC"],
  ])("writes the timestamp %s as %s", (text, iso) => {
    expect(isoTimestamp(text)).toBe(iso);
  });
});
