import { type Decimal, formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { readDecimalText } from "#shared/usd-amount.ts";

const amountPattern = /^(\()?([+\-−])?[$€£¥]?([+\-−])?([\d.,]+(?:[eE][+-]?\d{1,4})?)(\))?$/;
const plainNumberPattern = /^(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?$/;
/** Requires a decimal point or at least two commas, because the comma in 1,234 may also be a decimal comma. */
const commaGroupedPattern = /^\d{1,3}(?:,\d{3})+\.\d+$|^\d{1,3}(?:,\d{3}){2,}$/;
const decimalCommaPattern = /^(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][+-]?\d{1,4})?$/;
const ambiguousPointPattern = /^[1-9]\d{0,2}\.\d{3}$/;
const maxAmountLength = 80;
/** The database's limits for amounts before conversion. */
const amountLimitPattern = /^\d{1,15}(?:\.\d{1,40})?$/;

/**
 * Reads an amount exactly. It may have an exponent, a sign or parentheses, a currency symbol, and digit groups.
 * @param options.decimalComma whether the file uses a decimal comma
 * @returns null for a text that is ambiguous or not a number
 */
export function readAmount(text: string, { decimalComma = false } = {}): Decimal | null {
  if (text.length > maxAmountLength) return null;
  const [, open, sign = "", otherSign = "", digits = "", close] = amountPattern.exec(text) ?? [];
  if (!digits || Boolean(open) !== Boolean(close) || [open, sign, otherSign].filter(Boolean).length > 1) return null;
  const number = readDigits(digits, decimalComma);
  const decimal = number === null ? null : readDecimalText(number);
  if (decimal === null) return null;
  const value = parseDecimal(decimal);
  if (!amountLimitPattern.test(formatDecimal(value))) return null;
  const isNegative = Boolean(open) || (sign || otherSign || "+") !== "+";
  return isNegative ? { ...value, units: -value.units } : value;
}

function readDigits(digits: string, decimalComma: boolean): string | null {
  if (decimalComma) {
    if (decimalCommaPattern.test(digits)) return digits.replaceAll(".", "").replace(",", ".");
    if (ambiguousPointPattern.test(digits)) return null;
  } else if (commaGroupedPattern.test(digits)) return digits.replaceAll(",", "");
  if (!plainNumberPattern.test(digits)) return null;
  return digits.replace(/^\./, "0.").replace(/\.(?=$|[eE])/, "");
}
