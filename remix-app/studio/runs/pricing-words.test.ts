import { expect, test } from "vitest";
import type { RunPricing } from "./pricing-schema.ts";
import { creditsFormula, pricingNoteWords } from "./pricing-words.ts";
import { pricedRun } from "./run-fixtures.ts";

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
    "an app's run, priced at what it would have cost",
    { billedCredits: "0", unmeteredCredits: "33.6", notes: ["exempt"] },
    "$0.0028 × 10,000 × 1.2 = 33.6 credits",
  ],
  [
    "an app's run that was swept without a cost, despite its reservation",
    { costUsd: "0", billedCredits: "0", unmeteredCredits: "512", notes: ["exempt", "swept"] },
    "$0.00 × 10,000 × 1.2 = 0 credits",
  ],
] as const)("the credits formula is right for %s", (_, changes, formula) => {
  expect(creditsFormula({ ...pricing, ...changes, notes: [...("notes" in changes ? changes.notes : [])] })).toBe(
    formula,
  );
});

test("the credits formula groups thousands", () => {
  const changes = { costUsd: "1.1385105", markup: "1", billedCredits: "11385.105" };
  expect(creditsFormula({ ...pricing, ...changes })).toBe("$1.1385105 × 10,000 × 1 = 11,385.105 credits");
});

test.each([
  ["app_token", "because this run came from a registered app."],
  ["key", "because this run used an app’s API key."],
] as const)("states why a run of an app with credential %s cost no credits", (credentialSource, reason) => {
  expect(
    pricingNoteWords({ ...pricing, notes: ["exempt"] }, { ...pricedRun({ routes: [], calls: [] }), credentialSource }),
  ).toEqual([`No credits were charged, ${reason} “Credits not billed” shows what it would have cost.`]);
});

test("neither a run in progress nor a run with a hidden provider cost has a formula", () => {
  expect(creditsFormula({ ...pricing, notes: ["running"] })).toBeNull();
  expect(creditsFormula({ ...pricing, costUsd: null, markup: null })).toBeNull();
});
