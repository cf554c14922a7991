import fc from "fast-check";
import { describe, expect } from "vitest";
import vectors from "../functions/_shared/money-vectors.json" with { type: "json" };
import { type Database, one, test } from "./database.ts";

/** Rounds units of 10^-from to 10^-to, half to even, on integers alone. */
function oracle(units: bigint, from: number, to: number): bigint {
  const divisor = 10n ** BigInt(from - to);
  const negative = units < 0n;
  const size = negative ? -units : units;
  const quotient = size / divisor;
  const twice = (size % divisor) * 2n;
  const up = twice > divisor || (twice === divisor && quotient % 2n === 1n);
  const rounded = up ? quotient + 1n : quotient;
  return negative ? -rounded : rounded;
}

function decimal(units: bigint, scale: number): string {
  const digits = (units < 0n ? -units : units).toString().padStart(scale + 1, "0");
  const whole = digits.slice(0, digits.length - scale);
  return `${units < 0n ? "-" : ""}${whole}${scale > 0 ? `.${digits.slice(-scale)}` : ""}`;
}

async function rounded(db: Database, value: string, scale: number): Promise<string> {
  const row = await one<{ result: string }>(db, {
    sql: "select trim_scale(ai.round_half_even($1::numeric, $2))::text as result",
    values: [value, scale],
  });
  return row.result;
}

describe("ai.round_half_even", () => {
  test.for(vectors.rounding)("$value at $scale decimals is $result", async ({ value, scale, result }, { db }) => {
    expect(await rounded(db, value, scale)).toBe(result);
  });

  test("agrees with integer arithmetic on any amount", async ({ db }) => {
    const amounts = fc.record({
      units: fc.oneof(
        fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }),
        // Ties, which chance alone would hardly meet.
        fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }).map((n) => n * 10_000_000_000n + 5_000_000_000n),
      ),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(amounts, { minLength: 50, maxLength: 50 }), async (batch) => {
        const row = await one<{ results: string[] }>(db, {
          sql: `select array_agg(ai.round_half_even(v::numeric, 8)::numeric(40, 8)::text order by n) as results
                from unnest($1::text[]) with ordinality as t (v, n)`,
          values: [batch.map(({ units }) => decimal(units, 18))],
        });
        expect(row.results).toEqual(batch.map(({ units }) => decimal(oracle(units, 18, 8), 8)));
      }),
      { numRuns: 60 },
    );
  });
});

describe("ai.usage_cost_usd and ai.usd_to_credits", () => {
  test.for(vectors.costs)("$name", async ({ prices, usage, markup, cost_usd, credits }, { db }) => {
    const row = await one(db, {
      sql: `select trim_scale(c)::text as cost_usd, trim_scale(ai.usd_to_credits(c, $3))::text as credits,
              c = c::numeric(24, 12) as exact
            from ai.usage_cost_usd($1, $2) as c`,
      values: [JSON.stringify(prices), JSON.stringify(usage), markup],
    });
    expect(row).toEqual({ cost_usd, credits, exact: true });
  });
});
