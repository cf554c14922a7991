import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  isIn,
  plusDays,
  type Range,
  rangeOf,
  threeMonths,
} from "../../supabase/tests/finance/recomputed-months/calendar.ts";
import {
  countedCosts,
  countedInvoices,
  lineOf,
  periodOf,
  replacementOf,
  shareOf,
  signed,
} from "../../supabase/tests/finance/recomputed-months/compute-lines.ts";
import { one, sum, text } from "../../supabase/tests/finance/recomputed-months/decimals.ts";
import type { Invoice } from "../../supabase/tests/finance/recomputed-months/plant-book.ts";
import { currencies } from "../../supabase/tests/finance/recomputed-months/plant-invoices.ts";
import { seed } from "../../supabase/tests/finance/recomputed-months/random.ts";
import {
  canonical,
  factsOf,
  figuresOf,
  parsePage,
  readApi,
  rowsOf,
} from "../../supabase/tests/finance/recomputed-months/read-answers.ts";
import {
  plantBooks,
  type RecordedBooks,
  recordBooks,
} from "../../supabase/tests/finance/recomputed-months/record-books.ts";

// Plants three months of random invoices and credit notes in several currencies, and recomputes every amount of their
// receipts, lists and FOCUS files. The arithmetic shares no code with the product. BOOKS_SEED repeats a run.

const months = threeMonths(18);
const planted = plantBooks(months);
let books: RecordedBooks;
beforeAll(async () => {
  books = await recordBooks(planted, { isTyped: true });
}, 120_000);
afterAll(() => books.close());

/** Returns an invoice's amounts as files and the API state them. */
function amountsOf({ isCredit, amount, money }: Invoice, { isSigned }: { isSigned: boolean }) {
  const shown = (units: bigint) => text(isCredit && isSigned ? -units : units);
  return {
    amountUsd: shown(amount),
    currency: money?.currency ?? null,
    exchangeRate: money && text(money.rate),
    netAmount: money && shown(money.net),
    taxAmount: money && shown(money.tax),
    totalAmount: money && shown(money.net + money.tax),
  };
}

const kindOf = ({ isCredit }: Invoice) => (isCredit ? "credit_note" : "invoice");

describe.each(["platform", "own"] as const)(`the invoices of the %s book (seed ${seed})`, (name) => {
  const book = planted[name];
  const side = () => books[name];

  test("each kind of invoice and credit note occurs in each currency, with entered and prefilled rates", () => {
    const kinds = book.invoices.flatMap((invoice) => {
      const { money, replaces } = invoice;
      if (!money) return [];
      const kind = `${money.currency} ${replaces ? "correction of " : ""}${kindOf(invoice)}`;
      return [kind, `${money.currency} ${money.isPrefilled ? "prefilled" : "entered"}`];
    });
    const expected = currencies.flatMap((currency) =>
      ["invoice", "correction of invoice", "credit_note", "correction of credit_note", "entered"].map(
        (kind) => `${currency} ${kind}`,
      ),
    );
    expect([...new Set(kinds)]).toEqual(expect.arrayContaining(expected));
    expect(kinds).toContainEqual(expect.stringMatching(/prefilled$/));
    // An exact half of the smallest unit is rounded to even.
    expect(book.invoices.some(({ money }) => money && ((money.net * money.rate) % one) * 2n === one)).toBe(true);
  });

  test.for(months)("the FOCUS file of %s has each counted cost and each invoice's share", async (month) => {
    const range = rangeOf(month);
    const costs = countedCosts(book).filter(({ at }) => isIn(range, at.slice(0, 10)));
    const shares = countedInvoices(book).flatMap((invoice) => {
      const share = shareOf(invoice, range);
      return share ? [{ ...share, invoice }] : [];
    });
    const charge = (record: { provider: string; account: string | null }, days: Range) => ({
      ProviderName: record.provider,
      BillingAccountId: record.account ?? "none",
      ChargePeriodStart: `${days.first}T00:00:00Z`,
      ChargePeriodEnd: `${plusDays(days.last, 1)}T00:00:00Z`,
    });
    const expected = [
      ...costs.map((cost) => ({
        ...charge(cost, { first: cost.at.slice(0, 10), last: cost.at.slice(0, 10) }),
        ...{ x_RecordType: "imported_cost", x_RecordId: cost.id, ChargeCategory: "Usage", InvoiceId: "" },
        ...{ BillingCurrency: "USD", BilledCost: "0", x_ExchangeRate: "1", x_InvoicedUsd: "0" },
        EffectiveCost: text(cost.amount),
      })),
      ...shares.flatMap(({ invoice, amount, net, tax, ...days }) => {
        const { id = "", reference, isCredit, money } = invoice;
        const purchase = {
          ...charge(invoice, days),
          ...{ x_RecordType: kindOf(invoice), x_RecordId: id, InvoiceId: reference, EffectiveCost: "0" },
          ...{ BillingCurrency: money?.currency ?? "USD", x_ExchangeRate: text(money?.rate ?? one) },
          ...{ ChargeCategory: isCredit ? "Credit" : "Purchase", BilledCost: text(net), x_InvoicedUsd: text(amount) },
        };
        if (tax === 0n) return [purchase];
        return [purchase, { ...purchase, ChargeCategory: "Tax", BilledCost: text(tax), x_InvoicedUsd: "0" }];
      }),
    ];
    const rows = await rowsOf(side().browser, `${side().path}.focus.csv?month=${month}`);
    const names = Object.keys(expected[0] ?? {}).sort();
    const select = (row: Record<string, string>) => JSON.stringify(names.map((column) => row[column]));
    const ours = rows.filter(({ ProviderName = "" }) => books.isOurs(ProviderName));
    expect(ours.map(select).sort()).toEqual(expected.map(select).sort());
  });

  test("each receipt has the invoice's amounts, and compares the scope that it names", async () => {
    const expectReceipt = async (invoice: Invoice) => {
      const { provider, account, reference } = invoice;
      const range = periodOf(invoice);
      const scope = account === null ? {} : { account };
      const line = lineOf(book, { provider, range, ...scope });
      const isCounted = countedInvoices(book).includes(invoice);
      const others = countedInvoices(book).filter(
        (each) => each !== invoice && each.provider === provider && (account === null || each.account === account),
      );
      const shares = others.flatMap((each) => shareOf(each, range) ?? []);
      const own = isCounted ? signed(invoice, invoice.amount) : 0n;
      const otherAmount = sum(shares.map((share) => share.amount));
      const { text: html, words } = await side().browser.get(`${side().invoices}/${invoice.id}`);
      expect(words).toContain(
        account === null ? `all accounts of ${provider}` : `account ${account} of ${provider} only`,
      );
      const page = parsePage(html);
      const figures = Object.entries(figuresOf(page));
      const of = (pattern: RegExp) => figures.find(([term]) => pattern.test(term))?.[1] ?? null;
      expect([reference, of(/^Metered/), of(/^Imported/), of(/^This /), of(/^\d+ other/), of(/ − imported$/)]).toEqual([
        reference,
        line.metered === null ? null : text(line.metered),
        line.records > 0 ? text(line.imported) : null,
        text(own),
        shares.length > 0 ? text(otherAmount) : null,
        line.records > 0 ? text(own + otherAmount - line.imported) : null,
      ]);
      expect([reference, recordedAmounts(page)]).toEqual([reference, amountsOf(invoice, { isSigned: true })]);
    };
    for (let at = 0; at < book.invoices.length; at += 4) {
      await Promise.all(book.invoices.slice(at, at + 4).map(expectReceipt));
    }
  });

  test("the file of invoices has the amounts of each", async () => {
    const rows = await rowsOf(side().browser, `${side().invoices}.csv`);
    const ours = rows.filter(({ provider = "" }) => books.isOurs(provider));
    const shown = ours.map((row) => [
      ...[row.id, row.reference, row.kind, row.replaces, row.replaced_by],
      ...[row.amount_usd, row.currency, row.exchange_rate, row.net_amount, row.tax_amount, row.total_amount],
    ]);
    const expected = book.invoices.map((invoice) => [
      ...[invoice.id, invoice.reference, kindOf(invoice), invoice.replaces ?? ""],
      replacementOf(book, invoice)?.reference ?? "",
      ...Object.values(amountsOf(invoice, { isSigned: true })).map((value) => value ?? ""),
    ]);
    expect(shown.map(String).sort()).toEqual(expected.map(String).sort());
  });
});

/** Reads the amounts that a receipt says were recorded, like {@link amountsOf}. */
function recordedAmounts(page: Document) {
  const facts = factsOf(page)["What was recorded"] ?? {};
  const amount = (term: string) => canonical((facts[term] ?? "").replace(/ [A-Z]{3}$/, ""));
  if (facts.Amount !== undefined) {
    const none = { currency: null, exchangeRate: null, netAmount: null, taxAmount: null, totalAmount: null };
    return { amountUsd: amount("Amount"), ...none };
  }
  const [, currency = "USD", rate = "1"] = /^1 (\S+) = (\S+) USD$/.exec(facts["Exchange rate"] ?? "") ?? [];
  return {
    amountUsd: amount(currency === "USD" ? "Net amount" : "Net amount in US dollars"),
    currency,
    exchangeRate: rate,
    netAmount: amount("Net amount"),
    taxAmount: amount("Tax"),
    totalAmount: amount("Total"),
  };
}

test("the API's invoices have the amounts of each, and their total is the sum of those that count", async () => {
  const { invoices } = planted.own;
  const read = (query: string) =>
    readApi(books.own.browser, { workspaceId: books.tenant.workspaceId, path: `/provider-invoices?limit=50${query}` });
  const first = await read("");
  const records = [...first.records];
  for (let cursor = first.nextCursor; cursor !== null; ) {
    const page = await read(`&cursor=${cursor}`);
    records.push(...page.records);
    cursor = page.nextCursor;
  }
  const shown = records.map(({ reference, kind, ...record }) => {
    const { amountUsd, currency, exchangeRate, netAmount, taxAmount, totalAmount } = record;
    const amounts = { amountUsd, currency, exchangeRate, netAmount, taxAmount, totalAmount };
    return [reference, kind, record.replaces, record.replacedBy, amounts];
  });
  const expected = invoices.map((invoice) => [
    ...[invoice.reference, kindOf(invoice), invoice.replaces],
    ...[replacementOf(planted.own, invoice)?.reference ?? null, amountsOf(invoice, { isSigned: false })],
  ]);
  const byText = (rows: unknown[]) => rows.map((row) => JSON.stringify(row)).sort();
  expect(byText(shown)).toEqual(byText(expected));
  const counted = countedInvoices(planted.own).map((invoice) => signed(invoice, invoice.amount));
  expect(first.totals.amountUsd).toBe(text(sum(counted)));
});
