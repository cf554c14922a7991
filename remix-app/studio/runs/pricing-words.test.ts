import { expect, test } from "vitest";
import type { RunPricing } from "./pricing-schema.ts";
import { creditsFormula } from "./pricing-words.ts";

const pricing: RunPricing = {
  lines: [],
  calls: [],
  costUsd: "0.0028",
  markup: "1.2",
  creditsPerUsd: "12000",
  billedCredits: "33.6",
  unmeteredCredits: "0",
  reservedCredits: null,
  notes: [],
};

test.each([
  ["a run", {}, "$0.0028 × 10,000 × 1.2 = 33.6 credits"],
  [
    "an app's run, by what it would have cost",
    { billedCredits: "0", unmeteredCredits: "33.6", notes: ["exempt"] },
    "$0.0028 × 10,000 × 1.2 = 33.6 credits",
  ],
  [
    "an app's run that was swept without a cost, with any reservation",
    { costUsd: "0", billedCredits: "0", unmeteredCredits: "512", notes: ["exempt", "swept"] },
    "$0.00 × 10,000 × 1.2 = 0 credits",
  ],
] as const)("the formula holds for %s", (_, changes, formula) => {
  expect(creditsFormula({ ...pricing, ...changes, notes: [...("notes" in changes ? changes.notes : [])] })).toBe(
    formula,
  );
});

test("a running run has no formula, and neither does one with a hidden provider cost", () => {
  expect(creditsFormula({ ...pricing, notes: ["running"] })).toBeNull();
  expect(creditsFormula({ ...pricing, costUsd: null, markup: null })).toBeNull();
});
