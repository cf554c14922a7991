import { add, type Decimal, formatDecimal } from "#shared/decimal.ts";
import { type CostDay, type CostLine, type ProviderCosts, type ReadLine, UnreadableCostFile } from "./cost-file.ts";

/** Matches 1–256 characters without control characters, and without whitespace at either end. */
const accountPattern = /^(?!\s)[^\p{Cc}]{1,256}(?<!\s)$/u;
/** Matches a long number that a spreadsheet has changed to exponent notation. */
const spreadsheetNumber = /^\d(?:\.\d+)?E\+\d+$/i;
/** Enough for a year of daily costs in hundreds of accounts and services. */
const mostSums = 500_000;

type Sum = { account: string | null; day: string; currency: string; service: string | null; amount: Decimal };

/**
 * Adds up the lines of a bill by provider, account, day, service and currency.
 * @param options.account the account for lines without one
 */
export function collectCosts({ account: unnamed = null }: { account?: string | null }) {
  const providers = new Map<string, { timeZone: string; sums: Map<string, Sum> }>();
  const skipped = new Map<string, number>();
  let rows = 0;
  let sums = 0;
  let moved = 0;
  let long = 0;

  function addLine(line: CostLine, where: string): void {
    check(line, where);
    const day = clamp(line.day, line.bill);
    if (day !== line.day) moved++;
    else if (line.lastDay !== undefined && line.lastDay > day) long++;
    const own = providers.get(line.provider) ?? { timeZone: line.timeZone, sums: new Map<string, Sum>() };
    providers.set(line.provider, own);
    const { currency, service } = line;
    const account = line.account ?? unnamed;
    const key = JSON.stringify([account, day, currency, service]);
    const sum = own.sums.get(key);
    if (sum) {
      sum.amount = add(sum.amount, line.amount);
      return;
    }
    if (++sums > mostSums) {
      throw new UnreadableCostFile(
        `The file has more than ${mostSums.toLocaleString("en")} combinations of day, account and service. Export a shorter range.`,
      );
    }
    own.sums.set(key, { account, day, currency, service, amount: line.amount });
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
    notes: () => [
      ...(moved > 0
        ? [`${lines(moved, "is", "are")} outside the billing period and ${count(moved)} on its nearest day.`]
        : []),
      ...(long > 0 ? [`${lines(long, "spans", "span")} several days and ${count(long)} on the first day.`] : []),
    ],
    providers: (): ProviderCosts[] => [...providers].map(([provider, own]) => providerCosts(provider, own)),
  };
}

function lines(number: number, one: string, many: string): string {
  return `${number.toLocaleString("en")} ${number === 1 ? `line ${one}` : `lines ${many}`}`;
}

function count(number: number): string {
  return number === 1 ? "counts" : "count";
}

function check({ account, currency }: CostLine, where: string): void {
  if (!/^[A-Z]{3}$/.test(currency)) {
    throw new UnreadableCostFile(
      `${where}: the currency is "${currency}", which isn’t a code such as USD. Import the file as it was downloaded.`,
    );
  }
  if (account === null) return;
  if (spreadsheetNumber.test(account)) {
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

function clamp(day: string, bill: CostLine["bill"]): string {
  if (bill === undefined || bill.first > bill.last) return day;
  return day < bill.first ? bill.first : day > bill.last ? bill.last : day;
}

function providerCosts(
  provider: string,
  { timeZone, sums }: { timeZone: string; sums: Map<string, Sum> },
): ProviderCosts {
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
  return { provider, timeZone, currencies, days: sorted };
}
