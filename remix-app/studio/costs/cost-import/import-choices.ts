import { add, type Decimal, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { isLabel } from "#shared/labels.ts";
import type { ParsedFile, ParsedProvider } from "./parsed-file.ts";

/** What is imported, as the database takes it. */
export interface ImportDocument {
  provider: string;
  format: string;
  fileName: string;
  sha256: string;
  timeZone: string;
  /** US dollars for one unit, as a person entered them. */
  rates: Record<string, string>;
  days: { accountId: string; day: string; amounts: { currency: string; amount: string }[] }[];
}

/** A service of a bill, with its sums by currency. */
export interface ServiceSum {
  /** Null: lines that name none. */
  service: string | null;
  sums: { currency: string; amount: string }[];
}

/** What a person has chosen for a file, as it was typed. */
export interface ImportChoices {
  /** Which provider of the file, by its position. */
  source: number;
  provider: string;
  /** For lines that name no account. */
  account: string;
  rates: Record<string, string>;
  /** Positions in {@link servicesOf}; null for all. */
  services: readonly number[] | null;
}

/** What is wrong with choices, by the field's name. */
export type ImportErrors = Record<string, string>;

/** Account days of one import. */
export const mostDays = 20_000;
const rate = /^\d{1,9}(\.\d{1,12})?$/;

/** The name of a currency's field for its rate. */
export function rateField(currency: string): string {
  return `rate_${currency}`;
}

/** The name of a service's checkbox. */
export function serviceField(position: number): string {
  return `service_${position}`;
}

/** Returns a bill's services, the largest amount first. */
export function servicesOf({ days }: ParsedProvider): ServiceSum[] {
  const services = new Map<string | null, Map<string, Decimal>>();
  for (const { currency, amount, service } of days.flatMap(({ amounts }) => amounts)) {
    const sums = services.get(service) ?? new Map<string, Decimal>();
    services.set(service, sums);
    addTo(sums, currency, amount);
  }
  return [...services]
    .map(([service, sums]) => ({ service, sums: textsOf(sums) }))
    .toSorted((one, other) => sizeOf(other) - sizeOf(one) || String(one.service).localeCompare(String(other.service)));
}

/** Reads what was chosen in the review. A file that was just uploaded, or another provider of it, starts with everything. */
export function readChoices(form: FormData, { providers }: ParsedFile): ImportChoices {
  const text = (name: string) => String(form.get(name) ?? "").trim();
  const source = Math.min(Math.max(Number.parseInt(text("source"), 10) || 0, 0), providers.length - 1);
  const chosen = providers[source];
  const reviewed = form.get("reviewedSource") === String(source);
  const account = text("account");
  const rates = Object.fromEntries((chosen?.currencies ?? []).map((currency) => [currency, text(rateField(currency))]));
  return {
    source,
    provider: reviewed ? text("provider").toLowerCase() : (chosen?.provider ?? ""),
    account: account === "" && !reviewed ? "default" : account,
    rates,
    services: reviewed && chosen ? [...servicesOf(chosen).keys()].filter((at) => form.has(serviceField(at))) : null,
  };
}

/** Returns what choices make of a file, or what is wrong with them. */
export function documentOf(
  file: ParsedFile,
  { source, provider, account, rates, services }: ImportChoices,
): { document: ImportDocument } | { errors: ImportErrors } {
  const bill = file.providers[source];
  if (!bill) return { errors: { source: "Choose a provider" } };
  const named = servicesOf(bill);
  const wanted = services && new Set(services.map((at) => named[at]?.service));
  const days = new Map<string, { accountId: string; day: string; sums: Map<string, Decimal> }>();
  for (const { accountId: stated, day, amounts } of bill.days) {
    const accountId = stated ?? account;
    const key = JSON.stringify([day, accountId]);
    for (const { currency, amount, service } of amounts) {
      if (wanted && !wanted.has(service)) continue;
      const known = days.get(key) ?? { accountId, day, sums: new Map<string, Decimal>() };
      days.set(key, known);
      addTo(known.sums, currency, amount);
    }
  }
  const totals = [...days.values()].map(({ accountId, day, sums }) => ({ accountId, day, amounts: textsOf(sums) }));
  const currencies = new Set(totals.flatMap(({ amounts }) => amounts.map(({ currency }) => currency)));
  const foreign = [...currencies].filter((currency) => currency !== "USD");
  const errors: ImportErrors = {
    ...(isLabel(provider) ? {} : { provider: "Enter 1 to 128 letters, digits or . _ : - without spaces" }),
    ...(needsAccount(bill) && !isExternalId(account)
      ? { account: "Enter an account, without spaces at its ends" }
      : {}),
    ...(days.size === 0 ? { services: "Choose at least one service" } : {}),
    ...(days.size > mostDays ? { services: tooMany(days.size) } : {}),
    ...Object.fromEntries(foreign.filter((currency) => !isRate(rates[currency])).map(missingRate)),
  };
  if (Object.keys(errors).length > 0) return { errors };
  const { format, fileName, sha256 } = file;
  const entered = Object.fromEntries(foreign.map((currency) => [currency, rates[currency] ?? ""]));
  return { document: { provider, format, fileName, sha256, timeZone: bill.timeZone, rates: entered, days: totals } };
}

/** Whether lines of a bill name no account. */
export function needsAccount({ days }: ParsedProvider): boolean {
  return days.some(({ accountId }) => accountId === null);
}

function isRate(text: string | undefined): boolean {
  return text !== undefined && rate.test(text) && /[1-9]/.test(text);
}

function missingRate(currency: string): [string, string] {
  return [rateField(currency), `Enter how many US dollars 1 ${currency} is, such as 1.08`];
}

function isExternalId(text: string): boolean {
  return /^[^\p{Cc}]{1,256}$/u.test(text) && text.trim() === text;
}

function tooMany(days: number): string {
  return `This is ${days.toLocaleString("en")} days of accounts; an import has at most ${mostDays.toLocaleString("en")}. Choose fewer services, or a file of a shorter time.`;
}

function addTo(sums: Map<string, Decimal>, currency: string, amount: string): void {
  const sum = sums.get(currency);
  const exact = parseDecimal(amount);
  sums.set(currency, sum ? add(sum, exact) : exact);
}

function textsOf(sums: Map<string, Decimal>): { currency: string; amount: string }[] {
  return [...sums].map(([currency, amount]) => ({ currency, amount: formatDecimal(amount) }));
}

function sizeOf({ sums }: ServiceSum): number {
  return Math.max(...sums.map(({ amount }) => Math.abs(Number(amount))));
}
