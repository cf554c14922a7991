import { describe, expect, it } from "vitest";
import { periodOf, rangeDays, rangeFileName, rangeStatus, readRange, searchWith } from "./range.ts";

const now = new Date("2026-03-31T23:59:59.999Z");
const read = (search: string, at = now) => readRange(new URL(`https://a.test/x${search}`), { now: at });

describe("readRange", () => {
  it.each([
    ["?range=7d", "2026-03-25", "2026-04-01"],
    ["?range=30d", "2026-03-02", "2026-04-01"],
    ["?range=90d", "2026-01-01", "2026-04-01"],
    ["?range=365d", "2025-04-01", "2026-04-01"],
    ["?range=month", "2026-03-01", "2026-04-01"],
    ["?range=last-month", "2026-02-01", "2026-03-01"],
    ["?from=2026-02-28&to=2026-02-28", "2026-02-28", "2026-03-01"],
    ["", "2026-03-02", "2026-04-01"],
  ])("the range %s is half-open and consists of whole days", (search, from, to) => {
    const range = read(search);
    expect([range.from, range.to, range.fault]).toEqual([`${from}T00:00:00.000Z`, `${to}T00:00:00.000Z`, null]);
  });

  it.each([
    ["?range=7d", "2026-03-18", "2026-03-25"],
    ["?range=last-month", "2026-01-01", "2026-02-01"],
    // The range has 31 days. February is shorter, so the comparison covers all of February.
    ["?range=month", "2026-02-01", "2026-03-01"],
    ["?from=2026-02-10&to=2026-02-11", "2026-02-08", "2026-02-10"],
  ])("the range %s is compared with the range right before it", (search, from, to) => {
    expect(read(search).previous).toEqual({ from: `${from}T00:00:00.000Z`, to: `${to}T00:00:00.000Z` });
  });

  it("the current month so far is compared with the same days of the previous month", () => {
    const { from, to, previous } = read("?range=month", new Date("2026-03-05T00:00:00Z"));
    expect(rangeDays({ from, to })).toEqual({ first: "2026-03-01", last: "2026-03-05" });
    expect(rangeDays(previous)).toEqual({ first: "2026-02-01", last: "2026-02-05" });
  });

  it.each(["?range=nonsense", "?range=all", "?range=7D&from=2026-01-01&to=2026-01-02"])(
    "rejects the range %s",
    (search) => {
      const range = read(search);
      expect(range).toMatchObject({ preset: "30d", fault: "The range in the URL isn’t valid." });
      expect([rangeStatus(range), rangeStatus(read("")), rangeStatus(null)].map(({ status }) => status)).toEqual([
        400, 200, 200,
      ]);
    },
  );

  it("a file name contains the days of its range, or today's date without a range", () => {
    expect(rangeFileName("runs", read("?range=month"))).toBe("runs-2026-03-01-2026-03-31");
    expect(rangeFileName("runs", null)).toBe(`runs-until-${new Date().toISOString().slice(0, 10)}`);
  });

  it("a range has at most 365 days", () => {
    expect(read("?from=2025-04-01&to=2026-03-31")).toMatchObject({ preset: "custom", fault: null });
    expect(read("?from=2025-03-31&to=2026-03-31")).toMatchObject({
      preset: "30d",
      fault: "A range can have at most 365 days.",
    });
  });

  it.each(["?from=2000-01-01&to=2000-01-01", "?from=2999-12-31&to=2999-12-31"])("accepts the range %s", (search) => {
    expect(read(search)).toMatchObject({ preset: "custom", fault: null });
  });

  it.each(["1999-12-31", "3000-01-01", "0001-01-01", "9999-12-31"])("a range rejects years such as %s", (day) => {
    expect(read(`?from=${day}&to=${day}`)).toMatchObject({
      preset: "30d",
      fault: "Enter days from 2000 to 2999.",
    });
  });

  it.each(["?from=2026-01-02&to=2026-01-01", "?from=2026-01-02", "?to=2026-01-02", "?from=x&to=2026-01-01"])(
    "reports what is wrong with the range %s, and shows the default range",
    (search) => {
      const range = read(search);
      expect(range.fault).toEqual(expect.any(String));
      expect(range.preset).toBe("30d");
    },
  );
});

describe("periodOf", () => {
  it.each([
    ["the day before today", "2026-03-30", 1, "2026-03-30", false],
    ["today", "2026-03-31", 1, "2026-03-31", true],
    ["the week that the range's end cuts off", "2026-03-30", 7, "2026-03-31", true],
    ["a past week", "2026-03-16", 7, "2026-03-22", false],
  ])("%s ends, and is in progress or not", (_, first, days, last, isInProgress) => {
    expect(periodOf(read("?range=30d"), { first, days })).toEqual({ first, last, isInProgress });
  });

  it("a day after today is not in progress", () => {
    const range = read("?from=2026-03-31&to=2026-04-02");
    expect(periodOf(range, { first: "2026-04-01", days: 1 }).isInProgress).toBe(false);
  });
});

describe("searchWith", () => {
  it("searchWith changes the given parameters, keeps the rest, and resets the list to its first page", () => {
    expect(searchWith("?by=model&cursor=x&providers=y&from=a", { range: "7d", from: "" })).toBe("?by=model&range=7d");
  });
});
