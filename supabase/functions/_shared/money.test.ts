import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { add, formatDecimal, multiply, parseDecimal, roundHalfEven } from "./decimal.ts";
import { findUnitPrices, isTierPriced, type Tariff, type TokenCounts, usageCostUsd, usdToCredits } from "./money.ts";
import vectors from "./money-vectors.json" with { type: "json" };

describe("rounding", () => {
  test.for(vectors.rounding)("rounds $value at $scale decimals to $result", ({ value, scale, result }) => {
    expect(formatDecimal(roundHalfEven(parseDecimal(value), scale))).toBe(result);
  });
});

/** Rounds an amount from one scale to another, half to even, using only integers. */
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
    // Includes amounts exactly halfway between two rounded values, which random amounts rarely are.
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
  test.for(vectors.costs)("computes cost and credits: $name", ({ prices, usage, markup, cost_usd, credits }) => {
    const cost = usageCostUsd({ prices }, usage);
    expect(formatDecimal(cost)).toBe(cost_usd);
    expect(
      formatDecimal(usdToCredits(cost, formatDecimal(multiply(parseDecimal(markup), parseDecimal("10000"))))),
    ).toBe(credits);
  });
});

describe("the cost of usage under a tariff", () => {
  const tier = { min_input_tokens: 0, input: "2", cached_input: "0.2", cache_write: "2.5", output: "8" };
  const cost = (tariff: Tariff, counts: TokenCounts, served?: string) =>
    formatDecimal(usageCostUsd(tariff, counts, served));

  test.for([
    // OpenAI bills cache writes at 1.25 times the input price, and Anthropic bills one-hour cache writes at 2 times.
    {
      name: "cache writes",
      counts: { input_tokens: 8_000, cache_write_tokens: 7_900, output_tokens: 100 },
      usd: "0.02075",
    },
    {
      name: "cache writes alongside other input",
      counts: { input_tokens: 12_400, cache_write_tokens: 12_000, output_tokens: 25 },
      usd: "0.031",
    },
    {
      name: "one-hour cache writes",
      counts: { input_tokens: 1_000, cache_write_1h_tokens: 1_000 },
      more: { cache_write_1h: "4" },
      usd: "0.004",
    },
    {
      name: "images",
      counts: { input_tokens: 1_000, image_input_tokens: 400 },
      more: { image_input: "10" },
      usd: "0.0052",
    },
    {
      name: "images without a price of their own",
      counts: { input_tokens: 1_000, image_input_tokens: 400 },
      usd: "0.002",
    },
    { name: "fees", counts: { input_tokens: 1_000, fee_requests: 3 }, more: { request_fee: "0.005" }, usd: "0.017" },
    {
      name: "parts that exceed the input",
      counts: { input_tokens: 10, cached_input_tokens: 8, cache_write_tokens: 9 },
      usd: "0.0000066",
    },
  ])("charges the tariff for $name", ({ counts, more, usd }) => {
    expect(cost({ prices: [{ ...tier, ...more }] }, counts)).toBe(usd);
  });

  test("charges the prices of the service tier that was used, or a multiple of the default prices", () => {
    const counts = { input_tokens: 1_000, output_tokens: 100, fee_requests: 1 };
    const flex = { ...tier, service_tier: "flex", input: "1", output: "4", request_fee: "0.01" };
    const tariff = { prices: [{ ...tier, request_fee: "0.01" }, flex], tier_multipliers: { priority: 1.75 } };
    expect(cost(tariff, counts)).toBe("0.0128");
    expect(cost(tariff, counts, "default")).toBe("0.0128");
    expect(cost(tariff, counts, "flex")).toBe("0.0114");
    expect(cost(tariff, counts, "priority")).toBe("0.0149");
    expect(cost(tariff, counts, "scale")).toBe("0.0128");
    expect(["default", "flex", "priority", "scale"].map((name) => isTierPriced(tariff, name))).toEqual([
      true,
      true,
      true,
      false,
    ]);
  });
});

describe("a multiplier", () => {
  const tariff = (tier_multipliers: Record<string, number>) => ({
    prices: [{ min_input_tokens: 0, input: "2", output: "8" }],
    tier_multipliers,
  });
  const costAt = (tier: string, multipliers: Record<string, number> = {}) =>
    formatDecimal(usageCostUsd(tariff(multipliers), { input_tokens: 1_000_000, output_tokens: 0 }, tier));

  test.for([
    [0, "0"],
    [1e-7, "0.0000002"],
    [0.1, "0.2"],
    [1.75, "3.5"],
    [1e21, "2000000000000000000000"],
  ] as const)("multiplies a price by %d exactly", ([multiplier, cost]) => {
    expect(costAt("flex", { flex: multiplier })).toBe(cost);
  });

  test.for(["constructor", "toString", "hasOwnProperty", "__proto__"])(
    "finds no multiplier for a tier called %s",
    (tier) => {
      expect(costAt(tier)).toBe("2");
      expect(isTierPriced(tariff({}), tier)).toBe(false);
    },
  );
});

describe("decimals", () => {
  const decimals = fc.record({ units: fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }), scale: fc.nat(20) });

  test("formatting a decimal and reading it back yields the same amount", () => {
    fc.assert(
      fc.property(decimals, (value) => {
        const again = parseDecimal(formatDecimal(value));
        expect(add(again, { units: -value.units, scale: value.scale }).units).toBe(0n);
      }),
    );
  });

  test("multiplication of decimals is commutative and distributes over addition", () => {
    fc.assert(
      fc.property(decimals, decimals, decimals, (a, b, c) => {
        expect(formatDecimal(multiply(a, add(b, c)))).toBe(formatDecimal(add(multiply(c, a), multiply(b, a))));
      }),
    );
  });

  test.for(["", "1.", ".5", "1e3", "0x1", "NaN", " 1", "--1"])("rejects %j as a decimal", (text) => {
    expect(() => parseDecimal(text)).toThrow(RangeError);
  });
});

describe("unit prices", () => {
  const tariff: Tariff = {
    prices: [
      { min_input_tokens: 200_000, input: "5.000000", output: "16.000000" },
      { min_input_tokens: 0, input: "2.500000", output: "8.000000" },
      { service_tier: "flex", min_input_tokens: 0, input: "1.250000", output: "4.000000" },
    ],
    tier_multipliers: { priority: 1.75, flex: 9 },
  };
  test.for<[number, string | undefined, string, string]>([
    [199_999, undefined, "2.5", "8"],
    [200_000, undefined, "5", "16"],
    [200_000, "flex", "1.25", "4"],
    [0, "priority", "4.375", "14"],
    [0, "constructor", "2.5", "8"],
  ])(
    "for %d input tokens at the tier %s, the unit prices are %s for input and %s for output",
    ([inputTokens, servedTier, input, output]) => {
      expect(findUnitPrices(tariff, { inputTokens, servedTier })).toEqual({ input, output });
    },
  );

  test("unit prices are undefined if the default tier has no price", () => {
    expect(findUnitPrices({ prices: [] }, { inputTokens: 1 })).toBeUndefined();
  });
});
