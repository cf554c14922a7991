import type { z } from "zod";
import { add, formatDecimal, multiply, parseDecimal } from "#shared/decimal.ts";
import { parseExactJson } from "#shared/exact-json.ts";
import { readDecimalText } from "#shared/usd-amount.ts";

/** A UTC day of an account as its provider reports it. `amountUsd` is undefined if the provider reported no cost. */
export type CostDay = { day: string; amountUsd: string | undefined };

/** A page of an account's daily costs. `now` is the provider's clock, if it reports one. */
export type CostPage = {
  days: readonly CostDay[];
  hasMore: boolean;
  next: string | null | undefined;
  now: Date | undefined;
};

/** A provider's report of daily costs. */
export type CostReport = {
  /** The provider's name in messages. */
  name: string;
  /** @throws Error with a one-sentence message */
  readPage: (page: { account: string; from: string; to: string; cursor: string | undefined }) => Promise<CostPage>;
};

/**
 * The days read from one page. `disputed` lists the days for which the provider already reported a different amount.
 */
export type DaysRead = {
  days: CostDay[];
  disputed: string[];
  /** The first day that has not been read; never later than today by the provider's clock. */
  through: string;
};

/**
 * Reads an account's daily costs in a half-open range, page by page. The `through` of a result never passes a day that
 * no page has returned, even if a page says that no more days follow.
 * @throws Error with a one-sentence message
 */
export async function* readDays(
  { name, readPage }: CostReport,
  { account, from, to }: { account: string; from: string; to: string },
): AsyncGenerator<DaysRead> {
  const read = new Map<string, string | undefined>();
  const cursors = new Set<string>();
  let cursor: string | undefined;
  for (;;) {
    const page = await readPage({ account, from, to, cursor });
    const inRange = page.days.filter(({ day }) => day >= from && day < to);
    const fresh = inRange.filter(({ day }, n) => !read.has(day) && inRange.findIndex((one) => one.day === day) === n);
    for (const { day, amountUsd } of fresh) read.set(day, amountUsd);
    const disputed = inRange.filter(({ day, amountUsd }) => read.get(day) !== amountUsd).map(({ day }) => day);
    const end = [to, dayText(page.now ?? new Date())].toSorted()[0] ?? to;
    let through = from;
    while (through < end && read.has(through)) through = dayAfter(through);
    yield { days: fresh, disputed: [...new Set(disputed)], through };
    if (!page.hasMore && (!page.next || through >= end)) return;
    if (!page.next) throw new Error(`${name} says that there are more days and names no page. Try again later.`);
    if (cursors.has(page.next)) throw new Error(`${name} answered the same page twice. Try again later.`);
    cursors.add(page.next);
    cursor = page.next;
  }
}

/** Returns the UTC day of a time. */
function dayText(moment: Date): string {
  return moment.toISOString().slice(0, 10);
}

/** @throws RangeError for a time that is not midnight in UTC */
export function dayOfMidnight(milliseconds: number): string {
  if (milliseconds % 86_400_000 !== 0) throw new RangeError("not midnight in UTC");
  return dayText(new Date(milliseconds));
}

function dayAfter(day: string): string {
  return dayText(new Date(Date.parse(day) + 86_400_000));
}

/** Parses a page of a provider's report. @throws Error with a one-sentence message */
export function readPage<Schema extends z.ZodType>(
  text: string,
  { name, schema }: { name: string; schema: Schema },
): z.output<Schema> {
  try {
    return schema.parse(parseExactJson(text));
  } catch {
    throw new Error(
      `${name} answered something that is not a page of daily costs. Check ${name.toUpperCase()}_BASE_URL.`,
    );
  }
}

/**
 * Adds up an account's amounts of a day, which the gateway rounds. Returns undefined if there are none.
 * @param options.unitUsd the value of one unit of the provider's amounts, such as 0.01
 * @throws Error with a one-sentence message
 */
export function sumUsd(
  amounts: readonly { value: string; currency: string }[],
  { name, account, unitUsd = "1" }: { name: string; account: string; unitUsd?: string },
): string | undefined {
  if (amounts.length === 0) return undefined;
  const exact = amounts.map(({ value, currency }) => {
    if (currency.toLowerCase() !== "usd") {
      throw new Error(`${name} states costs of ${account} in ${currency}; only USD can be imported.`);
    }
    const decimal = readDecimalText(value);
    if (decimal === null) throw new Error(`${name} states ${value} as a cost, which is not an amount.`);
    return parseDecimal(decimal);
  });
  return formatDecimal(multiply(exact.reduce(add), parseDecimal(unitUsd)));
}
