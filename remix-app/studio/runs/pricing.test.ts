import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ChargedCall, computeRunCost } from "#shared/call-price.ts";
import { add, formatDecimal, multiply, parseDecimal } from "#shared/decimal.ts";
import { priceItems } from "#shared/money.ts";
import { isCostUnknown, pricingOf } from "./pricing.ts";
import { pricingNotes, runPricing } from "./pricing-schema.ts";
import { pricedRun, randomCalls, randomRoutes } from "./run-fixtures.ts";

const sum = (lines: readonly { amountUsd: string | null }[]) =>
  formatDecimal(lines.map(({ amountUsd }) => parseDecimal(amountUsd ?? "0")).reduce(add, { units: 0n, scale: 0 }));
const decimal = (text: string) => formatDecimal(parseDecimal(text));

const tier = { min_input_tokens: 0, input: "2", cached_input: "0.2", cache_write: "2.5", output: "8" };
const demo = { position: 1, provider: "demo", model: "upstream", prices: [tier] };

describe("the pricing lines of a run", () => {
  test("for any calls, the pricing lines of a run add up to its cost exactly, and each line is a count times a price", () => {
    fc.assert(
      fc.property(randomRoutes, randomCalls, fc.constantFrom("1", "1.2", "1.234567"), (routes, calls, markup) => {
        const run = pricedRun({ routes, calls, markup });
        const pricing = runPricing.parse(pricingOf(run));
        expect(sum(pricing.lines)).toBe(decimal(run.costUsd ?? ""));
        for (const { item, count, unitPriceUsd, amountUsd } of pricing.lines) {
          if (count === null || unitPriceUsd === null) continue;
          const units = multiply(
            { units: BigInt(count), scale: item === "request_fee" ? 0 : 6 },
            parseDecimal(unitPriceUsd),
          );
          expect(decimal(amountUsd ?? "")).toBe(formatDecimal(units));
        }
        expect(pricing.notes).not.toContain("not_itemised");
        expect(pricing.lines.filter(({ item }) => item === "rounding").length).toBeLessThanOrEqual(1);
      }),
      { numRuns: 500 },
    );
  });

  test("the pricing lines of a run add up even if only the total of its calls is known", () => {
    fc.assert(
      fc.property(randomRoutes, randomCalls, (routes, calls) => {
        const run = pricedRun({ routes, calls });
        run.priced.attempts = [];
        expect(sum(pricingOf(run).lines)).toBe(decimal(run.costUsd ?? ""));
      }),
      { numRuns: 500 },
    );
  });

  test("the pricing lines of a run include every class of tokens", () => {
    const usage = {
      input_tokens: 1_500,
      cached_input_tokens: 200,
      cache_write_tokens: 300,
      cache_write_1h_tokens: 100,
      audio_input_tokens: 50,
      image_input_tokens: 250,
      output_tokens: 100,
      reasoning_tokens: 40,
      audio_output_tokens: 20,
      fee_requests: 2,
    };
    const prices = [{ ...tier, cache_write_1h: "4", audio_input: "40", audio_output: "80", request_fee: "0.01" }];
    const { lines } = pricingOf(pricedRun({ routes: [{ ...demo, prices }], calls: [{ route: 1, usage }] }));
    const rows = lines.map((line) => [line.item, line.count, line.unitPriceUsd, line.amountUsd, line.pricedAs]);
    expect(rows).toEqual([
      ["input", 600, "2", "0.0012", null],
      ["cached_input", 200, "0.2", "0.00004", null],
      ["cache_write", 300, "2.5", "0.00075", null],
      ["cache_write_1h", 100, "4", "0.0004", null],
      ["audio_input", 50, "40", "0.002", null],
      ["image_input", 250, "2", "0.0005", "input"],
      ["output", 80, "8", "0.00064", null],
      ["audio_output", 20, "80", "0.0016", null],
      ["request_fee", 2, "0.01", "0.02", null],
    ]);
    expect(new Set(rows.map(([item]) => item))).toEqual(new Set(priceItems));
  });

  test("the pricing of a run shows the tier, threshold and multiplier of each call", () => {
    const prices = [tier, { ...tier, min_input_tokens: 200_000, input: "4" }];
    const routes = [{ ...demo, prices, tier_multipliers: { priority: 1.75 } }];
    const call = (input_tokens: number, servedTier?: string): ChargedCall => ({
      route: 1,
      usage: { input_tokens, output_tokens: 0 },
      ...(servedTier === undefined ? {} : { servedTier }),
    });
    const { calls, lines, notes } = pricingOf(
      pricedRun({ routes, calls: [call(199_999), call(200_000, "priority"), call(1, "scale")] }),
    );
    const facts = { route: 1, provider: "demo", model: "upstream" };
    expect(calls).toEqual([
      { call: 1, ...facts, serviceTier: null, minInputTokens: 0, multiplier: "1" },
      { call: 2, ...facts, serviceTier: "priority", minInputTokens: 200_000, multiplier: "1.75" },
      { call: 3, ...facts, serviceTier: "scale", minInputTokens: 0, multiplier: "1" },
    ]);
    expect(lines.map(({ call: number, unitPriceUsd, amountUsd }) => [number, unitPriceUsd, amountUsd])).toEqual([
      [1, "2", "0.399998"],
      [2, "7", "1.4"],
      [3, "2", "0.000002"],
    ]);
    expect(notes).toEqual(["several_calls"]);
  });

  test("the pricing lines of a run use the charged tier, even if its calls reach a higher tier's threshold together", () => {
    const prices = [tier, { ...tier, min_input_tokens: 200_000, input: "4" }];
    const call = { route: 1, usage: { input_tokens: 150_000, output_tokens: 10 } };
    const run = pricedRun({ routes: [{ ...demo, prices }], calls: [call, call] });
    run.priced.attempts = [];
    const { lines, calls, notes } = pricingOf(run);
    expect(lines.map(({ item, unitPriceUsd }) => [item, unitPriceUsd])).toEqual([
      ["input", "2"],
      ["output", "8"],
    ]);
    expect(calls).toMatchObject([{ minInputTokens: 0 }]);
    expect(notes).toEqual([]);
  });

  test("on a route without prices, the pricing lines of a run with one or two calls still add up to the run's cost", () => {
    const call = { route: 1, usage: { input_tokens: 10 } };
    for (const calls of [[call], [call, call]]) {
      const run = pricedRun({ routes: [demo], calls });
      run.priced.routes = [{ ...demo, prices: [] }];
      const { lines, notes } = pricingOf(run);
      expect(sum(lines)).toBe(run.costUsd);
      expect(notes).toContain("not_itemised");
    }
  });

  test("if no price explains a run's cost, its pricing shows counts without amounts and one line for the whole cost", () => {
    const run = {
      ...pricedRun({ routes: [demo], calls: [{ route: 1, usage: { input_tokens: 10 } }] }),
      costUsd: "0.5",
    };
    const { lines, notes } = pricingOf(run);
    expect(lines.map(({ item, count, amountUsd }) => [item, count, amountUsd])).toEqual([
      ["input", 10, null],
      ["not_itemised", null, "0.5"],
    ]);
    expect(notes).toEqual(["not_itemised"]);
  });

  test("a run on a route that trusts the provider's stated cost has that cost as its only priced line", () => {
    // OpenRouter's usage accounting states `cost`: https://openrouter.ai/docs/use-cases/usage-accounting
    const routes = [{ ...demo, trusts_stated_cost: true }];
    const usage = { input_tokens: 1_000, output_tokens: 100 };
    const run = pricedRun({ routes, calls: [{ route: 1, usage, statedCostUsd: "0.0031" }] });
    const { lines, notes } = pricingOf(run);
    expect(lines.map(({ item, count, amountUsd }) => [item, count, amountUsd])).toEqual([
      ["input", 1_000, null],
      ["output", 100, null],
      ["stated_cost", null, "0.0031"],
    ]);
    expect(notes).toEqual(["stated_cost"]);
  });

  test("the last pricing line of a run is the difference from rounding to 12 decimals", () => {
    const prices = [{ ...tier, input: "0.0000015" }];
    const { lines, notes } = pricingOf(
      pricedRun({ routes: [{ ...demo, prices }], calls: [{ route: 1, usage: { input_tokens: 1 } }] }),
    );
    expect(lines.map(({ item, amountUsd }) => [item, amountUsd])).toEqual([
      ["input", "0.0000000000015"],
      ["rounding", "0.0000000000005"],
    ]);
    expect(notes).toEqual([]);
  });
});

test("if provider cost is hidden, a run's pricing lines contain only counts, and the only amounts are in credits", () => {
  const run = pricedRun({ routes: [demo], calls: [{ route: 1, usage: { input_tokens: 1_000, output_tokens: 5 } }] });
  const { markup: _, creditsPerUsd: __, ...priced } = run.priced;
  const hidden = {
    ...run,
    costUsd: null,
    servedTier: null,
    provider: null,
    priced: { ...priced, routes: [], attempts: [] },
  };
  expect(pricingOf(hidden)).toEqual({
    lines: [
      { call: null, item: "input", count: 1_000, pricedAs: null, unitPriceUsd: null, amountUsd: null },
      { call: null, item: "output", count: 5, pricedAs: null, unitPriceUsd: null, amountUsd: null },
    ],
    calls: null,
    costUsd: null,
    markup: null,
    creditsPerUsd: null,
    billedCredits: run.billedCredits,
    unmeteredCredits: "0",
    reservedCredits: null,
    notes: [],
  });
});

describe("the pricing notes of a run", () => {
  const usage = { input_tokens: 10, output_tokens: 5 };
  const run = (changes: object = {}, priced: object = {}) => {
    const base = pricedRun({ routes: [demo], calls: [{ route: 1, usage }] });
    return { ...base, ...changes, priced: { ...base.priced, ...priced } };
  };
  const nothing = { usageSource: "unavailable", inputTokens: 0, outputTokens: 0, costUsd: "0", billedCredits: "0" };
  const timeout = { route: 1, failure: "timeout", may_have_charged: true };

  test.for<[string, ReturnType<typeof run>, boolean]>([
    ["a plain call", run(), false],
    ["a free call", run({ costUsd: "0" }), false],
    ["a running call", run({ status: "running", usageSource: null, costUsd: "0" }), true],
    ["a call that reached no provider", run({ ...nothing, status: "failed" }, { askedProvider: false }), false],
    ["a call with unknown usage", run({ ...nothing, status: "failed" }), true],
    ["a swept call without counts", run({ ...nothing, status: "failed" }, { swept: true }), true],
    ["a swept call at its last counts", run({ usageSource: "unavailable" }, { swept: true }), false],
    ["a partly reported call", run({ usageSource: "provider_partial" }), false],
  ])("whether the cost of %s is unknown", ([, one, isUnknown]) => {
    expect(isCostUnknown(one)).toBe(isUnknown);
  });

  test.for<[string, ReturnType<typeof run>, string[]]>([
    ["a plain call", run(), []],
    [
      "a running call",
      run({ status: "running", usageSource: null, costUsd: "0", inputTokens: 0, outputTokens: 0 }),
      ["running"],
    ],
    [
      "a call that reached no provider",
      run({ ...nothing, status: "failed" }, { askedProvider: false, route: null, routes: [] }),
      ["not_called"],
    ],
    ["a call with unknown usage", run({ ...nothing, status: "failed" }), ["usage_unknown"]],
    [
      "a timeout that the provider may charge",
      run({ ...nothing, status: "failed" }, { attempts: [timeout] }),
      ["usage_unknown", "uncounted_attempts"],
    ],
    [
      "an answer after a timeout",
      run({ usageSource: "provider_partial" }, { attempts: [timeout, { route: 1 }] }),
      ["partial", "uncounted_attempts"],
    ],
    [
      "a truncated stream whose attempt is already counted",
      run({ usageSource: "estimated_partial" }, { attempts: [timeout] }),
      ["estimated"],
    ],
    ["a skipped route", run({}, { attempts: [{ route: 1, failure: "skipped" }, { route: 1 }] }), []],
    ["an app's call", run({}, { exempt: true }), ["exempt"]],
    ["a swept run without usage", run(nothing, { swept: true, askedProvider: false }), ["swept"]],
    ["an idempotent call", run({}, { idempotent: true }), ["repeats_free"]],
  ])("the pricing notes of a run are right for %s", ([, given, notes]) => {
    expect(pricingOf(given as ReturnType<typeof pricedRun>).notes).toEqual(notes);
    for (const note of notes) expect(pricingNotes).toContain(note);
  });
});

test("the costs of calls equal the costs that settlement records", () => {
  const call = { route: 1, usage: { input_tokens: 1_000, output_tokens: 100 } };
  expect(computeRunCost({ routes: [demo], credits_per_usd: "12000" }, [call])).toEqual({
    cost_usd: "0.0028",
    credits: "33.6",
  });
});
