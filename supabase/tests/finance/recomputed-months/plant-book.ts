import { dayOf, lastOf, lengthOf, plusDays } from "./calendar.ts";
import { divideHalfUp, one, sum } from "./decimals.ts";
import { findRate, plantInvoices } from "./plant-invoices.ts";
import type { Random } from "./random.ts";

export interface Run {
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
export interface Cost {
  provider: string;
  account: string | null;
  id: string;
  isDaily: boolean;
  service: string | null;
  amount: bigint;
  at: string;
  observed: string;
  isOfFile: boolean;
}
/** A file of daily totals in several currencies. */
export interface CostFile {
  provider: string;
  rates: Record<string, bigint>;
  days: { account: string; day: string; amounts: { currency: string; amount: bigint }[] }[];
}
/** The amounts on an invoice, in its currency. */
export interface Money {
  currency: string;
  /** USD for one unit. */
  rate: bigint;
  /** Whether the rate is left empty and comes from the month's imported file. */
  isPrefilled: boolean;
  net: bigint;
  tax: bigint;
  /** The amounts that a person types. The third is computed. */
  typed: readonly ("net" | "tax" | "total")[];
  /** Whether an app sends it. */
  isSent: boolean;
}
export interface Invoice {
  provider: string;
  account: string | null;
  reference: string;
  isCredit: boolean;
  replaces: string | null;
  /** In USD. */
  amount: bigint;
  money: Money | null;
  issued: string;
  start: string | null;
  end: string | null;
  /** Set once it is recorded. */
  id?: string;
}
export interface Book {
  runs: Run[];
  costs: Cost[];
  files: CostFile[];
  invoices: Invoice[];
}

export type Profile = {
  /** The accounts that runs, costs and invoices name. Null is none. */
  runs: (string | null)[];
  costs: (string | null)[];
  invoices: (string | null)[];
  closed?: boolean;
  perRun?: boolean;
  /** Its costs are imported from files in other currencies. */
  foreign?: boolean;
};
export const profiles: Record<string, Profile> = {
  separate: { runs: ["a", "b"], costs: ["a", "b"], invoices: ["a", "b"] },
  joint: { runs: ["a", "b"], costs: ["a", "b"], invoices: [null] },
  perrun: { runs: ["a"], costs: ["a", null], invoices: ["a", null], perRun: true },
  unnamed: { runs: [null, "a"], costs: ["a"], invoices: [null] },
  unmetered: { runs: [], costs: ["a", null], invoices: ["a"] },
  closed: { runs: ["a"], costs: [null], invoices: ["a", "b"], closed: true },
  foreign: { runs: ["a", "b"], costs: ["a", "b"], invoices: ["a", "b"], foreign: true },
};

/** What is planted for a provider in a month. */
export type Place = {
  provider: string;
  profile: Profile;
  months: readonly string[];
  month: string;
  random: Random;
};

/** Plants a book of random records. The mark is part of the providers' names. */
export function plantBook(
  random: Random,
  { mark, months, workspaces }: { mark: string; months: readonly string[]; workspaces: readonly number[] },
): Book {
  const book: Book = { runs: [], costs: [], files: [], invoices: [] };
  for (const [name, profile] of Object.entries(profiles)) {
    for (const month of months) {
      const place = { provider: `${name}-${mark}`, profile, months, month, random };
      plantRuns(book, { ...place, workspaces });
      if (profile.foreign) plantFile(book, place);
      else if (random.chance(0.85)) plantCosts(book, place);
      if (profile.foreign || random.chance(0.8)) plantInvoices(book, place);
    }
  }
  for (const invoice of book.invoices) findRate(book, { invoice, random });
  return book;
}

const someDay = (random: Random, month: string) => dayOf(month, 1 + random.integer(lengthOf(month)));

function plantRuns({ runs }: Book, { workspaces, ...place }: Place & { workspaces: readonly number[] }): void {
  const { provider, profile, month, random } = place;
  for (const account of profile.runs) {
    for (let left = random.integer(6); left > 0; left -= 1) {
      const cost = random.chance(0.15) ? 0n : random.amount();
      const run = { workspace: random.pick(workspaces), provider, account, day: someDay(random, month), cost };
      runs.push({ ...run, isClosed: false, isEstimated: random.chance(0.2) });
    }
  }
  if (!profile.closed) return;
  const cost = random.chance(0.5) ? 0n : random.amount();
  const run = { workspace: random.pick(workspaces), provider, account: null, day: someDay(random, month), cost };
  runs.push({ ...run, isClosed: true, isEstimated: false });
}

function plantCosts({ costs }: Book, { provider, profile, month, random }: Place): void {
  const { chance, integer, pick, amount } = random;
  // No two records are observed at the same time.
  const moment = () => `T${new Date(costs.length * 1_000).toISOString().slice(11, 19)}Z`;
  const add = (cost: Partial<Cost> & Pick<Cost, "account" | "at">) => {
    const id = `${provider}:${costs.length}`;
    const observed = `${plusDays(lastOf(month), 1 + integer(20))}${moment()}`;
    const ofRun = { provider, id, isDaily: false, service: null, observed, isOfFile: false };
    const planted = { ...ofRun, amount: chance(0.1) ? 0n : amount(), ...cost };
    costs.push(planted);
    return planted;
  };
  for (const account of profile.costs) {
    for (let left = 1 + integer(5); left > 0; left -= 1) {
      const day = someDay(random, month);
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

const rateDecimals = [4, 6, 12];

/** Returns an exchange rate below 10. */
export function someRate({ integer, pick }: Random): bigint {
  const decimals = pick(rateDecimals);
  return BigInt(1 + integer(10 ** Math.min(decimals, 9))) * 10n ** BigInt(12 - decimals);
}

/** Plants the month's file, and sometimes a second one that corrects days and has other rates. */
function plantFile(book: Book, { provider, profile, month, random }: Place): void {
  for (let file = random.chance(0.5) ? 2 : 1; file > 0; file -= 1) {
    const rates = Object.fromEntries(["EUR", "GBP", "JPY"].map((currency) => [currency, someRate(random)]));
    const days = profile.costs.flatMap((account) =>
      account === null
        ? []
        : [...new Set(Array.from({ length: 4 }, () => someDay(random, month)))].map((day) => ({
            account,
            day,
            amounts: ["EUR", "USD", "GBP"]
              .slice(0, 1 + random.integer(3))
              .map((currency) => ({ currency, amount: random.amount() })),
          })),
    );
    book.files.push({ provider, rates, days });
    for (const { account, day, amounts } of days) {
      const exact = sum(amounts.map(({ currency, amount }) => amount * (rates[currency] ?? one)));
      book.costs.push({
        ...{ provider, account, id: `${provider}-costs:${account}:${day}`, isDaily: true, service: null },
        ...{ amount: divideHalfUp(exact, one), at: `${day}T00:00:00Z` },
        // A file is observed when it is imported, in this order.
        observed: `9999-01-01T00:00:${String(book.files.length).padStart(2, "0")}Z`,
        isOfFile: true,
      });
    }
  }
}
