import { formatDecimal, roundHalfEven } from "./decimal.ts";

/** The digits of stored amounts (`numeric(24, 12)`), and the significant digits of a budget. */
const amountLimits = { decimals: 12, wholeDigits: 12, significantDigits: 15 } as const;

/** A USD amount as exact text, without an exponent or unnecessary zeros. */
export type UsdAmount = { amount: string; isRounded: boolean };

const shape = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,9}))?$/;

/**
 * Returns a decimal's text without an exponent: `1.5e-3` becomes `0.0015`. The exponent is limited to ±99, except for
 * zero, which IEEE 754 decimal128 writes as `0E-6176`.
 */
export function readDecimalText(text: string): string | null {
  const [, sign, whole, fraction = "", exponent = "0"] = shape.exec(text) ?? [];
  if (whole === undefined) return null;
  if (Math.abs(Number(exponent)) > 99) return /^0*$/.test(whole + fraction) ? "0" : null;
  const decimals = fraction.length - Number(exponent);
  const digits = `${whole}${fraction}`;
  const padded = digits.padStart(decimals + 1, "0");
  const value =
    decimals <= 0 ? digits + "0".repeat(-decimals) : `${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`;
  return `${sign}${value}`;
}

/**
 * Reads a JSON number as an amount, rounded half to even to the 12 decimals that are stored.
 * @returns null if the number is negative, or has more than 12 digits before the point
 */
export function roundUsdAmount(text: string): UsdAmount | null {
  const [, sign, whole, fraction = "", exponent = "0"] = shape.exec(text) ?? [];
  if (whole === undefined) return null;
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return { amount: "0", isRounded: false };
  // The value is `significant` × 10^-`decimals`.
  const decimals = fraction.length - Number(exponent) - (digits.length - significant.length);
  const wholeDigits = significant.length - decimals;
  if (sign || wholeDigits > amountLimits.wholeDigits) return null;
  if (decimals <= 0) return { amount: significant + "0".repeat(-decimals), isRounded: false };
  // Less than half of the last decimal. An exponent can't make this function write many zeros.
  if (wholeDigits < -amountLimits.decimals) return { amount: "0", isRounded: true };
  const amount = formatDecimal(roundHalfEven({ units: BigInt(significant), scale: decimals }, amountLimits.decimals));
  if (amount.replace(/\..*/, "").length > amountLimits.wholeDigits) return null;
  return { amount, isRounded: decimals > amountLimits.decimals };
}

/**
 * Reads a JSON number as an exact amount.
 * @returns null if the number isn't an amount, would be rounded, or has more than 15 significant digits; the zeros of
 * 1.50 and 1500 at the end aren't significant
 */
export function readUsdAmount(text: string): string | null {
  const read = roundUsdAmount(text);
  if (!read || read.isRounded) return null;
  const significant = read.amount.replace(".", "").replace(/^0+|0+$/g, "");
  return significant.length > amountLimits.significantDigits ? null : read.amount;
}
