import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { add, formatDecimal, multiply, parseDecimal, roundHalfEven } from "./decimal.ts";
import { usageCostUsd, usdToCredits } from "./money.ts";
import vectors from "./money-vectors.json" with { type: "json" };

describe("rounding", () => {
  test.for(vectors.rounding)("$value at $scale decimals is $result", ({ value, scale, result }) => {
    expect(formatDecimal(roundHalfEven(parseDecimal(value), scale))).toBe(result);
  });
});

/** Rounds units of 10^-from to 10^-to, half to even, on integers alone. */
function roundUnits(units: bigint, from: number, to: number): bigint {
  const divisor = 10n ** BigInt(from - to);
  const size = units < 0n ? -units : units;
  const quotient = size / divisor;
  const twice = (size % divisor) * 2n;
  const rounded = twice > divisor || (twice === divisor && quotient % 2n === 1n) ? quotient + 1n : quotient;
  return units < 0n ? -rounded : rounded;
}

test("rounding agrees with integer arithmetic on any amount", () => {
  const amount = fc.oneof(
    fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
    // Ties, which chance alone would rarely produce.
    fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }).map((n) => n * 10_000_000_000n + 5_000_000_000n),
  );
  fc.assert(
    fc.property(amount, (units) => {
      const expected = formatDecimal({ units: roundUnits(units, 18, 8), scale: 8 });
      expect(formatDecimal(roundHalfEven({ units, scale: 18 }, 8))).toBe(expected);
    }),
    { numRuns: 1000 },
  );
});

describe("cost and credits", () => {
  test.for(vectors.costs)("$name", ({ prices, usage, markup, cost_usd, credits }) => {
    const cost = usageCostUsd(prices, usage);
    expect(formatDecimal(cost)).toBe(cost_usd);
    expect(
      formatDecimal(usdToCredits(cost, formatDecimal(multiply(parseDecimal(markup), parseDecimal("10000"))))),
    ).toBe(credits);
  });
});

describe("decimals", () => {
  const decimals = fc.record({ units: fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }), scale: fc.nat(20) });

  test("what is written is read back as the same amount", () => {
    fc.assert(
      fc.property(decimals, (value) => {
        const again = parseDecimal(formatDecimal(value));
        expect(add(again, { units: -value.units, scale: value.scale }).units).toBe(0n);
      }),
    );
  });

  test("sums and products do not depend on the order", () => {
    fc.assert(
      fc.property(decimals, decimals, decimals, (a, b, c) => {
        expect(formatDecimal(multiply(a, add(b, c)))).toBe(formatDecimal(add(multiply(c, a), multiply(b, a))));
      }),
    );
  });

  test.for(["", "1.", ".5", "1e3", "0x1", "NaN", " 1", "--1"])("%j is none", (text) => {
    expect(() => parseDecimal(text)).toThrow(RangeError);
  });
});
