import { expect, test } from "vitest";
import { daysOfMonth, monthWindow, readFileMonth, readMonth, shiftMonth } from "./month.ts";

const read = (search: string, now: string) => readMonth(new URL(`https://x.example/${search}`), { now: new Date(now) });

test("reads the month from the URL, and defaults to the last full month", () => {
  expect(read("?month=2026-01", "2026-11-28T00:00:00Z")).toEqual({ month: "2026-01", current: "2026-11", fault: null });
  expect(read("", "2026-11-30T23:59:59Z").month).toBe("2026-10");
  expect(read("?month=", "2026-01-01T00:00:00Z")).toEqual({ month: "2025-12", current: "2026-01", fault: null });
});

test("a page can default to the current month", () => {
  const options = { now: new Date("2026-11-30T23:59:59Z"), byDefault: "current" } as const;
  expect(readMonth(new URL("https://x.example/"), options).month).toBe("2026-11");
  expect(readMonth(new URL("https://x.example/?month=2026-01"), options).month).toBe("2026-01");
  expect(readMonth(new URL("https://x.example/?month=x"), options)).toMatchObject({
    month: "2026-11",
    fault: expect.stringContaining("YYYY-MM"),
  });
});

test("an invalid month in the URL shows an error on pages, and returns 400 for files", () => {
  for (const wrong of ["2026-13", "2026-00", "1999-12", "3000-01", "2026-1", "2026-01-01", "last"]) {
    expect(read(`?month=${wrong}`, "2026-11-28T00:00:00Z")).toMatchObject({
      month: "2026-10",
      fault: expect.stringContaining("YYYY-MM"),
    });
    const request = new Request(`https://x.example/file.csv?month=${wrong}`);
    expect(() => readFileMonth(request, { requestId: "req" })).toThrow(expect.objectContaining({ status: 400 }));
  }
  for (const right of ["2000-01", "2999-12"]) expect(read(`?month=${right}`, "2026-11-28T00:00:00Z").fault).toBeNull();
});

test("shifts a month across the end of a year, and returns a month's first and last day", () => {
  expect([shiftMonth("2026-12", 1), shiftMonth("2026-01", -1)]).toEqual(["2027-01", "2025-12"]);
  expect(monthWindow("2026-12")).toEqual({ from: "2026-12-01T00:00:00.000Z", to: "2027-01-01T00:00:00.000Z" });
  expect(daysOfMonth("2024-02")).toEqual({ first: "2024-02-01", last: "2024-02-29" });
  expect(daysOfMonth("2026-12")).toEqual({ first: "2026-12-01", last: "2026-12-31" });
});
