import { countDays, firstOf, isIn, lastOf, plusDays, type Range } from "./calendar.ts";
import { divideHalfUp, percent, sum, text } from "./decimals.ts";
import type { Book, Cost, Invoice } from "./plant-book.ts";

const countedOf = new WeakMap<readonly Cost[], Cost[]>();

/** Returns the costs that count: the last observation of each record, and daily totals instead of what they cover. */
export function countedCosts({ costs }: Pick<Book, "costs">): Cost[] {
  const known = countedOf.get(costs);
  if (known) return known;
  const counted = countCosts(costs);
  countedOf.set(costs, counted);
  return counted;
}

function countCosts(costs: readonly Cost[]): Cost[] {
  const last = new Map<string, Cost>();
  for (const cost of costs) {
    const known = last.get(cost.id);
    if (!known || known.observed < cost.observed) last.set(cost.id, cost);
  }
  const records = [...last.values()];
  const dayOf = ({ at }: Cost) => at.slice(0, 10);
  return records.filter((cost) => {
    const totals = records.filter(
      (other) =>
        other.isDaily &&
        other.account !== null &&
        other.provider === cost.provider &&
        other.account === cost.account &&
        dayOf(other) === dayOf(cost),
    );
    if (!cost.isDaily) return totals.length === 0;
    const isWhole = totals.some(({ service }) => service === null);
    if (isWhole && cost.service !== null) return false;
    return totals.filter(({ service }) => service === cost.service).every(({ observed }) => observed <= cost.observed);
  });
}

/** Returns the invoice that replaces one, if any. */
export function replacementOf({ invoices }: Pick<Book, "invoices">, invoice: Invoice): Invoice | undefined {
  return invoices.find(
    (other) =>
      other.replaces === invoice.reference && other.provider === invoice.provider && other.account === invoice.account,
  );
}

export const countedInvoices = (book: Pick<Book, "invoices">) =>
  book.invoices.filter((invoice) => replacementOf(book, invoice) === undefined);

export const signed = ({ isCredit }: Invoice, amount: bigint) => (isCredit ? -amount : amount);

export function periodOf({ start, end, issued }: Invoice): Range {
  const month = (start ?? end ?? issued).slice(0, 7);
  return { first: start ?? firstOf(month), last: end ?? lastOf(month) };
}

/** Returns the days of an invoice within a range and their share of its amounts, or null if there are none. */
export function shareOf(invoice: Invoice, range: Range) {
  const period = periodOf(invoice);
  const [, first = ""] = [period.first, range.first].sort();
  const [last = ""] = [period.last, range.last].sort();
  if (first > last) return null;
  const length = BigInt(countDays(period));
  const part = (amount: bigint) => {
    const until = (day: string) => divideHalfUp(amount * BigInt(countDays({ first: period.first, last: day })), length);
    return signed(invoice, until(last) - (first === period.first ? 0n : until(plusDays(first, -1))));
  };
  const { amount, money } = invoice;
  return { first, last, amount: part(amount), net: part(money?.net ?? amount), tax: part(money?.tax ?? 0n) };
}

export interface Line {
  metered: bigint | null;
  imported: bigint;
  invoiced: bigint;
  runs: number | null;
  records: number;
  invoices: number;
}

/** Computes a provider's figures in a range: of all accounts, or of one (null is none). */
export function lineOf(
  book: Book,
  { provider, range, account }: { provider: string; range: Range; account?: string | null },
): Line {
  const isOf = (record: { provider: string; account: string | null }) =>
    record.provider === provider && (account === undefined || record.account === account);
  const runs = book.runs.filter((run) => run.provider === provider && isIn(range, run.day));
  const unnamed = sum(runs.filter((run) => run.account === null).map(({ cost }) => cost));
  const isKnown = account === undefined || unnamed === 0n;
  const own = runs.filter(isOf);
  const costs = countedCosts(book).filter((cost) => isOf(cost) && isIn(range, cost.at.slice(0, 10)));
  const shares = countedInvoices(book)
    .filter(isOf)
    .flatMap((invoice) => shareOf(invoice, range) ?? []);
  return {
    metered: isKnown ? sum(own.map(({ cost }) => cost)) : null,
    imported: sum(costs.map((cost) => cost.amount)),
    invoiced: sum(shares.map((share) => share.amount)),
    runs: isKnown ? own.length : null,
    records: costs.length,
    invoices: shares.length,
  };
}

/** Returns the accounts that have a line in a range. */
export function accountsOf(book: Book, { provider, range }: { provider: string; range: Range }): (string | null)[] {
  return [null, "a", "b"].filter((account) => {
    const { records, invoices, runs } = lineOf(book, { provider, range, account });
    return records > 0 || invoices > 0 || (account !== null && (runs ?? 0) > 0);
  });
}

export const isListed = ({ runs, records, invoices }: Line) => (runs ?? 0) > 0 || records > 0 || invoices > 0;

/** Returns the differences that a complete line shows: null where nothing can be compared. */
export function differencesOf({ metered, imported, invoiced, records, invoices }: Line) {
  const known = records > 0 && metered !== null ? { metered, difference: imported - metered } : null;
  const isInvoiced = records > 0 && invoices > 0;
  return {
    imported: known && text(known.difference),
    importedPercent: known && percent(known.difference, known.metered),
    invoiced: isInvoiced ? text(invoiced - imported) : null,
    invoicedPercent: isInvoiced ? percent(invoiced - imported, imported) : null,
  };
}
