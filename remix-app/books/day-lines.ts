import { addAmounts } from "#shared/decimal.ts";
import { subtractAmounts } from "../studio/costs/difference.ts";
import { countOf } from "../ui/format-amount.ts";
import type { DayFigures } from "./platform-month.ts";

/** The maximum number of accounts' lines, so that the page stays small. */
const maxAccountLines = 150;

/** A line of a provider's days: the provider's day, one of its accounts on a day, or the month's total. */
export interface DayLine {
  of: "day" | "account" | "month";
  day: string;
  /** Undefined for a line of several accounts, and null for figures without an account. */
  accountId?: string | null;
  meteredUsd: string;
  importedUsd: string;
  differenceUsd: string;
}

/**
 * Returns one line for each day, followed by its accounts if the day has several, and the total of all days. Omits the
 * accounts if there are too many.
 */
export function dayLines(days: readonly DayFigures[]): {
  lines: DayLine[];
  total: DayLine | null;
  hasAccounts: boolean;
} {
  const byDay = Map.groupBy(days, ({ day }) => day);
  const accountLines = [...byDay.values()].reduce((sum, rows) => sum + (rows.length > 1 ? rows.length : 0), 0);
  const hasAccounts = accountLines <= maxAccountLines;
  const hasSeveral = new Set(days.map(({ accountId }) => accountId)).size > 1;
  const lines = [...byDay].flatMap(([day, rows]): DayLine[] => {
    const [only, ...others] = rows;
    const single = only && others.length === 0 && hasSeveral ? { accountId: only.accountId } : {};
    const accounts = others.length > 0 && hasAccounts ? rows : [];
    return [
      { of: "day", day, ...single, ...sumFigures(rows) },
      ...accounts.map((row): DayLine => ({ of: "account", day, accountId: row.accountId, ...sumFigures([row]) })),
    ];
  });
  const total: DayLine | null = days.length > 0 ? { of: "month", day: "", ...sumFigures(days) } : null;
  return { lines, total, hasAccounts };
}

/** Counts days and accounts, such as "29 days in 2 accounts". */
export function countDays(days: readonly DayFigures[]): string {
  const [dates, accounts] = [new Set(days.map(({ day }) => day)), new Set(days.map(({ accountId }) => accountId))];
  return `${countOf(dates.size, "day")}${accounts.size > 1 ? ` in ${countOf(accounts.size, "account")}` : ""}`;
}

function sumFigures(rows: readonly DayFigures[]): Pick<DayLine, "meteredUsd" | "importedUsd" | "differenceUsd"> {
  const meteredUsd = rows.map((row) => row.meteredUsd).reduce(addAmounts, "0");
  const importedUsd = rows.map((row) => row.importedUsd).reduce(addAmounts, "0");
  return { meteredUsd, importedUsd, differenceUsd: subtractAmounts(importedUsd, meteredUsd) };
}
