import { describe, expect, test } from "vitest";
import { computeRunCost } from "../../_shared/call-price.ts";
import type { CallUse } from "../usage/usage.ts";
import { readRunFacts, totalCounts } from "./run-cost.ts";

const flat = (price: string) => [{ min_input_tokens: 0, input: price, output: price }];
const run = {
  credits_per_usd: "12000",
  routes: [
    { position: 1, provider: "demo", model: "m", prices: flat("1") },
    {
      position: 2,
      provider: "other",
      model: "m",
      prices: [...flat("10"), { min_input_tokens: 100, input: "20", output: "20" }],
    },
  ],
};
const call = (route: number, input_tokens: number, output_tokens: number, basis: CallUse["basis"] = "final") => ({
  route,
  usage: { input_tokens, output_tokens },
  basis,
});

describe("Cost of a run", () => {
  test("charges each call of a run at the prices of its own route and tier", () => {
    const calls = [call(1, 100, 10), call(2, 99, 10), call(2, 100, 0)];
    // (110 × 1 + 109 × 10 + 100 × 20) millionths of a dollar. If the inputs were added up first, another context tier's
    // price would apply.
    expect(computeRunCost(run, calls)).toEqual({ cost_usd: "0.0032", credits: "38.4" });
    expect(totalCounts(calls)).toEqual({ input_tokens: 299, output_tokens: 20 });
  });

  test("a run's cost includes calls whose usage is an estimate", () => {
    expect(computeRunCost(run, [call(1, 100, 10), call(1, 5_000, 0, "guess")]).cost_usd).toBe("0.00511");
  });

  test("charges the provider's stated cost if the route trusts it, and the route's prices otherwise", () => {
    // OpenRouter states `cost` in its usage.
    const stated = { ...call(1, 1_000, 100), statedCostUsd: "0.0031", servedTier: "odd" };
    const trusting = { ...run, routes: run.routes.map((route) => ({ ...route, trusts_stated_cost: true })) };
    expect(computeRunCost(trusting, [stated]).cost_usd).toBe("0.0031");
    expect(computeRunCost(trusting, [call(1, 1_000, 100)]).cost_usd).toBe("0.0011");
    expect(computeRunCost(run, [stated]).cost_usd).toBe("0.0011");
    expect(readRunFacts(trusting, [stated])).toEqual({ served_tier: "odd" });
  });

  test.for([
    ["0.000012000000000000002", "0.000012"],
    ["0.0000000000005", "0"],
    ["0.00000000000051", "0.000000000001"],
    ["0.0000000000015", "0.000000000002"],
  ] as const)("a run's cost is rounded to the database's twelve decimals: %s", ([statedCostUsd, cost_usd]) => {
    const trusting = { ...run, routes: run.routes.map((route) => ({ ...route, trusts_stated_cost: true })) };
    expect(computeRunCost(trusting, [{ ...call(1, 1, 1), statedCostUsd }]).cost_usd).toBe(cost_usd);
  });

  test("a run is marked unpriced_tier if a call was served at a tier without a price, and keeps its other marks", () => {
    const served = (servedTier: string) => ({ ...call(1, 1, 1), servedTier });
    expect(readRunFacts(run, [call(1, 1, 1)])).toEqual({});
    expect(readRunFacts(run, [served("default")])).toEqual({ served_tier: "default" });
    const marked = { ...served("priority"), marks: ["above_output_limit" as const] };
    expect(readRunFacts(run, [marked, call(1, 1, 1)])).toEqual({
      served_tier: "priority",
      marks: ["above_output_limit", "unpriced_tier"],
    });
  });

  test("a run without calls costs nothing, and a call on an unknown route is charged at the first route's prices", () => {
    expect(computeRunCost(run, [])).toEqual({ cost_usd: "0", credits: "0" });
    expect(computeRunCost(run, [call(9, 100, 0)]).cost_usd).toBe("0.0001");
  });

  test("marks a run whose usage is estimated from a document that could not be measured", () => {
    const unmeasured = { hasUnmeasuredInput: true };
    expect(readRunFacts(run, [call(1, 10, 0, "guess")], unmeasured)).toEqual({ marks: ["unmeasured_document"] });
    expect(readRunFacts(run, [call(1, 10, 0)], unmeasured)).toEqual({});
    expect(readRunFacts(run, [call(1, 10, 0, "guess")])).toEqual({});
  });
});
