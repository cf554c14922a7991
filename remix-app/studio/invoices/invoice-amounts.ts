import { add, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { JsonNumber } from "#shared/exact-json.ts";
import { isoCurrencies } from "#shared/iso-currencies.ts";
import { convertNetAmount } from "#shared/provider-records.ts";
import type { InvoiceErrors, TypedInvoice } from "./invoice-facts.ts";

const amountFields = ["netAmount", "taxAmount", "totalAmount"] as const;
type AmountField = (typeof amountFields)[number];
type Amounts = Record<AmountField, string>;

const plainAmount = /^\d+(?:\.\d+)?$/;
const maxDigits = 12;

/** An invoice's amounts as its schema takes them. Without a net amount, only the USD amount is known. */
export type InvoiceAmounts = { amountUsd: JsonNumber } & Partial<
  { currency: string; exchangeRate: JsonNumber } & Record<AmountField, JsonNumber>
>;

/**
 * Reads the typed amounts of an invoice. Of net amount, tax and total, two are enough; in US dollars, the net amount
 * alone is too. The third is computed, or all three must agree. Commas are rejected, because they separate thousands for
 * some people and decimals for others.
 * @returns the amounts, or one message per field. If only the exchange rate is missing, the amounts have the rate 1.
 */
export function readInvoiceAmounts(
  typed: TypedInvoice,
): { amounts: InvoiceAmounts; isRateMissing: boolean } | { errors: InvoiceErrors } {
  const { currency } = typed;
  if (!isoCurrencies.includes(currency)) return { errors: { currency: "Choose a currency" } };
  const isUsd = currency === "USD";
  const isNetOnly = isUsd && typed.taxAmount === "" && typed.totalAmount === "";
  const errors: InvoiceErrors = {};
  const given: Partial<Amounts> = {};
  for (const field of amountFields) {
    if (typed[field] === "") continue;
    const read = readNumber(isUsd ? typed[field].replace(/^\$\s?/, "") : typed[field], { isRounded: isNetOnly });
    if ("error" in read) errors[field] = read.error;
    else given[field] = read.text;
  }
  const rate = readRate(typed);
  if ("error" in rate) errors.exchangeRate = rate.error;
  if (Object.keys(errors).length > 0 || "error" in rate) return { errors };
  if (isNetOnly && given.netAmount !== undefined) {
    return { amounts: { amountUsd: new JsonNumber(given.netAmount) }, isRateMissing: false };
  }
  const completed = completeAmounts(given);
  if ("errors" in completed) return completed;
  const exchangeRate = rate.text ?? "1";
  const { netAmount, taxAmount, totalAmount } = completed;
  return {
    amounts: {
      amountUsd: new JsonNumber(convertNetAmount({ netAmount, exchangeRate })),
      currency,
      exchangeRate: new JsonNumber(exchangeRate),
      netAmount: new JsonNumber(netAmount),
      taxAmount: new JsonNumber(taxAmount),
      totalAmount: new JsonNumber(totalAmount),
    },
    isRateMissing: rate.text === null,
  };
}

function readNumber(text: string, { isRounded = false } = {}): { text: string } | { error: string } {
  if (!plainAmount.test(text)) {
    return { error: "Enter the amount with a decimal point and without commas, such as 1234.56" };
  }
  const [whole = "", fraction = ""] = text.split(".");
  if (whole.replace(/^0+/, "").length > maxDigits) return { error: "Enter at most 12 digits before the decimal point" };
  if (!isRounded && fraction.length > maxDigits) return { error: "Enter at most 12 digits after the decimal point" };
  return { text: isRounded ? text : formatDecimal(parseDecimal(text)) };
}

/** Returns the rate, or null if it is missing. */
function readRate({ currency, exchangeRate: typed }: TypedInvoice): { text: string | null } | { error: string } {
  if (currency === "USD") {
    return /^(1(\.0+)?)?$/.test(typed) ? { text: "1" } : { error: "Leave the rate empty for US dollars" };
  }
  if (typed === "") return { text: null };
  const read = readNumber(typed);
  if ("error" in read || read.text === "0") {
    return { error: `Enter the US dollars for one ${currency}, with a decimal point, such as 1.0825` };
  }
  return read;
}

function completeAmounts({ netAmount, taxAmount, totalAmount }: Partial<Amounts>): Amounts | { errors: InvoiceErrors } {
  if (netAmount !== undefined && taxAmount !== undefined) {
    const sum = formatDecimal(add(parseDecimal(netAmount), parseDecimal(taxAmount)));
    if (totalAmount === undefined || totalAmount === sum) return { netAmount, taxAmount, totalAmount: sum };
    return { errors: { totalAmount: `The net amount and the tax add up to ${sum}, not to ${totalAmount}` } };
  }
  if (totalAmount !== undefined && taxAmount !== undefined) {
    const net = subtract(totalAmount, taxAmount);
    return net === null
      ? { errors: { taxAmount: "The tax is more than the total" } }
      : { netAmount: net, taxAmount, totalAmount };
  }
  if (totalAmount !== undefined && netAmount !== undefined) {
    const tax = subtract(totalAmount, netAmount);
    return tax === null
      ? { errors: { netAmount: "The net amount is more than the total" } }
      : { netAmount, taxAmount: tax, totalAmount };
  }
  if (netAmount === undefined && totalAmount === undefined) return { errors: { netAmount: "Enter the net amount" } };
  return { errors: { taxAmount: "Enter the tax, or 0 if there is none" } };
}

/** Returns the difference of two exact decimals, or null if it is negative. */
function subtract(one: string, other: string): string | null {
  const { units, scale } = parseDecimal(other);
  const difference = add(parseDecimal(one), { units: -units, scale });
  return difference.units < 0n ? null : formatDecimal(difference);
}
