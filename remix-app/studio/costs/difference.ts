import { add, type Decimal, formatDecimal, parseDecimal, roundHalfEven } from "#shared/decimal.ts";
import { typesetMinus } from "../../ui/format-amount.ts";

/** The number of decimals of a non-terminating percentage. */
const percentDecimals = 12;

/** Returns `amount` minus `base`, exactly. Both are exact decimal strings. */
export function subtractAmounts(amount: string, base: string): string {
  return formatDecimal(add(parseDecimal(amount), negated(parseDecimal(base))));
}

/**
 * Returns a difference as a percentage of its base, to 12 decimals with ties to even.
 * @returns null if the base is zero
 */
export function percentOf(difference: string, base: string): string | null {
  const [part, whole] = [parseDecimal(difference), parseDecimal(base)];
  if (whole.units === 0n) return null;
  return formatDecimal(divide({ units: part.units * 100n, scale: part.scale }, whole));
}

/** Formats a signed percentage for display: one decimal, or two significant digits below one percent. */
export function formatPercent(percent: string): string {
  const value = Number(percent);
  if (value === 0) return "0%";
  const options = Math.abs(value) < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 1 };
  return `${typesetMinus(value.toLocaleString("en", { ...options, signDisplay: "always" }))}%`;
}

function divide(part: Decimal, whole: Decimal): Decimal {
  // Calculates 12 extra decimals, then appends a digit that is 1 if a remainder is left. Without that digit, a quotient
  // just above a tie could be rounded as a tie.
  const scale = percentDecimals + 12;
  const [numerator, denominator] = [
    part.units * 10n ** BigInt(whole.scale + scale),
    whole.units * 10n ** BigInt(part.scale),
  ];
  const quotient = numerator / denominator;
  const rest = numerator % denominator === 0n ? 0n : 1n;
  const sign = numerator < 0n === denominator < 0n ? 1n : -1n;
  return roundHalfEven({ units: quotient * 10n + sign * rest, scale: scale + 1 }, percentDecimals);
}

function negated({ units, scale }: Decimal): Decimal {
  return { units: -units, scale };
}
