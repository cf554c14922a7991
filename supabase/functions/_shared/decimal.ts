/** An exact decimal: `units` × 10^-`scale`. Amounts of money are never converted to a float. */
export type Decimal = { units: bigint; scale: number };

const shape = /^(-?)(\d+)(?:\.(\d+))?$/;

/**
 * Parses a decimal in the format of Postgres's `numeric`.
 * @throws RangeError for any other text
 */
export function parseDecimal(text: string): Decimal {
  const [, sign, whole, fraction = ""] = shape.exec(text) ?? [];
  if (whole === undefined) throw new RangeError("not a decimal");
  const units = BigInt(whole + fraction);
  return { units: sign ? -units : units, scale: fraction.length };
}

export function multiply(one: Decimal, other: Decimal): Decimal {
  return { units: one.units * other.units, scale: one.scale + other.scale };
}

export function add(one: Decimal, other: Decimal): Decimal {
  const scale = Math.max(one.scale, other.scale);
  return { units: atScale(one, scale) + atScale(other, scale), scale };
}

/** Rounds a value to a number of decimals, with ties to the even digit (IEEE 754 roundTiesToEven). */
export function roundHalfEven(value: Decimal, scale: number): Decimal {
  if (value.scale <= scale) return { units: atScale(value, scale), scale };
  const divisor = 10n ** BigInt(value.scale - scale);
  const size = value.units < 0n ? -value.units : value.units;
  const quotient = size / divisor;
  const twiceRest = (size % divisor) * 2n;
  const up = twiceRest > divisor || (twiceRest === divisor && quotient % 2n === 1n);
  const rounded = up ? quotient + 1n : quotient;
  return { units: value.units < 0n ? -rounded : rounded, scale };
}

/** Returns the shortest text of a decimal, without trailing zeros. It is a valid JSON number. */
export function formatDecimal({ units, scale }: Decimal): string {
  const digits = (units < 0n ? -units : units).toString().padStart(scale + 1, "0");
  const fraction = digits.slice(digits.length - scale).replace(/0+$/, "");
  const whole = digits.slice(0, digits.length - scale);
  return `${units < 0n ? "-" : ""}${whole}${scale > 0 && fraction ? `.${fraction}` : ""}`;
}

function atScale(value: Decimal, scale: number): bigint {
  return value.units * 10n ** BigInt(scale - value.scale);
}

/** Returns the sum of two exact decimal strings. */
export function addAmounts(one: string, other: string): string {
  return formatDecimal(add(parseDecimal(one), parseDecimal(other)));
}
