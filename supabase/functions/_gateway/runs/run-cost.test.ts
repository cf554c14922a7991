import { describe, expect, test } from "vitest";
import { type CallUse, runCost, totalCounts } from "./run-cost.ts";

const flat = (price: string) => [{ min_input_tokens: 0, input: price, output: price }];
const run = {
  reserved_usd: "0.01",
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

describe("the cost of a run", () => {
  test("charges each call at its own route and tier", () => {
    const calls = [call(1, 100, 10), call(2, 99, 10), call(2, 100, 0)];
    // (110 × 1 + 109 × 10 + 100 × 20) millionths of a dollar; the sum of the input would be of another tier.
    expect(runCost(run, calls)).toEqual({ cost_usd: "0.0032", credits: "38.4" });
    expect(totalCounts(calls)).toEqual({ input_tokens: 299, output_tokens: 20 });
  });

  test.for([
    { guessed: 9_890, usd: "0.01" },
    { guessed: 9_891, usd: "0.01" },
    { guessed: 9_889, usd: "0.009999" },
  ])("charges a guess of $guessed tokens within the rest of the reservation", ({ guessed, usd }) => {
    expect(runCost(run, [call(1, 100, 10), call(1, guessed, 0, "guess")]).cost_usd).toBe(usd);
  });

  test("charges stated usage beyond the reservation, and no guess beside it", () => {
    expect(runCost(run, [call(1, 10_000, 1), call(1, 5, 5, "guess")]).cost_usd).toBe("0.010001");
  });

  test("charges nothing without calls, and a route that is unknown as the first", () => {
    expect(runCost(run, [])).toEqual({ cost_usd: "0", credits: "0" });
    expect(runCost(run, [call(9, 100, 0)]).cost_usd).toBe("0.0001");
  });
});
