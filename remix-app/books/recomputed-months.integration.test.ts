import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  isIn,
  plusDays,
  type Range,
  rangeOf,
  threeMonths,
} from "../../supabase/tests/finance/recomputed-months/calendar.ts";
import {
  accountsOf,
  countedCosts,
  differencesOf,
  isListed,
  type Line,
  lineOf,
} from "../../supabase/tests/finance/recomputed-months/compute-lines.ts";
import { one, sum, text, unitsOf } from "../../supabase/tests/finance/recomputed-months/decimals.ts";
import type { Book } from "../../supabase/tests/finance/recomputed-months/plant-book.ts";
import { seed } from "../../supabase/tests/finance/recomputed-months/random.ts";
import {
  exactAmount,
  figuresOf,
  parsePage,
  readApi,
  rowsOf,
  tableOf,
} from "../../supabase/tests/finance/recomputed-months/read-answers.ts";
import {
  plantBooks,
  type RecordedBooks,
  recordBooks,
} from "../../supabase/tests/finance/recomputed-months/record-books.ts";

// Plants three months of random runs, costs and invoices, and recomputes every figure of the reconciliation from them.
// The arithmetic shares no code with the product. BOOKS_SEED repeats a run.

const months = threeMonths(6);
const planted = plantBooks(months);
const { providers } = planted;
let books: RecordedBooks;
beforeAll(async () => {
  books = await recordBooks(planted, { isTyped: false });
}, 120_000);
afterAll(() => books.close());

const listedIn = (book: Book, range: Range) =>
  providers.filter((provider) => isListed(lineOf(book, { provider, range }))).sort();
const isOurRow = ({ provider = "" }: Record<string, string>) => books.isOurs(provider);

/** Returns the totals of a reconciliation's file. It also has the providers of other tests. */
function totalsOf(file: readonly Record<string, string>[]) {
  const wholes = file.filter(({ accounts }) => accounts === "all");
  const total = (name: string) => text(sum(wholes.map((row) => unitsOf(row[name] ?? ""))));
  return { Metered: total("metered_usd"), Imported: total("imported_usd"), Invoiced: total("invoiced_usd") };
}

/** Returns whether a line of all accounts needs action: something is missing, or differs by half a cent or more. */
function isOpen({ metered, imported, invoiced, runs, records, invoices }: Line): boolean {
  const isLarge = (difference: bigint) => (difference < 0n ? -difference : difference) * 200n >= one;
  if (imported === 0n && invoiced === 0n && metered === 0n) return false;
  if (runs === 0 || records === 0 || (invoices === 0 && imported !== 0n)) return true;
  return (invoices > 0 && isLarge(invoiced - imported)) || isLarge(imported - (metered ?? 0n));
}

const percentIn = (cell: Element | undefined) =>
  cell?.querySelector('[title$="%"]')?.getAttribute("title")?.replace("−", "-").replace("%", "") ?? null;

describe.each(["platform", "own"] as const)(`the %s book (seed ${seed})`, (name) => {
  const book = planted[name];
  const side = () => books[name];

  test.for(months)("the reconciliation page of %s shows the recomputed figures", async (month) => {
    const range = rangeOf(month);
    const { text: html } = await side().browser.get(`${side().path}?month=${month}`);
    const page = parsePage(html);
    const rows = tableOf(page, "Metered, imported and invoiced by provider and account");
    const file = await rowsOf(side().browser, `${side().path}.csv?month=${month}`);
    expect(figuresOf(page)).toMatchObject(totalsOf(file));
    const starts = rows.flatMap(({ name }, at) => (/^(Account |Without an account$)/.test(name) ? [] : [at]));
    const groups = starts
      .map((at, place) => rows.slice(at, starts[place + 1]))
      .filter(([row]) => row && books.isOurs(row.name));
    expect(groups.map(([row]) => providers.find((provider) => row?.name.startsWith(provider)))).toEqual(
      listedIn(book, range),
    );
    for (const [place, [whole, ...accounts]] of groups.entries()) {
      const provider = listedIn(book, range)[place] ?? "";
      const line = lineOf(book, { provider, range });
      expect([provider, readRow(whole?.cells ?? [])]).toEqual([provider, expectedRow(line)]);
      const listed = accountsOf(book, { provider, range });
      if (accounts.length === 0) {
        // A provider's only account has no line of its own if it would repeat the provider's.
        expect([[], [null], [whole?.name.split("Account ")[1] ?? ""]]).toContainEqual(listed);
        continue;
      }
      expect(accounts.map(({ name }) => (name === "Without an account" ? null : name.replace("Account ", "")))).toEqual(
        listed,
      );
      for (const [index, account] of listed.entries()) {
        const [shown, expected] = [
          readRow(accounts[index]?.cells ?? []),
          expectedRow(lineOf(book, { provider, range, account })),
        ];
        const { imported, importedPercent, invoiced, invoicedPercent, ...amounts } = expected;
        expect([provider, account, shown]).toMatchObject([provider, account, amounts]);
        // A line's difference is exact, or absent where other accounts' lines have what it would be compared with.
        if (shown.imported !== null) expect(shown).toMatchObject({ imported, importedPercent });
        if (shown.invoiced !== null) expect(shown).toMatchObject({ invoiced, invoicedPercent });
      }
    }
    const unmetered = rows.find(({ name }) => name.startsWith(`unmetered-${planted.mark}`));
    const line = lineOf(book, { provider: `unmetered-${planted.mark}`, range });
    if (line.imported !== 0n || line.invoiced !== 0n) {
      expect(unmetered?.cells.at(-1)?.textContent).toMatch(/^Not metered/);
    }
  });

  test.for(months)("the reconciliation CSV of %s has the recomputed figures", async (month) => {
    const range = rangeOf(month);
    const rows = (await rowsOf(side().browser, `${side().path}.csv?month=${month}`)).filter(isOurRow);
    const amounts = (line: Line) => ({
      month,
      metered_usd: line.metered === null ? "" : text(line.metered),
      imported_usd: text(line.imported),
      imported_records: String(line.records),
      invoiced_usd: text(line.invoiced),
      invoices: String(line.invoices),
    });
    const ofProvider = rows.filter(({ accounts }) => accounts === "all");
    expect(ofProvider.map(({ provider }) => provider)).toEqual(listedIn(book, range));
    for (const row of rows) {
      const account = row.accounts === "all" ? {} : { account: row.account_id || null };
      const line = lineOf(book, { provider: row.provider ?? "", range, ...account });
      const { imported, importedPercent, invoiced, invoicedPercent } = differencesOf(line);
      expect(row).toMatchObject(amounts(line));
      const shown = {
        imported: row.imported_less_metered_usd || null,
        importedPercent: row.imported_less_metered_percent || null,
        invoiced: row.invoiced_less_imported_usd || null,
        invoicedPercent: row.invoiced_less_imported_percent || null,
      };
      if (row.accounts === "all" || shown.imported) expect(shown).toMatchObject({ imported, importedPercent });
      if (row.accounts === "all" || shown.invoiced) expect(shown).toMatchObject({ invoiced, invoicedPercent });
    }
  });

  test.for(months)(
    "the filter of %s lists the providers that need action, with their totals and their file",
    async (month) => {
      const caption = "Metered, imported and invoiced by provider and account";
      const needsAction =
        /^(Not metered|Nothing reported|Costs missing|Invoice missing|Invoice differs|Metering differs)/;
      const all = await rowsOf(side().browser, `${side().path}.csv?month=${month}`);
      const needing = new Set(all.filter(({ state = "" }) => needsAction.test(state)).map(({ provider }) => provider));
      const expected = all.filter(({ provider }) => needing.has(provider));
      const wholes = all.filter((row) => row.accounts === "all" && isOurRow(row));
      expect(wholes.filter(({ state = "" }) => needsAction.test(state)).map(({ provider }) => provider)).toEqual(
        listedIn(book, rangeOf(month)).filter((provider) => isOpen(lineOf(book, { provider, range: rangeOf(month) }))),
      );
      expect(await rowsOf(side().browser, `${side().path}.csv?month=${month}&show=action`)).toEqual(expected);
      const { text: html } = await side().browser.get(`${side().path}?month=${month}&show=action`);
      const page = parsePage(html);
      const shown = tableOf(page, caption).flatMap(({ name }) =>
        providers.filter((provider) => name.startsWith(provider)),
      );
      expect(shown).toEqual([...needing].filter((provider = "") => books.isOurs(provider)).sort());
      expect(figuresOf(page)).toMatchObject(totalsOf(expected));
      expect(html).toContain(`.csv?month=${month}&amp;show=action`);
    },
  );
});

function readRow([metered, imported, byMetering, invoiced, byInvoice]: readonly Element[]) {
  return {
    amounts: [metered, imported, invoiced].map(exactAmount),
    imported: exactAmount(byMetering),
    importedPercent: percentIn(byMetering),
    invoiced: exactAmount(byInvoice),
    invoicedPercent: percentIn(byInvoice),
  };
}

function expectedRow(line: Line) {
  const differences = differencesOf(line);
  // A difference that rounds to zero is shown without its percentage.
  const isShown = (difference: string | null) => difference !== null && Math.abs(Number(difference)) >= 0.005;
  return {
    amounts: [
      line.metered === null ? null : text(line.metered),
      line.records > 0 ? text(line.imported) : null,
      line.invoices > 0 ? text(line.invoiced) : null,
    ],
    imported: differences.imported,
    importedPercent: isShown(differences.imported) ? differences.importedPercent : null,
    invoiced: differences.invoiced,
    invoicedPercent: isShown(differences.invoiced) ? differences.invoicedPercent : null,
  };
}

test.for(months)("the checklist for closing %s has the recomputed figures", async (month) => {
  const range = rangeOf(month);
  const [row] = await books.tenant.db.query<{ figures: Record<string, unknown>[] }>(
    "select ai.read_close_checklist($1, ai.platform_book(), $2) -> 'figures' as figures",
    [books.admin.id, month],
  );
  const expected = providers.sort().flatMap((provider) =>
    [null, "a", "b"].flatMap((accountId) => {
      const own = planted.platform.runs.filter(
        (run) => run.provider === provider && run.account === accountId && isIn(range, run.day),
      );
      const line = lineOf(planted.platform, { provider, range, account: accountId });
      if (own.length === 0 && line.records === 0 && line.invoices === 0) return [];
      const amounts = { meteredUsd: text(sum(own.map(({ cost }) => cost))), importedUsd: text(line.imported) };
      const counts = { runs: own.length, importedRecords: line.records, invoices: line.invoices };
      return [{ provider, accountId, ...amounts, invoicedUsd: text(line.invoiced), ...counts }];
    }),
  );
  expect(row?.figures.filter(({ provider }) => books.isOurs(String(provider)))).toEqual(expected);
});

describe("a provider's month in the platform's books", () => {
  const cases = providers.flatMap((provider) => months.map((month) => ({ provider, month })));

  test.for(cases)("days and workspaces of $provider in $month add up", async ({ provider, month }) => {
    const range = rangeOf(month);
    const line = lineOf(planted.platform, { provider, range });
    if (!isListed(line)) return;
    const path = `/admin/books/${month}/${provider}`;
    const runs = planted.platform.runs.filter((run) => run.provider === provider && isIn(range, run.day));
    const costs = countedCosts(planted.platform).filter(
      (cost) => cost.provider === provider && isIn(range, cost.at.slice(0, 10)),
    );
    const days = [...new Set([...runs.map(({ day }) => day), ...costs.map(({ at }) => at.slice(0, 10))])].sort();
    const figures = (day?: string, account?: string | null) => {
      const isOf = (record: { account: string | null }, on: string) =>
        (day === undefined || on === day) && (account === undefined || record.account === account);
      const [ownRuns, ownCosts] = [
        runs.filter((run) => isOf(run, run.day)),
        costs.filter((cost) => isOf(cost, cost.at.slice(0, 10))),
      ];
      const metered = sum(ownRuns.map(({ cost }) => cost));
      const imported = sum(ownCosts.map(({ amount: units }) => units));
      const isEmpty = ownRuns.length === 0 && ownCosts.length === 0;
      return { isEmpty, amounts: [text(metered), text(imported), text(imported - metered)] };
    };
    const accountsOn = (day: string) => [null, "a", "b"].filter((account) => !figures(day, account).isEmpty);
    const perAccount = days.flatMap((day) =>
      accountsOn(day).map((account) => [day, account ?? "", ...figures(day, account).amounts]),
    );
    const file = await rowsOf(books.admin.browser, `${path}/days.csv`);
    expect(file.map((row) => Object.values(row))).toEqual(perAccount);

    const { text: html, words } = await books.admin.browser.get(path);
    const shown = tableOf(parsePage(html), "Days").map(({ cells }) => cells.map(exactAmount));
    const expected = days.flatMap((day) => [
      figures(day).amounts,
      ...(accountsOn(day).length > 1 ? accountsOn(day).map((account) => figures(day, account).amounts) : []),
    ]);
    expect(shown).toEqual(days.length > 0 ? [...expected, figures().amounts] : []);
    const accounts = new Set(perAccount.map(([, account]) => account)).size;
    const inAccounts = accounts > 1 ? ` in ${accounts} accounts` : "";
    expect(words).toContain(`${days.length} day${days.length === 1 ? "" : "s"}${inAccounts}. Imported costs use`);

    const rows = await rowsOf(books.admin.browser, `${path}/workspaces.csv`);
    const total = (name: string) => text(sum(rows.map((row) => unitsOf(row[name] ?? "0"))));
    expect(total("metered_usd")).toBe(text(line.metered ?? 0n));
    expect(rows.reduce((many, { runs: count }) => many + Number(count), 0)).toBe(runs.length);
    const ownLine = lineOf(planted.own, { provider, range });
    expect([total("own_imported_usd"), total("own_invoiced_usd")]).toEqual([
      text(ownLine.imported),
      text(ownLine.invoiced),
    ]);
  });
});

describe("a workspace's API and comparison by provider", () => {
  const api = (path: string) => readApi(books.own.browser, { workspaceId: books.tenant.workspaceId, path });

  test.for(months)("the API's figures of %s are the recomputed ones", async (month) => {
    const range = rangeOf(month);
    const query = `?from=${range.first}T00:00:00Z&to=${plusDays(range.last, 1)}T00:00:00Z`;
    const { records, totals } = await api(`/reconciliation${query}`);
    const amounts = (line: Line) => ({
      meteredUsd: line.metered === null ? null : text(line.metered),
      importedUsd: text(line.imported),
      invoicedUsd: text(line.invoiced),
      importedDifferenceUsd: line.metered === null ? null : text(line.imported - line.metered),
      invoicedDifferenceUsd: text(line.invoiced - line.imported),
      runs: line.runs === null ? null : String(line.runs),
      importedRecords: String(line.records),
      invoices: String(line.invoices),
    });
    const listed = listedIn(planted.own, range);
    expect(records).toEqual(
      listed.map((provider) => ({
        ...{ month, provider, ...amounts(lineOf(planted.own, { provider, range })) },
        accounts: accountsOf(planted.own, { provider, range }).map((account) => ({
          accountId: account,
          ...amounts(lineOf(planted.own, { provider, range, account })),
        })),
      })),
    );
    const lines = listed.map((provider) => lineOf(planted.own, { provider, range }));
    const imported = text(sum(lines.map((line) => line.imported)));
    expect(totals).toMatchObject({
      meteredUsd: text(sum(lines.map(({ metered }) => metered ?? 0n))),
      importedUsd: imported,
      invoicedUsd: text(sum(lines.map(({ invoiced }) => invoiced))),
    });
    expect((await api(`/provider-costs${query}`)).totals.amountUsd).toBe(imported);
    const byProvider = await rowsOf(
      books.own.browser,
      `/workspaces/${books.tenant.workspaceId}/ai/costs-by-provider.csv?from=${range.first}&to=${range.last}`,
    );
    for (const row of byProvider) {
      const line = lineOf(planted.own, { provider: row.provider ?? "", range });
      expect(row).toMatchObject({
        metered_usd: text(line.metered ?? 0n),
        imported_usd: text(line.imported),
        imported_less_metered_usd: differencesOf(line).imported ?? "",
        imported_less_metered_percent: differencesOf(line).importedPercent ?? "",
      });
    }
  });
});
