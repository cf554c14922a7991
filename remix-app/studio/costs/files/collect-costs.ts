import { add, type Decimal, formatDecimal } from "#shared/decimal.ts";
import { type CostDay, type CostLine, type ProviderCosts, type ReadLine, UnreadableCostFile } from "./cost-file.ts";

/** Matches 1–256 characters without control characters, and without whitespace at either end. */
const accountPattern = /^(?!\s)[^\p{Cc}]{1,256}(?<!\s)$/u;
/** Matches a long number that a spreadsheet has changed to exponent notation. */
const exponentNumberPattern = /^\d(?:\.\d+)?E\+\d+$/i;
/** Enough for a year of daily costs in hundreds of accounts and services. */
const maxSums = 500_000;

/** The maximum length of a service's name. Longer names are cut. */
const maxServiceLength = 256;

type Period = { first: string; last: string };
type CostTotal = { account: string | null; day: string; currency: string; service: string | null; amount: Decimal };
/** The lines of one account, day, service and currency. `long` counts those that span several days. */
type DailyTotal = CostTotal & { rows: number; long: number };
type ProviderTotals = {
  timeZone: string;
  lines: Map<string, DailyTotal>;
  bills?: Period | undefined;
  categories: Map<string, string>;
};

/**
 * Adds up the lines of a bill by provider, account, day, service and currency. A line outside the period of the file's
 * bills counts on the period's nearest day, so that it never replaces a day of another bill's file. If no line is in the
 * period, or if the file's bills together cover the line's day, the file has whole days, and the line stays on its day.
 * @param options.account the account for lines without one
 */
export function collectCosts({ account: unnamed = null }: { account?: string | null }) {
  const providers = new Map<string, ProviderTotals>();
  const skipped = new Map<string, number>();
  let rows = 0;
  let sums = 0;

  function addLine(line: CostLine, where: string): void {
    checkLine(line, where);
    const own: ProviderTotals = providers.get(line.provider) ?? {
      timeZone: line.timeZone,
      lines: new Map(),
      categories: new Map(),
    };
    providers.set(line.provider, own);
    own.bills = mergePeriods(own.bills, line.bill);
    const { day, currency } = line;
    const service = line.service?.slice(0, maxServiceLength).toWellFormed() ?? null;
    if (service !== null && line.serviceCategory !== undefined) own.categories.set(service, line.serviceCategory);
    const long = Number(line.lastDay !== undefined && line.lastDay > day);
    const account = line.account ?? unnamed;
    const key = JSON.stringify([account, day, currency, service]);
    const sum = own.lines.get(key);
    if (sum) {
      sum.amount = add(sum.amount, line.amount);
      sum.rows++;
      sum.long += long;
      return;
    }
    if (++sums > maxSums) {
      throw new UnreadableCostFile(
        `The file has more than ${maxSums.toLocaleString("en")} combinations of day, account and service. Export a shorter range.`,
      );
    }
    own.lines.set(key, { account, day, currency, service, amount: line.amount, rows: 1, long });
  }

  return {
    /** @param where names the line in messages, such as "Row 12" */
    add(read: ReadLine, where: string): void {
      rows++;
      if ("skipped" in read) skipped.set(read.skipped, (skipped.get(read.skipped) ?? 0) + 1);
      else addLine(read, where);
    },
    get rows() {
      return rows;
    },
    skipped: () => [...skipped].map(([what, count]) => ({ what, rows: count })),
    notes() {
      let moved = 0;
      let long = 0;
      for (const own of providers.values()) {
        const dayOf = createDayMapper(own);
        for (const sum of own.lines.values()) {
          if (dayOf(sum.day) !== sum.day) moved += sum.rows;
          else long += sum.long;
        }
      }
      return [
        ...(moved > 0
          ? [
              `${formatLineCount(moved, "is", "are")} outside the billing period and ${chooseCountVerb(moved)} on its nearest day.`,
            ]
          : []),
        ...(long > 0
          ? [`${formatLineCount(long, "spans", "span")} several days and ${chooseCountVerb(long)} on the first day.`]
          : []),
      ];
    },
    providers: (): ProviderCosts[] => [...providers].map(([provider, own]) => providerCosts(provider, own)),
  };
}

function formatLineCount(number: number, one: string, many: string): string {
  return `${number.toLocaleString("en")} ${number === 1 ? `line ${one}` : `lines ${many}`}`;
}

function chooseCountVerb(number: number): string {
  return number === 1 ? "counts" : "count";
}

function checkLine({ account, currency }: CostLine, where: string): void {
  if (!/^[A-Z]{3}$/.test(currency)) {
    throw new UnreadableCostFile(
      `${where}: the currency is "${currency}", which isn’t a code such as USD. Import the file as it was downloaded.`,
    );
  }
  if (account === null) return;
  if (exponentNumberPattern.test(account)) {
    throw new UnreadableCostFile(
      `${where}: the account is "${account}", which a spreadsheet program shortened. Import the file as it was downloaded.`,
    );
  }
  if (!accountPattern.test(account) || !account.isWellFormed()) {
    throw new UnreadableCostFile(
      `${where}: the account has more than 256 characters or isn’t one line of text. Import the file as it was downloaded.`,
    );
  }
}

/** Returns the period that covers both, without gaps. */
function mergePeriods(one: Period | undefined, other: Period | undefined): Period | undefined {
  if (!other || other.first > other.last) return one;
  if (!one) return other;
  const [first = one.first] = [one.first, other.first].toSorted();
  const last = [one.last, other.last].toSorted().at(-1) ?? one.last;
  return { first, last };
}

/** Returns a function that returns the day on which the lines of a day count. */
function createDayMapper({ bills, lines }: ProviderTotals): (day: string) => string {
  const isInside = ({ first, last }: Period, day: string) => day >= first && day <= last;
  if (!bills || ![...lines.values()].some(({ day }) => isInside(bills, day))) return (day) => day;
  return (day) => [bills.first, day, bills.last].toSorted()[1] ?? day;
}

function providerCosts(provider: string, own: ProviderTotals): ProviderCosts {
  const dayOf = createDayMapper(own);
  const sums = new Map<string, CostTotal>();
  for (const { account, day, currency, service, amount } of own.lines.values()) {
    const key = JSON.stringify([account, dayOf(day), currency, service]);
    const sum = sums.get(key);
    sums.set(key, { account, day: dayOf(day), currency, service, amount: sum ? add(sum.amount, amount) : amount });
  }
  const days = new Map<string, CostDay>();
  for (const { account, day, currency, service, amount } of sums.values()) {
    const key = JSON.stringify([day, account]);
    const costs = days.get(key) ?? { accountId: account, day, amounts: [] };
    days.set(key, costs);
    costs.amounts.push({ currency, amount: formatDecimal(amount), service });
  }
  const order = ({ day, accountId }: CostDay) => `${day}${accountId ?? ""}`;
  const sorted = [...days.values()].toSorted((one, other) => (order(one) < order(other) ? -1 : 1));
  const currencies = [...new Set([...sums.values()].map(({ currency }) => currency))].toSorted();
  const categories = own.categories.size > 0 ? { serviceCategories: Object.fromEntries(own.categories) } : {};
  return { provider, timeZone: own.timeZone, currencies, days: sorted, ...categories };
}
