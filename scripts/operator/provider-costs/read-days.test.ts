import { describe, expect, test } from "vitest";
import { type CostPage, dayOfMidnight, readDays, sumUsd } from "./read-days.ts";

const range = { account: "proj_app", from: "2026-01-01", to: "2026-01-05" };
const now = new Date("2026-02-01T00:00:00Z");
type Scripted = Partial<Omit<CostPage, "days">> & { days?: Record<string, string | undefined> | [string, string][] };

/**
 * Reads scripted pages, repeating the last one. @returns the results of the pages, the number of pages read, and any
 * error
 */
async function read(pages: Scripted[]) {
  let asked = 0;
  const through: string[] = [];
  const days: string[] = [];
  const disputed: string[] = [];
  const readPage = async (): Promise<CostPage> => {
    const { days: scripted = {}, ...page } = pages[Math.min(asked++, pages.length - 1)] ?? {};
    const entries = Array.isArray(scripted) ? scripted : Object.entries(scripted);
    return {
      days: entries.map(([day, amountUsd]) => ({ day: `2026-01-0${day}`, amountUsd })),
      hasMore: false,
      next: undefined,
      now,
      ...page,
    };
  };
  try {
    for await (const page of readDays({ name: "OpenAI", readPage }, range)) {
      through.push(page.through.slice(-2));
      days.push(...page.days.map(({ day }) => day.slice(-1)));
      disputed.push(...page.disputed);
    }
    return { through, days, disputed, asked };
  } catch (error) {
    return { through, days, disputed, asked, error: (error as Error).message };
  }
}

// OpenAI's pages contain `has_more` and `next_page`, which is null on the last page (API reference, Costs). Anthropic's
// pages contain the same two fields (Get Cost Report).
describe("Pages of daily costs", () => {
  const first = { days: { 1: "1", 2: "2" }, hasMore: true, next: "page_2" };
  const second = { days: { 3: "3", 4: "4" } };

  test("each page of daily costs extends the import through the page's last day", async () => {
    expect(await read([first, second])).toEqual({
      through: ["03", "05"],
      days: ["1", "2", "3", "4"],
      disputed: [],
      asked: 2,
    });
  });

  test.for([
    ["missing", undefined],
    ["null", null],
    ["empty", ""],
  ] as const)(
    "if a page promises more days with a %s cursor, the import keeps the days it has read and reports an error",
    async ([, next]) => {
      expect(await read([{ ...first, next }])).toMatchObject({
        through: ["03"],
        days: ["1", "2"],
        error: "OpenAI says that there are more days and names no page. Try again later.",
      });
    },
  );

  test("a page that repeats a cursor, immediately or in a cycle, ends the import", async () => {
    const error = "OpenAI answered the same page twice. Try again later.";
    expect(await read([first, first])).toMatchObject({ asked: 2, error });
    const cycle = [first, { ...second, hasMore: true, next: "page_3" }, { hasMore: true, next: "page_2" }];
    expect(await read(cycle)).toMatchObject({ asked: 3, error });
  });

  test("the import follows a page's next cursor while requested days are missing, even if hasMore is false", async () => {
    expect(await read([{ ...first, hasMore: false }, second])).toMatchObject({ asked: 2, through: ["03", "05"] });
    expect(await read([{ days: { 1: "1", 2: "2", 3: "3", 4: "4" }, next: "page_2" }])).toMatchObject({ asked: 1 });
  });

  test("a page with fewer days than requested advances the import no further than its last day", async () => {
    expect(await read([{ days: { 1: "1" } }])).toEqual({ through: ["02"], days: ["1"], disputed: [], asked: 1 });
    expect(await read([{}])).toEqual({ through: ["01"], days: [], disputed: [], asked: 1 });
  });

  test("an import does not advance on an empty page, and continues with the next page", async () => {
    expect(await read([first, { hasMore: true, next: "page_3" }, second])).toMatchObject({
      through: ["03", "03", "05"],
      asked: 3,
    });
  });
});

describe("days read from pages of daily costs", () => {
  test("an import does not advance past a missing day until a later page contains that day", async () => {
    const pages = [{ days: { 1: "1", 3: "3", 4: "4" }, hasMore: true, next: "a" }, { days: { 2: undefined } }];
    expect(await read(pages)).toMatchObject({ through: ["02", "05"], days: ["1", "3", "4", "2"] });
  });

  test("a day returned twice counts once, and is reported as disputed if the amounts differ", async () => {
    const days: [string, string][] = [
      ["1", "1"],
      ["1", "1"],
      ["2", "2"],
      ["2", "3"],
    ];
    const pages = [{ days, hasMore: true, next: "a" }, { days: { 1: "1", 3: "3" } }];
    expect(await read(pages)).toMatchObject({ days: ["1", "2", "3"], disputed: ["2026-01-02"] });
  });

  test("ignores days outside the requested range", async () => {
    expect(await read([{ days: { 1: "1", 2: "2", 3: "3", 4: "4", 5: "5", 9: "9" } }])).toMatchObject({
      through: ["05"],
      days: ["1", "2", "3", "4"],
    });
  });

  test("days are not imported until they have ended by the provider's clock, even if our clock is ahead", async () => {
    const days = { 1: "1", 2: "2", 3: undefined, 4: undefined };
    expect(await read([{ days, now: new Date("2026-01-03T23:59:59Z") }])).toMatchObject({ through: ["03"] });
    expect(await read([{ days, now: new Date("2026-01-04T00:00:00Z") }])).toMatchObject({ through: ["04"] });
  });

  test("days begin at midnight in UTC", () => {
    expect(dayOfMidnight(Date.parse("2026-01-02T00:00:00Z"))).toBe("2026-01-02");
    expect(() => dayOfMidnight(Date.parse("2026-01-02T08:00:00Z"))).toThrow(RangeError);
  });
});

describe("sums of daily costs", () => {
  const usd = (...values: string[]) => values.map((value) => ({ value, currency: "USD" }));
  const of = (name: string) => ({ name, account: "account" });

  test("adds a day's amounts exactly", () => {
    expect(sumUsd(usd("0.1", "0.2"), of("OpenAI"))).toBe("0.3");
    expect(sumUsd(usd("0.13080438340307526"), of("OpenAI"))).toBe("0.13080438340307526");
    // Anthropic reports amounts in the currency's lowest unit, so "123.45" in USD means 123.45 cents (Get Cost Report,
    // amount).
    expect(sumUsd(usd("123.45", "0.0000000001"), { ...of("Anthropic"), unitUsd: "0.01" })).toBe("1.234500000001");
    expect(() => sumUsd(usd("1,5"), of("OpenAI"))).toThrow("OpenAI states 1,5 as a cost, which is not an amount.");
  });
});
