import { randomUUID } from "node:crypto";
import { JSDOM } from "jsdom";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ConsoleAdmin, createConsoleAdmin } from "../../scripts/test/console-admin.ts";
import { createPerson, deletePerson, enter, type SignedInBrowser, tokenOf } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { join } from "../../supabase/tests/database.ts";
import { addRun } from "../../supabase/tests/finance/platform-book-fixtures.ts";
import { type AppTenant, createAppTenant } from "../../supabase/tests/gateway/app-tenant.ts";
import { createGatewayTenant, type GatewayTenant } from "../../supabase/tests/gateway/tenant.ts";

// Plants three months of random runs, costs and invoices, and recomputes every figure of the books from them. The
// arithmetic below shares no code with the product. Amounts are integers in units of 10^-12 USD. BOOKS_SEED
// repeats a run.

const seed = Number(process.env.BOOKS_SEED ?? 89);
const oneUsd = 10n ** 12n;
const platformId = "00000000-0000-0000-0000-000000000000";
const mark = randomUUID().slice(0, 8);

interface Run {
  /** An index into the workspaces. */
  workspace: number;
  provider: string;
  account: string | null;
  day: string;
  cost: bigint;
  /** Runs that the sweep closed name neither a billing provider nor an account. */
  isClosed: boolean;
  isEstimated: boolean;
}
interface Cost {
  provider: string;
  account: string | null;
  id: string;
  isDaily: boolean;
  service: string | null;
  amount: bigint;
  at: string;
  observed: string;
}
interface Invoice {
  provider: string;
  account: string | null;
  reference: string;
  isCredit: boolean;
  replaces: string | null;
  amount: bigint;
  issued: string;
  start: string | null;
  end: string | null;
  /** Set once it is recorded. */
  id?: string;
}
interface Book {
  runs: Run[];
  costs: Cost[];
  invoices: Invoice[];
}

/** Returns a generator of numbers from 0 to 1 (mulberry32). */
function createRandom(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
const random = createRandom(seed);
const chance = (probability: number) => random() < probability;
const integer = (below: number) => Math.floor(random() * below);
const pick = <Item>(items: readonly Item[]) => items[integer(items.length)] as Item;

/** Returns an amount below 1,000 USD with 2, 6 or 12 decimals. */
function amount(): bigint {
  const decimals = pick([2, 2, 6, 12]);
  return BigInt(1 + integer(10 ** (decimals === 12 ? 9 : decimals + 2))) * 10n ** BigInt(12 - decimals);
}

const now = new Date();
/** The months, as YYYY-MM. Other tests may have records of other providers in the platform's book. */
const months = [6, 5, 4].map((back) =>
  new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back)).toISOString().slice(0, 7),
);
const lengthOf = (month: string) => new Date(Date.UTC(+month.slice(0, 4), +month.slice(5), 0)).getUTCDate();
const firstOf = (month: string) => `${month}-01`;
const lastOf = (month: string) => `${month}-${lengthOf(month)}`;
const someDay = (month: string) => `${month}-${String(1 + integer(lengthOf(month))).padStart(2, "0")}`;
const plusDays = (day: string, days: number) =>
  new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
const daysBetween = (first: string, last: string) => (Date.parse(last) - Date.parse(first)) / 86_400_000 + 1;

type Profile = {
  /** The accounts that runs, costs and invoices name. Null is none. */
  runs: (string | null)[];
  costs: (string | null)[];
  invoices: (string | null)[];
  closed?: boolean;
  perRun?: boolean;
};
const profiles: Record<string, Profile> = {
  separate: { runs: ["a", "b"], costs: ["a", "b"], invoices: ["a", "b"] },
  joint: { runs: ["a", "b"], costs: ["a", "b"], invoices: [null] },
  perrun: { runs: ["a"], costs: ["a", null], invoices: ["a", null], perRun: true },
  unnamed: { runs: [null, "a"], costs: ["a"], invoices: [null] },
  unmetered: { runs: [], costs: ["a", null], invoices: ["a"] },
  closed: { runs: ["a"], costs: [null], invoices: ["a", "b"], closed: true },
};
const providers = Object.keys(profiles).map((name) => `${name}-${mark}`);

function plantBook(workspaces: readonly number[]): Book {
  const book: Book = { runs: [], costs: [], invoices: [] };
  for (const [name, profile] of Object.entries(profiles)) {
    const provider = `${name}-${mark}`;
    for (const month of months) {
      plantRuns(book, { provider, profile, month, workspaces });
      if (chance(0.85)) plantCosts(book, { provider, profile, month });
      if (chance(0.8)) plantInvoices(book, { provider, profile, month });
    }
  }
  return book;
}

type Place = { provider: string; profile: Profile; month: string };

function plantRuns(
  { runs }: Book,
  { provider, profile, month, workspaces }: Place & { workspaces: readonly number[] },
) {
  for (const account of profile.runs) {
    for (let left = integer(6); left > 0; left -= 1) {
      const cost = chance(0.15) ? 0n : amount();
      const run = { workspace: pick(workspaces), provider, account, day: someDay(month), cost };
      runs.push({ ...run, isClosed: false, isEstimated: chance(0.2) });
    }
  }
  if (!profile.closed) return;
  const cost = chance(0.5) ? 0n : amount();
  const run = { workspace: pick(workspaces), provider, account: null, day: someDay(month), cost };
  runs.push({ ...run, isClosed: true, isEstimated: false });
}

function plantCosts({ costs }: Book, { provider, profile, month }: Place) {
  // No two records are observed at the same time.
  const moment = () => `T${new Date(costs.length * 1_000).toISOString().slice(11, 19)}Z`;
  const add = (cost: Partial<Cost> & Pick<Cost, "account" | "at">) => {
    const id = `${provider}:${costs.length}`;
    const observed = `${plusDays(lastOf(month), 1 + integer(20))}${moment()}`;
    const planted = {
      provider,
      id,
      isDaily: false,
      service: null,
      amount: chance(0.1) ? 0n : amount(),
      observed,
      ...cost,
    };
    costs.push(planted);
    return planted;
  };
  for (const account of profile.costs) {
    for (let left = 1 + integer(5); left > 0; left -= 1) {
      const day = someDay(month);
      const isDaily = account !== null && (!profile.perRun || chance(0.5));
      const cost = add({ account, isDaily, at: isDaily ? `${day}T00:00:00Z` : `${day}T1${integer(10)}:59:59Z` });
      if (isDaily && chance(0.4)) add({ account, isDaily, at: cost.at, service: pick(["Text", "Images"]) });
      if (isDaily && chance(0.3)) add({ account, isDaily, at: cost.at });
      // Runs at both edges of a day with a daily total don't count.
      if (isDaily && profile.perRun) add({ account, at: `${day}T00:00:00Z` });
      if (isDaily && profile.perRun) add({ account, at: `${day}T23:59:59Z` });
      // A later observation corrects the record, and an earlier one is ignored.
      if (chance(0.3)) costs.push({ ...cost, amount: amount(), observed: `${plusDays(lastOf(month), 40)}${moment()}` });
      if (chance(0.2)) costs.push({ ...cost, amount: amount(), observed: `${lastOf(month)}T23:59:59Z` });
    }
  }
}

function plantInvoices({ invoices }: Book, { provider, profile, month }: Place) {
  const period = () =>
    pick([
      { start: null, end: null },
      { start: firstOf(month), end: null },
      { start: null, end: lastOf(month) },
      { start: firstOf(month), end: lastOf(month) },
      { start: someDay(month), end: plusDays(lastOf(month), integer(70)) },
      { start: firstOf(months[0] ?? ""), end: lastOf(months[2] ?? "") },
    ]);
  const add = (invoice: Pick<Invoice, "account"> & Partial<Invoice>) => {
    const reference = `INV-${invoices.length}`;
    const planted = {
      ...{
        provider,
        reference,
        isCredit: false,
        replaces: null,
        amount: amount() * 3n,
        issued: lastOf(month),
        ...period(),
      },
      ...invoice,
    };
    invoices.push(planted);
    return planted;
  };
  for (const account of profile.invoices) {
    if (chance(0.2)) continue;
    const first = add({ account });
    if (chance(0.4)) {
      const second = add({ account, replaces: first.reference });
      if (chance(0.4)) add({ account, replaces: second.reference });
    }
    if (chance(0.4)) {
      const credit = add({ account, isCredit: true, amount: amount() });
      if (chance(0.4)) add({ account, isCredit: true, amount: amount(), replaces: credit.reference });
    }
  }
}

// The arithmetic.

const sum = (amounts: readonly bigint[]) => amounts.reduce((total, one) => total + one, 0n);

/** Writes an amount without trailing zeros. */
function text(units: bigint, decimals = 12): string {
  const digits = (units < 0n ? -units : units).toString().padStart(decimals + 1, "0");
  const fraction = digits.slice(-decimals).replace(/0+$/, "");
  return `${units < 0n ? "-" : ""}${digits.slice(0, -decimals)}${fraction ? `.${fraction}` : ""}`;
}

/** Divides and rounds a half away from zero. Both numbers are positive. */
const divideHalfUp = (part: bigint, whole: bigint) => (part * 2n + whole) / (whole * 2n);

/** Returns a difference in percent of its base with 12 decimals, a half rounded to even. */
function percent(difference: bigint, base: bigint): string | null {
  if (base === 0n) return null;
  const [part, whole] = [difference * 100n * oneUsd, base];
  const isNegative = part < 0n !== whole < 0n;
  const [size, by] = [part < 0n ? -part : part, whole < 0n ? -whole : whole];
  const twiceRest = (size % by) * 2n;
  const floor = size / by;
  const rounded = twiceRest > by || (twiceRest === by && floor % 2n === 1n) ? floor + 1n : floor;
  return text(isNegative ? -rounded : rounded);
}

/** Returns the costs that count: the last observation of each record, and daily totals instead of what they cover. */
function countedCosts({ costs }: Book): Cost[] {
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

const countedInvoices = ({ invoices }: Book) =>
  invoices.filter(
    (invoice) =>
      !invoices.some(
        (other) =>
          other.replaces === invoice.reference &&
          other.provider === invoice.provider &&
          other.account === invoice.account,
      ),
  );

function periodOf({ start, end, issued }: Invoice): { first: string; last: string } {
  const month = (start ?? end ?? issued).slice(0, 7);
  return { first: start ?? firstOf(month), last: end ?? lastOf(month) };
}

/** Returns the days of an invoice within a range and their share of its amount, or null if there are none. */
function shareOf(invoice: Invoice, range: { first: string; last: string }) {
  const period = periodOf(invoice);
  const [, first = ""] = [period.first, range.first].sort();
  const [last = ""] = [period.last, range.last].sort();
  if (first > last) return null;
  const length = BigInt(daysBetween(period.first, period.last));
  const until = (day: string) => divideHalfUp(invoice.amount * BigInt(daysBetween(period.first, day)), length);
  const share = until(last) - (first === period.first ? 0n : until(plusDays(first, -1)));
  return { first, last, amount: invoice.isCredit ? -share : share };
}

type Range = { first: string; last: string };
const rangeOf = (month: string): Range => ({ first: firstOf(month), last: lastOf(month) });
const isIn = ({ first, last }: Range, day: string) => day >= first && day <= last;

interface Line {
  metered: bigint | null;
  imported: bigint;
  invoiced: bigint;
  runs: number | null;
  records: number;
  invoices: number;
}

/** Computes a provider's figures in a range: of all accounts, or of one (null is none). */
function lineOf(
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
function accountsOf(book: Book, { provider, range }: { provider: string; range: Range }): (string | null)[] {
  return [null, "a", "b"].filter((account) => {
    const { records, invoices, runs } = lineOf(book, { provider, range, account });
    return records > 0 || invoices > 0 || (account !== null && (runs ?? 0) > 0);
  });
}

const isListed = ({ runs, records, invoices }: Line) => (runs ?? 0) > 0 || records > 0 || invoices > 0;
const listedIn = (book: Book, range: Range) =>
  providers.filter((provider) => isListed(lineOf(book, { provider, range }))).sort();

// Reading pages and files.

/** Reads the exact amount of a cell; null for a dash. */
function exactAmount(cell: Element | null | undefined): string | null {
  const title = cell?.querySelector(".amount")?.getAttribute("title");
  return title == null ? null : canonical(title);
}

/** Turns "−$1,234.50" into "-1234.5". */
function canonical(shown: string): string {
  const plain = shown.replace("−", "-").replace(/[$,]/g, "");
  return plain.includes(".") ? plain.replace(/\.?0+$/, "") : plain;
}

const percentIn = (cell: Element | undefined) =>
  cell?.querySelector('[title$="%"]')?.getAttribute("title")?.replace("−", "-").replace("%", "") ?? null;

const documentOf = (html: string) => new JSDOM(html, { url: readStack().base }).window.document;

function tableOf(html: string, caption: string): { name: string; cells: Element[] }[] {
  const tables = [...documentOf(html).querySelectorAll("table")];
  const table = tables.find((each) => each.querySelector("caption")?.textContent === caption);
  return [...(table?.querySelectorAll("tbody tr") ?? [])].map((row) => {
    const name = row.querySelector("th")?.cloneNode(true) as Element;
    for (const below of name.querySelectorAll(".below")) below.remove();
    return { name: name.textContent ?? "", cells: [...row.querySelectorAll("td")] };
  });
}

function figuresOf(html: string): Record<string, string | null> {
  const terms = [...documentOf(html).querySelectorAll("dl dt")];
  return Object.fromEntries(terms.map((term) => [term.textContent, exactAmount(term.nextElementSibling)]));
}

async function rowsOf(browser: SignedInBrowser, path: string): Promise<Record<string, string>[]> {
  const { status, text: file } = await browser.get(path);
  expect([path, status]).toEqual([path, 200]);
  const [head = [], ...rows] = file
    .trim()
    .split("\r\n")
    .map((row) => row.split(","));
  return rows.map((row) => Object.fromEntries(head.map((name, at) => [name, row[at] ?? ""])));
}

const isOurs = (name: string) => name.includes(mark);
const isOurRow = ({ provider, ProviderName }: Record<string, string>) => isOurs(provider ?? ProviderName ?? "");

/** Returns the totals of a reconciliation's file. It also has the providers of other tests. */
function totalsOf(file: readonly Record<string, string>[]) {
  const wholes = file.filter(({ accounts }) => accounts === "all");
  const total = (name: string) => text(sum(wholes.map((row) => unitsOf(row[name] ?? ""))));
  return { Metered: total("metered_usd"), Imported: total("imported_usd"), Invoiced: total("invoiced_usd") };
}

/** Parses JSON without losing digits: numbers become texts. */
function parseExact(json: string) {
  const keep = (_: string, value: unknown, context?: { source?: string }) =>
    typeof value === "number" ? context?.source : value;
  return JSON.parse(json, keep as (key: string, value: unknown) => unknown);
}

// The books.

let admin: ConsoleAdmin;
let member: { id: string; browser: SignedInBrowser };
let tenant: AppTenant;
let other: GatewayTenant;
const own = plantBook([0]);
const platform = { ...plantBook([0, 1]) };
// The platform meters the runs of all workspaces.
platform.runs = [...platform.runs.map((run) => ({ ...run, workspace: 1 })), ...own.runs];

beforeAll(async () => {
  const person = await createPerson();
  [admin, tenant, other] = await Promise.all([createConsoleAdmin(), createAppTenant(), createGatewayTenant()]);
  await join(tenant.db, { workspaceId: tenant.workspaceId, userId: person.id, role: "member" });
  member = { id: person.id, browser: await enter(person) };
  for (const { workspace, provider, account, day, cost, isClosed, isEstimated } of platform.runs) {
    await addRun(tenant.db, {
      workspaceId: workspace === 0 ? tenant.workspaceId : other.workspaceId,
      day,
      costUsd: text(cost),
      billedBy: isClosed ? null : provider,
      account,
      providerId: provider,
      usageSource: isEstimated ? "estimated_partial" : "provider",
      swept: isClosed,
    });
  }
  await record(own, { memberId: member.id, bookId: tenant.workspaceId, appId: tenant.appId });
  await record(platform, { memberId: admin.id, bookId: platformId, appId: platformId });
}, 120_000);
afterAll(async () => {
  await deletePerson(admin);
  await Promise.all([tenant.close(), other.close()]);
});

async function record({ costs, invoices }: Book, to: { memberId: string; bookId: string; appId: string }) {
  const given = (value: string | null, name: string) => (value === null ? {} : { [name]: value });
  for (const { provider, account, id, isDaily, service, amount: units, at, observed } of costs) {
    const cost = { provider, externalRunId: id, amountUsd: text(units), occurredAt: at, observedAt: observed };
    const rest = {
      ...given(account, "accountId"),
      ...given(service, "service"),
      granularity: isDaily ? "account_day" : "run",
    };
    const [row] = await tenant.db.query<{ answer: { outcome?: string } }>(
      "select ai.store_provider_cost($1, $2, $3) as answer",
      [to.bookId, to.appId, JSON.stringify({ ...cost, ...rest })],
    );
    expect(["stored", "corrected", "stale"]).toContain(row?.answer.outcome);
  }
  for (const invoice of invoices) {
    const { provider, account, reference, isCredit, replaces, amount: units, issued, start, end } = invoice;
    const entry = {
      ...{ provider, reference, kind: isCredit ? "credit_note" : "invoice", amountUsd: text(units), issuedOn: issued },
      ...{ reviewedAt: `${issued}T12:00:00Z`, ...given(account, "accountId"), ...given(replaces, "replaces") },
      ...{ ...given(start, "periodStart"), ...given(end, "periodEnd") },
    };
    const change = { reason: "test" };
    const [row] = await tenant.db.query<{ answer: { id: string } }>(
      "select ai.record_provider_invoice($1, $2, $3, $4, $5) as answer",
      [to.memberId, to.bookId, to.appId, JSON.stringify(entry), JSON.stringify(change)],
    );
    expect(row?.answer).toMatchObject({ outcome: "stored" });
    if (row) invoice.id = row.answer.id;
  }
}

type Side = { name: string; book: Book; path: string; browser: () => SignedInBrowser };
const sides: Side[] = [
  { name: "the platform", book: platform, path: "/admin/books", browser: () => admin.browser },
  { name: "a workspace", book: own, path: "", browser: () => member.browser },
];
const pathOf = ({ path }: Side) => path || `/workspaces/${tenant.workspaceId}/ai/reconciliation`;
const invoicesOf = ({ path }: Side) => (path ? `${path}/invoices` : `/workspaces/${tenant.workspaceId}/ai/invoices`);

/** Returns the differences that a complete line shows: null where nothing can be compared. */
function differencesOf({ metered, imported, invoiced, records, invoices }: Line) {
  const known = records > 0 && metered !== null ? { metered, difference: imported - metered } : null;
  const isInvoiced = records > 0 && invoices > 0;
  return {
    imported: known && text(known.difference),
    importedPercent: known && percent(known.difference, known.metered),
    invoiced: isInvoiced ? text(invoiced - imported) : null,
    invoicedPercent: isInvoiced ? percent(invoiced - imported, imported) : null,
  };
}

describe.each(sides)(`the books of $name (seed ${seed})`, (side) => {
  const { book } = side;

  test.for(months)("the reconciliation page of %s shows the recomputed figures", async (month) => {
    const range = rangeOf(month);
    const { text: html } = await side.browser().get(`${pathOf(side)}?month=${month}`);
    const rows = tableOf(html, "Metered, imported and invoiced by provider and account");
    const file = await rowsOf(side.browser(), `${pathOf(side)}.csv?month=${month}`);
    expect(figuresOf(html)).toMatchObject(totalsOf(file));
    const starts = rows.flatMap(({ name }, at) => (/^(Account |Without an account$)/.test(name) ? [] : [at]));
    const groups = starts
      .map((at, place) => rows.slice(at, starts[place + 1]))
      .filter(([row]) => row && isOurs(row.name));
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
    const unmetered = rows.find(({ name }) => name.startsWith(`unmetered-${mark}`));
    const line = lineOf(book, { provider: `unmetered-${mark}`, range });
    if (line.imported !== 0n || line.invoiced !== 0n) {
      expect(unmetered?.cells.at(-1)?.textContent).toMatch(/^Not metered/);
    }
  });

  test.for(months)("the reconciliation CSV of %s has the recomputed figures", async (month) => {
    const range = rangeOf(month);
    const rows = (await rowsOf(side.browser(), `${pathOf(side)}.csv?month=${month}`)).filter(isOurRow);
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

  test.for(months)("the FOCUS file of %s has each counted cost and each invoice's share", async (month) => {
    const range = rangeOf(month);
    const costs = countedCosts(book).filter(({ at }) => isIn(range, at.slice(0, 10)));
    const shares = countedInvoices(book).flatMap((invoice) => {
      const share = shareOf(invoice, range);
      return share ? [{ ...share, invoice }] : [];
    });
    const charge = (type: string, record: { provider: string; account: string | null }, days: Range) => ({
      x_RecordType: type,
      ProviderName: record.provider,
      BillingAccountId: record.account ?? "none",
      ChargePeriodStart: `${days.first}T00:00:00Z`,
      ChargePeriodEnd: `${plusDays(days.last, 1)}T00:00:00Z`,
    });
    const expected = [
      ...costs.map((cost) => ({
        ...charge("imported_cost", cost, { first: cost.at.slice(0, 10), last: cost.at.slice(0, 10) }),
        ...{ BilledCost: "0", EffectiveCost: text(cost.amount), x_RecordId: cost.id },
      })),
      ...shares.map(({ invoice, first, last, amount: share }) => ({
        ...charge(invoice.isCredit ? "credit_note" : "invoice", invoice, { first, last }),
        ...{ BilledCost: text(share), EffectiveCost: "0", x_RecordId: invoice.id ?? "" },
      })),
    ];
    const rows = (await rowsOf(side.browser(), `${pathOf(side)}.focus.csv?month=${month}`)).filter(isOurRow);
    const names = Object.keys(expected[0] ?? {});
    const charges = rows.map((row) => Object.fromEntries(names.map((name) => [name, row[name]])));
    expect(sorted(charges)).toEqual(sorted(expected));
  });

  test("each invoice's receipt compares the scope that it names", async () => {
    for (const invoice of book.invoices) {
      const { provider, account, reference } = invoice;
      const range = periodOf(invoice);
      const scope = account === null ? {} : { account };
      const line = lineOf(book, { provider, range, ...scope });
      const isCounted = countedInvoices(book).includes(invoice);
      const others = countedInvoices(book).filter(
        (each) => each !== invoice && each.provider === provider && (account === null || each.account === account),
      );
      const shares = others.flatMap((each) => shareOf(each, range) ?? []);
      const signed = isCounted ? (invoice.isCredit ? -invoice.amount : invoice.amount) : 0n;
      const otherAmount = sum(shares.map((share) => share.amount));
      const { text: html, words } = await side.browser().get(`${invoicesOf(side)}/${invoice.id}`);
      expect(words).toContain(
        account === null ? `all accounts of ${provider}` : `account ${account} of ${provider} only`,
      );
      const figures = Object.entries(figuresOf(html));
      const of = (pattern: RegExp) => figures.find(([term]) => pattern.test(term))?.[1] ?? null;
      expect([reference, of(/^Metered/), of(/^Imported/), of(/^This /), of(/^\d+ other/), of(/ − imported$/)]).toEqual([
        reference,
        line.metered === null ? null : text(line.metered),
        line.records > 0 ? text(line.imported) : null,
        text(signed),
        shares.length > 0 ? text(otherAmount) : null,
        line.records > 0 ? text(signed + otherAmount - line.imported) : null,
      ]);
    }
  });

  test.for(months)(
    "the filter of %s lists the providers that need action, with their totals and their file",
    async (month) => {
      const caption = "Metered, imported and invoiced by provider and account";
      const needsAction =
        /^(Not metered|Nothing reported|Costs missing|Invoice missing|Invoice differs|Metering differs)/;
      const all = await rowsOf(side.browser(), `${pathOf(side)}.csv?month=${month}`);
      const needing = new Set(all.filter(({ state = "" }) => needsAction.test(state)).map(({ provider }) => provider));
      const expected = all.filter(({ provider }) => needing.has(provider));
      expect(await rowsOf(side.browser(), `${pathOf(side)}.csv?month=${month}&show=action`)).toEqual(expected);
      const { text: html } = await side.browser().get(`${pathOf(side)}?month=${month}&show=action`);
      const shown = tableOf(html, caption).flatMap(({ name }) =>
        providers.filter((provider) => name.startsWith(provider)),
      );
      expect(shown).toEqual([...needing].filter((provider = "") => isOurs(provider)).sort());
      expect(figuresOf(html)).toMatchObject(totalsOf(expected));
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

const sorted = (rows: readonly object[]) => rows.map((row) => JSON.stringify(row)).sort();

describe("a provider's month in the platform's books", () => {
  const cases = providers.flatMap((provider) => months.map((month) => ({ provider, month })));

  test.for(cases)("days and workspaces of $provider in $month add up", async ({ provider, month }) => {
    const range = rangeOf(month);
    const line = lineOf(platform, { provider, range });
    if (!isListed(line)) return;
    const path = `/admin/books/${month}/${provider}`;
    const runs = platform.runs.filter((run) => run.provider === provider && isIn(range, run.day));
    const costs = countedCosts(platform).filter(
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
    const file = await rowsOf(admin.browser, `${path}/days.csv`);
    expect(file.map((row) => Object.values(row))).toEqual(perAccount);

    const { text: html, words } = await admin.browser.get(path);
    const shown = tableOf(html, "Days").map(({ cells }) => cells.map(exactAmount));
    const expected = days.flatMap((day) => [
      figures(day).amounts,
      ...(accountsOn(day).length > 1 ? accountsOn(day).map((account) => figures(day, account).amounts) : []),
    ]);
    expect(shown).toEqual(days.length > 0 ? [...expected, figures().amounts] : []);
    const accounts = new Set(perAccount.map(([, account]) => account)).size;
    const inAccounts = accounts > 1 ? ` in ${accounts} accounts` : "";
    expect(words).toContain(`${days.length} day${days.length === 1 ? "" : "s"}${inAccounts}. Imported costs use`);

    const rows = await rowsOf(admin.browser, `${path}/workspaces.csv`);
    const total = (name: string) => text(sum(rows.map((row) => unitsOf(row[name] ?? "0"))));
    expect(total("metered_usd")).toBe(text(line.metered ?? 0n));
    expect(rows.reduce((many, { runs: count }) => many + Number(count), 0)).toBe(runs.length);
    const ownLine = lineOf(own, { provider, range });
    expect([total("own_imported_usd"), total("own_invoiced_usd")]).toEqual([
      text(ownLine.imported),
      text(ownLine.invoiced),
    ]);
  });
});

function unitsOf(shown: string): bigint {
  const [whole = "", fraction = ""] = shown.replace("-", "").split(".");
  const units = BigInt(whole + fraction.padEnd(12, "0"));
  return shown.startsWith("-") ? -units : units;
}

describe("a workspace's API and comparison by provider", () => {
  const api = async (path: string) => {
    const response = await fetch(new URL(`/api/v1/workspaces/${tenant.workspaceId}/ai${path}`, readStack().base), {
      headers: { authorization: `Bearer ${tokenOf(member.browser)}` },
    });
    expect([path, response.status]).toEqual([path, 200]);
    return parseExact(await response.text());
  };

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
    const listed = listedIn(own, range);
    expect(records).toEqual(
      listed.map((provider) => ({
        ...{ month, provider, ...amounts(lineOf(own, { provider, range })) },
        accounts: accountsOf(own, { provider, range }).map((account) => ({
          accountId: account,
          ...amounts(lineOf(own, { provider, range, account })),
        })),
      })),
    );
    const lines = listed.map((provider) => lineOf(own, { provider, range }));
    const imported = text(sum(lines.map((line) => line.imported)));
    expect(totals).toMatchObject({
      meteredUsd: text(sum(lines.map(({ metered }) => metered ?? 0n))),
      importedUsd: imported,
      invoicedUsd: text(sum(lines.map(({ invoiced }) => invoiced))),
    });
    expect((await api(`/provider-costs${query}`)).totals.amountUsd).toBe(imported);
    const byProvider = await rowsOf(
      member.browser,
      `/workspaces/${tenant.workspaceId}/ai/costs-by-provider.csv?from=${range.first}&to=${range.last}`,
    );
    for (const row of byProvider) {
      const line = lineOf(own, { provider: row.provider ?? "", range });
      expect(row).toMatchObject({
        metered_usd: text(line.metered ?? 0n),
        imported_usd: text(line.imported),
        imported_less_metered_usd: differencesOf(line).imported ?? "",
        imported_less_metered_percent: differencesOf(line).importedPercent ?? "",
      });
    }
  });

  test("the API's total of invoices is the sum of those that count", async () => {
    const { totals } = await api("/provider-invoices");
    const amounts = countedInvoices(own).map((invoice) => (invoice.isCredit ? -invoice.amount : invoice.amount));
    expect(totals.amountUsd).toBe(text(sum(amounts)));
  });
});
