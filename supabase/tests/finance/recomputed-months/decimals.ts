// The arithmetic of the recomputing tests. It shares no code with the product. Amounts are integers in units of 10^-12.

export const one = 10n ** 12n;

export const sum = (amounts: readonly bigint[]) => amounts.reduce((total, each) => total + each, 0n);

/** Writes an amount without trailing zeros. */
export function text(units: bigint, decimals = 12): string {
  const digits = (units < 0n ? -units : units).toString().padStart(decimals + 1, "0");
  const fraction = digits.slice(-decimals).replace(/0+$/, "");
  return `${units < 0n ? "-" : ""}${digits.slice(0, -decimals)}${fraction ? `.${fraction}` : ""}`;
}

/** Reads an amount. An empty text is 0. */
export function unitsOf(shown: string): bigint {
  const [whole = "", fraction = ""] = shown.replace("-", "").split(".");
  const units = BigInt(whole + fraction.padEnd(12, "0"));
  return shown.startsWith("-") ? -units : units;
}

/** Divides and rounds a half away from zero. Both numbers are positive. */
export const divideHalfUp = (part: bigint, whole: bigint) => (part * 2n + whole) / (whole * 2n);

/** Divides and rounds a half to even. */
function divideHalfEven(part: bigint, whole: bigint): bigint {
  const isNegative = part < 0n !== whole < 0n;
  const [size, by] = [part < 0n ? -part : part, whole < 0n ? -whole : whole];
  const twiceRest = (size % by) * 2n;
  const floor = size / by;
  const rounded = twiceRest > by || (twiceRest === by && floor % 2n === 1n) ? floor + 1n : floor;
  return isNegative ? -rounded : rounded;
}

/** Converts an amount with an exchange rate, a half rounded to even. */
export const convertHalfEven = (amount: bigint, rate: bigint) => divideHalfEven(amount * rate, one);

/** Returns a difference in percent of its base with 12 decimals, a half rounded to even. */
export function percent(difference: bigint, base: bigint): string | null {
  return base === 0n ? null : text(divideHalfEven(difference * 100n * one, base));
}
