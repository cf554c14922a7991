import { type MonthChoice, monthWindow, readMonth } from "../studio/costs/month.ts";
import { type Range, rangeFileName, readRange } from "../studio/range.ts";
import type { Book } from "./book.ts";

/** The period of a list of costs: a month in the platform's book, and a range of days in a workspace's. */
export type CostPeriod = { from: string; to: string; fault: string | null } & (
  | { month: MonthChoice }
  | { range: Range }
);

/** Reads the period from a URL. If it is invalid, returns the default period and what is wrong. */
export function readCostPeriod(book: Book, url: URL): CostPeriod {
  const now = new Date();
  if (book.isPlatform) {
    const month = readMonth(url, { now });
    return { month, ...monthWindow(month.month), fault: month.fault };
  }
  const range = readRange(url, { now });
  const { from, to, fault } = range;
  return { range, from, to, fault };
}

/** Returns the name of a file of a period's costs. */
export function costFileName(period: CostPeriod): string {
  return "month" in period ? `platform-costs-${period.month.month}` : rangeFileName("costs", period.range);
}
