import { expect, test } from "vitest";
import { fieldChanges, priceChanges } from "./model-preview.ts";
import type { ModelPrice } from "./models.ts";

const now = Date.parse("2026-11-27T12:00:00Z");

function price(id: number, changes: Partial<ModelPrice> = {}): ModelPrice {
  return {
    id,
    providerId: "openai",
    serviceTier: "default",
    minInputTokens: 0,
    from: "2026-11-01T00:00:00+00:00",
    until: null,
    current: true,
    inputUsd: "2.500000",
    cachedInputUsd: null,
    cacheWriteUsd: null,
    cacheWrite1hUsd: null,
    outputUsd: "10.000000",
    audioInputUsd: null,
    audioOutputUsd: null,
    imageInputUsd: null,
    requestFeeUsd: null,
    ...changes,
  };
}

test("shows what a new price changes, and when the price before it ends", () => {
  const prices = [
    price(1, { until: "2026-12-24T00:00:00+00:00" }),
    price(2, { from: "2026-12-24T00:00:00+00:00" }),
    price(3, { serviceTier: "flex", inputUsd: "1.000000" }),
    price(4, { minInputTokens: 200_000, inputUsd: "5.000000" }),
  ];
  const asked = price(0, { from: "2026-12-01T00:00:00Z", inputUsd: "2.5", cachedInputUsd: "1.25", outputUsd: "1000" });
  expect(priceChanges({ prices }, asked, now)).toEqual([
    "The price takes effect on 1 Dec 2026, 00:00 UTC and applies until the next price takes effect on 24 Dec 2026, 00:00 UTC.",
    "It replaces the price in effect since 1 Nov 2026, 00:00 UTC.",
    "Cached input: from none to $1.25",
    "Output: from $10.00 to $1,000.00 (100 times as much)",
  ]);
});

test("shows all amounts of a price that replaces no other price", () => {
  const prices = [price(1, { until: "2026-11-27T12:00:00+00:00" })];
  expect(priceChanges({ prices }, price(0, { from: null }), now)).toEqual([
    "The price takes effect when you confirm and applies until another price is added.",
    "It replaces no other price.",
    "Input: $2.50",
    "Output: $10.00",
  ]);
});

test.each([
  ["1.990000", "Input: from $1.00 to $1.99"],
  ["2.000000", "Input: from $1.00 to $2.00 (2 times as much)"],
  ["0.510000", "Input: from $1.00 to $0.51"],
  ["0.500000", "Input: from $1.00 to $0.50 (0.5 times as much)"],
  ["0.000000", "Input: from $1.00 to $0.00"],
])("states the factor of a price change only if the price at least doubles or halves: %s", (inputUsd, line) => {
  expect(priceChanges({ prices: [price(1, { inputUsd: "1.000000" })] }, price(0, { inputUsd }), now)).toContain(line);
});

test("the model preview lists the fields that change", () => {
  const route = { providerId: "openai", enabled: true, tierMultipliers: {}, idleSeconds: null };
  expect(fieldChanges(route, route)).toEqual([]);
  expect(fieldChanges(route, { ...route, enabled: false, tierMultipliers: { flex: "0.5" } })).toEqual([
    "Enabled: from yes to no",
    "Tier multipliers: from none to flex 0.5",
  ]);
  expect(fieldChanges(null, { displayName: "New", voices: ["alloy", "ash"], contextWindow: 128_000 })).toEqual([
    "Name: New",
    "Context window: 128,000",
    "Voices: alloy, ash",
  ]);
});
