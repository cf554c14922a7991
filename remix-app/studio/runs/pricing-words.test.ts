import { expect, test } from "vitest";
import type { RunPricing } from "./pricing-schema.ts";
import { creditsFormula, pricingNoteWords, unitPriceWords } from "./pricing-words.ts";

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

test("the credits formula separates thousands with commas", () => {
  const changes = { costUsd: "1.1385105", markup: "1", billedCredits: "11385.105" };
  expect(creditsFormula({ ...pricing, ...changes })).toBe("$1.1385105 × 10,000 × 1 = 11,385.105 credits");
});

test.each([
  ["app_token", "because this run came from an external app."],
  ["key", "because this run used an app’s API key."],
] as const)("states why an app's run with the credential %s cost no credits", (credentialSource, reason) => {
  const words = (unmeteredCredits: string) =>
    pricingNoteWords({ unmeteredCredits, notes: ["exempt"] }, { credentialSource });
  expect(words("0")).toEqual([`No credits were charged, ${reason}`]);
  expect(words("33.6")).toEqual([
    `No credits were charged, ${reason} “Credits not billed” shows what it would have cost.`,
  ]);
});

test.each(["not_called", "usage_unknown"] as const)(
  "gives only one reason, %s, why an app's run was not billed",
  (note) => {
    const words = pricingNoteWords({ unmeteredCredits: "0", notes: [note, "exempt"] }, { credentialSource: "key" });
    expect(words).toEqual([expect.stringContaining("Nothing was billed")]);
  },
);

test("the pricing note on an app's run that the sweeper closed does not say what the run would have cost", () => {
  const run = { unmeteredCredits: "512", notes: ["exempt" as const, "swept" as const] };
  expect(pricingNoteWords(run, { credentialSource: "key" }).join(" ")).not.toContain("what it would have cost");
});

test("a cost that was not billed has no credits formula, because the formula would not add up", () => {
  expect(creditsFormula({ ...pricing, billedCredits: "0" })).toBeNull();
  expect(creditsFormula({ ...pricing, billedCredits: "0", markup: "0" })).toContain("= 0 credits");
});

test("the unit price of an item without its own price names the item whose price applies", () => {
  const line = {
    call: null,
    count: 1,
    amountUsd: "0",
    item: "audio_output",
    unitPriceUsd: "8",
    pricedAs: "output",
  } as const;
  expect(unitPriceWords(line)).toBe("$8.00 per million (price of output)");
});

test("neither a run in progress nor a run with a hidden provider cost has a credits formula", () => {
  expect(creditsFormula({ ...pricing, notes: ["running"] })).toBeNull();
  expect(creditsFormula({ ...pricing, costUsd: null, markup: null })).toBeNull();
});
