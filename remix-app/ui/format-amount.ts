import { z } from "zod";
import { jsonNumber } from "#shared/raw-json.ts";

/**
 * Formats dollars for display: two decimals from $0.10 on, two significant digits below. The exact amount is shown next
 * to it, on hover and in files.
 * @param amount exact decimal string
 * @param decimals the number of decimals of all amounts in the column
 */
export function formatUsd(amount: string, decimals?: number): string {
  const size = formatCredits(amount.replace("-", ""), decimals);
  if (size.startsWith("<")) return Number(amount) < 0 ? `>−$${size.slice(1)}` : `<$${size.slice(1)}`;
  return `${Number(amount) < 0 ? "−" : ""}$${size}`;
}

/**
 * Formats a dollar amount that is shown as part of a whole. Shows the exact amount if the part and the whole differ but
 * would round to the same text.
 * @param part exact decimal string
 * @param whole exact decimal string
 */
export function formatUsdPart(part: string, whole: string): string {
  const alike = formatUsd(part) === formatUsd(whole) && Number(part) !== Number(whole);
  return alike ? formatExactUsd(part) : formatUsd(part);
}

/**
 * Formats dollars exactly, with thousands separators and at least two decimals.
 * @param amount exact decimal string
 */
export function formatExactUsd(amount: string): string {
  const [whole = "", cents = ""] = amount.replace("-", "").split(".");
  return `${amount.startsWith("-") ? "−" : ""}$${counts.format(BigInt(whole))}.${cents.padEnd(2, "0")}`;
}

/**
 * Formats credits exactly, with thousands separators: "11,385.105".
 * @param amount exact decimal string
 */
export function formatExactCredits(amount: string): string {
  const [whole = "", fraction] = amount.replace("-", "").split(".");
  return `${amount.startsWith("-") ? "−" : ""}${counts.format(BigInt(whole))}${fraction === undefined ? "" : `.${fraction}`}`;
}

/**
 * Formats credits for display, like formatUsd.
 * @param amount exact decimal string
 */
export function formatCredits(amount: string, decimals?: number): string {
  const value = Number(amount);
  if (decimals !== undefined) {
    const least = 10 ** -decimals;
    if (value === 0 || Math.abs(value) >= least / 2) return typesetMinus(fixedAmounts(decimals).format(value));
    return `${value < 0 ? ">−" : "<"}${fixedAmounts(decimals).format(least)}`;
  }
  return typesetMinus((value !== 0 && Math.abs(value) < 0.0995 ? smallAmounts : amounts).format(value));
}

/**
 * Formats an amount in any currency: dollars like formatUsd, other currencies with their code, such as "10.50 EUR".
 * @param props.amount exact decimal string
 */
export function formatMoney({ amount, currency }: { amount: string; currency: string }): string {
  return currency === "USD" ? formatUsd(amount) : `${formatCredits(amount)} ${currency}`;
}

/**
 * Formats an amount exactly, with its currency, like {@link formatMoney}, and with at least the decimals of the currency's
 * smallest unit: "477.40 EUR", "1,000 JPY".
 */
export function formatExactMoney({ amount, currency }: { amount: string; currency: string }): string {
  if (currency === "USD") return formatExactUsd(amount);
  const { minimumFractionDigits: unit = 0 } = new Intl.NumberFormat("en", {
    style: "currency",
    currency,
  }).resolvedOptions();
  const [whole = "", fraction = ""] = amount.split(".");
  const padded = unit > 0 ? `${whole}.${fraction.padEnd(unit, "0")}` : amount;
  return `${formatExactCredits(padded)} ${currency}`;
}

/** Replaces a number's hyphen with a minus sign (U+2212). */
export function typesetMinus(number: string): string {
  return number.replace("-", "−");
}

// Created once, because creating a formatter takes longer than rendering a table row.
const amounts = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const smallAmounts = new Intl.NumberFormat("en", { maximumSignificantDigits: 2, maximumFractionDigits: 12 });
const counts = new Intl.NumberFormat("en");
const shortCounts = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** The maximum number of decimals in a column. An amount that would round to 0 is shown as less than 0.000001. */
const maxDecimals = 6;
const fixedFormats = new Map<number, Intl.NumberFormat>();

function fixedAmounts(decimals: number): Intl.NumberFormat {
  const format =
    fixedFormats.get(decimals) ??
    new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  fixedFormats.set(decimals, format);
  return format;
}

/**
 * Returns the number of decimals for all amounts in a column: enough for two digits of the smallest amount, from 2 to
 * 6.
 * @param amounts exact decimal strings; null if the workspace hides them
 */
export function columnDecimals(amounts: readonly (string | null)[]): number {
  const sizes = amounts.map((amount) => Math.abs(Number(amount))).filter((size) => size > 0);
  if (sizes.length === 0) return 2;
  const first = Math.floor(Math.log10(Math.min(...sizes)));
  return Math.min(maxDecimals, Math.max(2, 1 - first));
}

/** Formats a count in full: 1,234,567. */
export function formatCount(count: number): string {
  return count < 1_000 && Number.isInteger(count) && count >= 0 ? String(count) : counts.format(count);
}

/** Returns a count with its noun, in full: "1 session", "1,200 sessions". */
export function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Formats a count for small spaces: 1.2M. */
export function formatShortCount(count: number): string {
  return shortCounts.format(count);
}

/** Formats a duration in milliseconds: 840 ms, 1.24 s, 62 s. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 10_000 ? `${(ms / 1_000).toFixed(2)} s` : `${(ms / 1_000).toFixed(1)} s`;
}

/** Matches the names of properties whose strings are amounts. */
const amountName =
  /(Usd|Credits|Deductions|Amount)$|^(amount|exchangeRate|balance|balanceAfter|reserved|available|opening|added|deducted|runs|otherRuns|closing|credits)$/;
const decimal = /^-?\d+(\.\d+)?$/;

/** An amount as an exact string. In API responses it is a JSON number with the same digits. */
export const amountText = z.string().regex(decimal);

/** Converts the amounts of an API response from exact strings to JSON numbers with the same digits. */
export function convertAmountsToJsonNumbers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(convertAmountsToJsonNumbers);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      typeof member === "string" && amountName.test(name) && decimal.test(member)
        ? jsonNumber(member)
        : convertAmountsToJsonNumbers(member),
    ]),
  );
}
