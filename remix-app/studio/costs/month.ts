import { requireValidRange } from "../range.ts";

/** The UTC month that a page is about, as YYYY-MM. */
export interface MonthChoice {
  month: string;
  /** The current month. */
  current: string;
  /** What is wrong with the month in the URL, or null. If it is invalid, the page shows its default month. */
  fault: string | null;
}

export const monthPattern = /^2\d{3}-(0[1-9]|1[0-2])$/;

/**
 * Reads `?month=YYYY-MM`. If it is missing or invalid, returns the last full month, or the current month for pages whose
 * default it is.
 */
export function readMonth(
  url: URL,
  { now, byDefault = "last" }: { now: Date; byDefault?: "last" | "current" },
): MonthChoice {
  const current = now.toISOString().slice(0, 7);
  const month = url.searchParams.get("month") ?? "";
  if (monthPattern.test(month)) return { month, current, fault: null };
  const fault = month === "" ? null : "The month in the URL isn’t valid. Use YYYY-MM, from 2000-01 to 2999-12.";
  return { month: byDefault === "current" ? current : shiftMonth(current, -1), current, fault };
}

/** Reads the month in a file's URL. @throws Response like {@link requireValidRange} */
export function readFileMonth(request: Request, context: { requestId: string }): MonthChoice {
  return requireValidRange(readMonth(new URL(request.url), { now: new Date() }), context);
}

/** Returns the month `months` months later, or earlier for a negative number. */
export function shiftMonth(month: string, months: number): string {
  const [year = 0, number = 1] = month.split("-").map(Number);
  return new Date(Date.UTC(year, number - 1 + months)).toISOString().slice(0, 7);
}

/** Returns a month as a half-open interval of RFC 3339 times. */
export function monthWindow(month: string): { from: string; to: string } {
  return { from: `${month}-01T00:00:00.000Z`, to: `${shiftMonth(month, 1)}-01T00:00:00.000Z` };
}

/** Returns the first and the last day of a month. */
export function daysOfMonth(month: string): { first: string; last: string } {
  const [year = 0, number = 1] = month.split("-").map(Number);
  return { first: `${month}-01`, last: new Date(Date.UTC(year, number, 0)).toISOString().slice(0, 10) };
}
