import { add, type Decimal, formatDecimal, parseDecimal, roundHalfEven } from "#shared/decimal.ts";
import { withMinus } from "../../ui/format-amount.ts";

/** To how many decimals a percentage that does not end is told. */
const percentDecimals = 12;

/** `amount` less `base`, exactly. Both are exact decimal texts. */
export function subtractAmounts(amount: string, base: string): string {
  return formatDecimal(add(parseDecimal(amount), negated(parseDecimal(base))));
}

/**
 * A difference in percent of what it is a difference from, to 12 decimals with ties to the even digit.
 * @returns null where that is nothing
 */
export function percentOf(difference: string, base: string): string | null {
  const [part, whole] = [parseDecimal(difference), parseDecimal(base)];
  if (whole.units === 0n) return null;
  return formatDecimal(divide({ units: part.units * 100n, scale: part.scale }, whole));
}

/** A percentage as people read it, with its sign: one decimal, and two significant digits below one. */
export function formatPercent(percent: string): string {
  const value = Number(percent);
  if (value === 0) return "0%";
  const options = Math.abs(value) < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 1 };
  return `${withMinus(value.toLocaleString("en", { ...options, signDisplay: "always" }))}%`;
}

function divide(part: Decimal, whole: Decimal): Decimal {
  // One part in 10^12 beyond what is asked for, and a last digit for whatever remains, so that ties are none but true ones.
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
