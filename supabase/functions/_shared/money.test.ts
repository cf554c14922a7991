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

describe("cost and credits", () => {
  test.for(vectors.costs)("$name", ({ prices, usage, markup, cost_usd, credits }) => {
    const cost = usageCostUsd(prices, usage);
    expect(formatDecimal(cost)).toBe(cost_usd);
    expect(formatDecimal(usdToCredits(cost, markup))).toBe(credits);
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
