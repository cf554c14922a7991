import { expect, test } from "vitest";
import { exactUtcText } from "./utc-time.ts";

test.for([
  ["2026-11-21T04:54:38.450578+00:00", "2026-11-21T04:54:38.450578Z"],
  ["2026-11-21T04:54:38+00:00", "2026-11-21T04:54:38Z"],
  ["2026-11-21T04:54:38.450578Z", "2026-11-21T04:54:38.450578Z"],
  ["2026-11-21T06:54:38.45+02:00", "2026-11-21T04:54:38.450Z"],
])("reads the database time %s as %s", ([text, written]) => {
  expect(exactUtcText.parse(text)).toBe(written);
});

test("rejects text that is not a time", () => {
  for (const text of ["infinity", "2026-11-21", "2026-11-21 04:54:38+00", ""])
    expect(exactUtcText.safeParse(text).success).toBe(false);
});
