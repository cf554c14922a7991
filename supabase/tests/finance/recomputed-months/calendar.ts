/** A range of days, both inclusive. */
export type Range = { first: string; last: string };

/**
 * Returns three months as YYYY-MM, of which the first was some months ago. Files of tests have their own months, because
 * pages of the platform's book show the records of all tests, and some tests close months. Invoices reach up to 70 days
 * beyond their months.
 */
export function threeMonths(monthsAgo: number): readonly string[] {
  const now = new Date();
  return [0, 1, 2].map((later) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - monthsAgo + later)).toISOString().slice(0, 7),
  );
}

export function lengthOf(month: string): number {
  return new Date(Date.UTC(+month.slice(0, 4), +month.slice(5), 0)).getUTCDate();
}

export const firstOf = (month: string) => `${month}-01`;
export const lastOf = (month: string) => `${month}-${lengthOf(month)}`;
export const dayOf = (month: string, day: number) => `${month}-${String(day).padStart(2, "0")}`;
export const rangeOf = (month: string): Range => ({ first: firstOf(month), last: lastOf(month) });
export const isIn = ({ first, last }: Range, day: string) => day >= first && day <= last;

export function plusDays(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

/** Returns the number of days of a range. */
export function countDays({ first, last }: Range): number {
  return (Date.parse(last) - Date.parse(first)) / 86_400_000 + 1;
}
