import { expect, test } from "vitest";
import { unitPriceWords } from "./run-facts.ts";

test.each([
  [[], ""],
  [[{ minInputTokens: 0, inputUsd: "2.5", outputUsd: "8" }], "$2.50 / $8.00 per million input/output tokens"],
  [
    [
      { minInputTokens: 0, inputUsd: "0.075", outputUsd: "0.3" },
      { minInputTokens: 200_000, inputUsd: "5", outputUsd: "16" },
    ],
    "$0.075 / $0.30 per million input/output tokens; $5.00 / $16.00 from 200,000 input tokens",
  ],
])("unit prices %j read as %j", (prices, words) => {
  expect(unitPriceWords(prices)).toBe(words);
});
