/** Limits on incoming amounts of money: decimals, significant digits, and digits before the point. */
export const amountLimits = { decimals: 12, significantDigits: 15, wholeDigits: 12 } as const;

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
 * Returns the exact decimal of a JSON number as text, without an exponent or unnecessary zeros. Trailing zeros don't
 * count: 1.50 has one decimal and two significant digits.
 * @returns null if the number is negative or has more digits than an amount may have
 */
export function readUsdAmount(text: string): string | null {
  const [, sign, whole, fraction = "", exponent = "0"] = shape.exec(text) ?? [];
  if (whole === undefined) return null;
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const significant = digits.replace(/0+$/, "");
  if (significant === "") return "0";
  if (sign || significant.length > amountLimits.significantDigits) return null;
  // The value is `significant` × 10^-`decimals`.
  const decimals = fraction.length - Number(exponent) - (digits.length - significant.length);
  if (decimals > amountLimits.decimals || significant.length - decimals > amountLimits.wholeDigits) return null;
  if (decimals <= 0) return significant + "0".repeat(-decimals);
  const padded = significant.padStart(decimals + 1, "0");
  return `${padded.slice(0, -decimals)}.${padded.slice(-decimals)}`;
}
