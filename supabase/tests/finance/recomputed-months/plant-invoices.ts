import { dayOf, firstOf, isIn, lastOf, lengthOf, plusDays } from "./calendar.ts";
import { periodOf } from "./compute-lines.ts";
import { convertHalfEven, one } from "./decimals.ts";
import { type Book, type CostFile, type Invoice, type Money, type Place, someRate } from "./plant-book.ts";
import type { Random } from "./random.ts";

export const currencies = ["EUR", "GBP", "JPY", "USD"] as const;

/** Plants a month's invoices and credit notes, with corrections of both. */
export function plantInvoices({ invoices }: Book, { provider, profile, months, month, random }: Place): void {
  const { chance, integer, pick } = random;
  const period = () =>
    pick([
      { start: null, end: null },
      { start: firstOf(month), end: null },
      { start: null, end: lastOf(month) },
      { start: firstOf(month), end: lastOf(month) },
      { start: dayOf(month, 1 + integer(lengthOf(month))), end: plusDays(lastOf(month), integer(70)) },
      { start: firstOf(months[0] ?? ""), end: lastOf(months[2] ?? "") },
    ]);
  const add = (invoice: Pick<Invoice, "account"> & Partial<Invoice>) => {
    const planted: Invoice = {
      ...{ provider, reference: `INV-${invoices.length}`, isCredit: false, replaces: null },
      ...{ amount: random.amount() * 3n, money: null, issued: lastOf(month), ...period(), ...invoice },
    };
    if (planted.money === null && chance(0.4)) planted.money = someMoney(random, pick(currencies));
    if (planted.money) planted.amount = convertHalfEven(planted.money.net, planted.money.rate);
    invoices.push(planted);
    return planted;
  };
  /** Adds an invoice or credit note, and corrections of it. Of those in a currency, only the first has no rate. */
  const addChain = ({ isSure, ...first }: Partial<Invoice> & Pick<Invoice, "account"> & { isSure: boolean }) => {
    let last = add(first);
    for (let probability = isSure ? 1 : 0.4; chance(probability); probability /= 2) {
      const { account, isCredit, reference: replaces } = last;
      const money = first.money
        ? someMoney(random, first.money.currency, { isPrefilled: false, isTie: isCredit })
        : null;
      last = add({ account, isCredit, money, replaces });
    }
  };
  for (const [place, account] of profile.invoices.entries()) {
    // A provider that bills in other currencies has each kind in each currency in three months.
    const isSure = profile.foreign === true;
    const currency = isSure ? currencies[(months.indexOf(month) + place) % currencies.length] : undefined;
    const money = () => (currency ? someMoney(random, currency, { isPrefilled: currency !== "USD" }) : null);
    if (!isSure && chance(0.2)) continue;
    addChain({ account, money: money(), isSure });
    if (isSure || chance(0.4)) addChain({ account, isCredit: true, money: money(), isSure });
  }
}

const typedAmounts = [
  ["net", "tax"],
  ["net", "total"],
  ["tax", "total"],
  ["net", "tax", "total"],
] as const;

function someMoney(random: Random, currency: string, { isPrefilled = false, isTie = false } = {}): Money {
  const { chance, integer, pick } = random;
  const decimals = pick([2, 2, 12]);
  const isUsd = currency === "USD";
  const money = {
    currency,
    rate: isUsd ? one : someRate(random),
    isPrefilled,
    net: random.amount(decimals),
    tax: chance(0.3) ? 0n : random.amount(decimals),
    typed: pick(typedAmounts),
    isSent: chance(0.4),
  };
  // Two and a half of the smallest unit, or another half, which is rounded to even.
  return isTie && !isUsd ? { ...money, net: 25n * 10n ** 11n, rate: BigInt(2 * integer(50) + 1) } : money;
}

/**
 * Replaces the rate of an invoice that is entered without one: the one of the last file with which days of its provider
 * and period were imported. Without such a file, the rate is entered.
 */
export function findRate({ files }: Pick<Book, "files">, { invoice, random }: { invoice: Invoice; random: Random }) {
  const { money, provider } = invoice;
  if (!money?.isPrefilled) return;
  const range = periodOf(invoice);
  // A day belongs to the last file that has it.
  const isLast = (file: CostFile, { account, day }: CostFile["days"][number]) =>
    !files
      .slice(files.indexOf(file) + 1)
      .some(
        (later) =>
          later.provider === provider && later.days.some((each) => each.account === account && each.day === day),
      );
  const file = files.findLast(
    (each) => each.provider === provider && each.days.some((day) => isIn(range, day.day) && isLast(each, day)),
  );
  money.isPrefilled = file !== undefined;
  money.rate = file?.rates[money.currency] ?? someRate(random);
  invoice.amount = convertHalfEven(money.net, money.rate);
}
