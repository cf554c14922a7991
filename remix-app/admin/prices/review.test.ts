import { expect, test } from "vitest";
import type { ProposedPrice } from "./proposal.ts";
import { type ReviewedPrices, readSelection } from "./review.ts";

const none = {
  inputUsd: null,
  cachedInputUsd: null,
  cacheWriteUsd: null,
  cacheWrite1hUsd: null,
  outputUsd: null,
  audioInputUsd: null,
  audioOutputUsd: null,
  imageInputUsd: null,
  requestFeeUsd: null,
};
const known = { ...none, inputUsd: "1.000000", outputUsd: "2.000000", audioInputUsd: "7.000000" };
const price = (rest: Partial<ProposedPrice> = {}): ProposedPrice => ({
  model: "m",
  displayName: "M",
  providerId: "openai",
  serviceTier: "default",
  minInputTokens: 0,
  latest: "7",
  current: known,
  scheduled: false,
  offered: [
    { inputUsd: { usd: "1.5" }, outputUsd: { usd: "2" }, cachedInputUsd: { usd: "0.1" } },
    { inputUsd: { usd: "1.6" }, outputUsd: { usd: null, note: "marked" } },
  ],
  ...rest,
});
const choose = (fields: Record<string, string>, ...prices: ProposedPrice[]) => {
  const shown: ReviewedPrices = { sources: ["models.dev", "LiteLLM"], prices: prices.length > 0 ? prices : [price()] };
  return readSelection(shown, new Map(Object.entries(fields)));
};
const scope = { model: "m", providerId: "openai", serviceTier: "default", minInputTokens: 0, latest: "7" };

test.each<[string, Record<string, string>, Record<string, string>]>([
  ["one amount", { pick0_inputUsd_1: "on" }, { inputUsd: "1.6" }],
  ["all amounts", { take0: "0" }, { inputUsd: "1.5", outputUsd: "2", cachedInputUsd: "0.1" }],
  ["all usable amounts", { take0: "1" }, { inputUsd: "1.6" }],
  [
    "all amounts but one",
    { take0: "0", pick0_inputUsd_1: "on" },
    { inputUsd: "1.6", outputUsd: "2", cachedInputUsd: "0.1" },
  ],
])("takes %s from a price source and keeps all other amounts", (_, fields, amounts) => {
  expect(choose(fields)).toEqual({ chosen: [{ ...scope, ...known, ...amounts }] });
});

test.each<[string, Record<string, string>, Partial<ProposedPrice>, string]>([
  ["nothing is chosen", { take0: "" }, {}, "at least one price"],
  ["the chosen amount is the current one", { pick0_outputUsd_0: "on" }, {}, "at least one price"],
  [
    "two sources are chosen",
    { pick0_inputUsd_0: "on", pick0_inputUsd_1: "on" },
    {},
    "m through openai: choose one source for Input",
  ],
  ["an amount that can't be used is chosen", { pick0_outputUsd_1: "on" }, {}, "at least one price"],
  ["a row that does not exist is chosen", { take1: "0" }, {}, "at least one price"],
  ["an unknown source is chosen", { take0: "2" }, {}, "at least one price"],
  [
    "a new price has no output amount",
    { pick0_inputUsd_0: "on" },
    { current: null },
    "needs an input and an output price",
  ],
  ["a later price is scheduled", { take0: "0" }, { scheduled: true }, "a later price is scheduled"],
])("refuses a review of price differences if %s", (_, fields, rest, fault) => {
  expect(choose(fields, price(rest))).toEqual({ fault: expect.stringContaining(fault) });
});

test("creates a new price from the amounts chosen in the review", () => {
  expect(choose({ take0: "0" }, price({ current: null, latest: null }))).toEqual({
    chosen: [{ ...scope, latest: null, ...none, inputUsd: "1.5", outputUsd: "2", cachedInputUsd: "0.1" }],
  });
});
