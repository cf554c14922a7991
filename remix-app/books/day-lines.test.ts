import { expect, test } from "vitest";
import { countDays, dayLines } from "./day-lines.ts";

const figures = (day: number, accountId: string | null, meteredUsd: string, importedUsd = "0") => ({
  day: `2026-10-${String(day).padStart(2, "0")}`,
  accountId,
  meteredUsd,
  importedUsd,
});

test("a day has one line for the provider with its accounts below, and days count once", () => {
  const days = [figures(1, "a", "0.1", "0.3"), figures(1, "b", "0.2"), figures(2, "b", "1", "0.5")];
  const { lines, total } = dayLines(days);
  expect(lines.map((line) => [line.of, line.day, line.accountId, line.meteredUsd, line.differenceUsd])).toEqual([
    ["day", "2026-10-01", undefined, "0.3", "0"],
    ["account", "2026-10-01", "a", "0.1", "0.2"],
    ["account", "2026-10-01", "b", "0.2", "-0.2"],
    ["day", "2026-10-02", "b", "1", "-0.5"],
  ]);
  expect(total).toMatchObject({ meteredUsd: "1.3", importedUsd: "0.8", differenceUsd: "-0.5" });
  expect(countDays(days)).toBe("2 days in 2 accounts");
  expect(countDays(days.slice(2))).toBe("1 day");
});

test.for([
  [150, true],
  [152, false],
] as const)("with %i accounts' lines in a month, the page lists them: %s", ([count, hasAccounts]) => {
  const days = Array.from({ length: count }, (_, at) => figures(1 + (at % 2), `a-${at}`, "1"));
  const answer = dayLines(days);
  expect(answer.hasAccounts).toBe(hasAccounts);
  expect(answer.lines).toHaveLength(2 + (hasAccounts ? count : 0));
  expect(answer.total?.meteredUsd).toBe(String(count));
});
