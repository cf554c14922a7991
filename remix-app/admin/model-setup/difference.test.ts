import { expect, test } from "vitest";
import type { ConsoleModel, ConsoleRoute, ModelPrice } from "../models.ts";
import { confirmationOf, describeSetup, listSetupFaults } from "./difference.ts";
import { createBlankModel, fieldsOf } from "./fields.ts";
import { type ModelSetup, readSetup } from "./read-setup.ts";

const route: ConsoleRoute = {
  position: 1,
  providerId: "openai",
  providerModel: "orbit-1",
  enabled: true,
  trustsStatedCost: false,
  tierMultipliers: {},
  firstByteSeconds: null,
  idleSeconds: null,
  totalSeconds: null,
};
const azure = { ...route, position: 2, providerId: "azure" };
const price: ModelPrice = {
  id: 7,
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
};
const model: ConsoleModel = {
  ...createBlankModel(),
  id: "orbit-large",
  version: "v1",
  displayName: "Orbit large",
  ownedBy: "orbit",
  enabled: true,
  hasRoute: true,
  hasPrice: true,
  hasGrant: true,
  isDefault: true,
  defaultOfKind: "orbit-large",
  routes: [route],
  prices: [price],
  plans: [
    { id: "free", name: "Free", granted: false, workspaces: 3 },
    { id: "team", name: "Team", granted: true, workspaces: 1 },
  ],
};

/** Returns what the form of a model saves if it is sent without a change. */
function setupOf(before: ConsoleModel, changes: Partial<ModelSetup> = {}): ModelSetup {
  const { setup, error } = readSetup(fieldsOf(before), before);
  if (!setup) throw error;
  return { ...setup, ...changes };
}

const { id: _, from: __, until: ___, current: ____, inputUsd, outputUsd, ...otherAmounts } = price;
const scope = { serviceTier: "default", minInputTokens: 0, latest: null, seen: 0, replaces: null } as const;
const openaiPrice = { ...otherAmounts, ...scope, inputUsd, outputUsd };
const azurePrice = { ...openaiPrice, providerId: "azure" };

test("a form without a change changes nothing", () => {
  expect(describeSetup(model, setupOf(model))).toEqual(["Nothing changes."]);
});

test("describes changed settings, an added route, a new price and plans", () => {
  const setup = setupOf(model, {
    displayName: "Orbit XL",
    isDefault: false,
    routes: [azure, { ...route, idleSeconds: 7 }],
    prices: [{ ...openaiPrice, inputUsd: "5" }, azurePrice],
    plans: ["free"],
  });
  const begins = "The price takes effect when you confirm and applies until another price is added.";
  expect(describeSetup(model, setup)).toEqual([
    "Name: from Orbit large to Orbit XL",
    "Default of its kind: from yes to no",
    "There will be no default chat model, so requests that name no model get 404.",
    "Route azure, orbit-1 is added.",
    "Route openai, orbit-1: Timeout between chunks (seconds): from none to 7",
    "Routes are tried in this order: azure, orbit-1; openai, orbit-1.",
    `Price of openai: ${begins}`,
    "Price of openai: Input: from $2.50 to $5.00 (2 times as much)",
    `Price of azure: ${begins}`,
    "Price of azure: Input: $2.50",
    "Price of azure: Output: $10.00",
    "Granted to the 3 workspaces on the Free plan.",
    "Withdrawn from the 1 workspace on the Team plan, unless another grant allows it.",
  ]);
});

test("an enabled model says which callers will get 404", () => {
  expect(describeSetup(model, setupOf(model, { routes: [azure] })).at(-1)).toBe("No price, so callers will get 404.");
});

test("describes a new order, and a route that is removed", () => {
  const both = { ...model, routes: [route, azure] };
  const swapped = setupOf(both, { routes: [azure, route] });
  expect(describeSetup(both, swapped)).toEqual(["Routes are tried in this order: azure, orbit-1; openai, orbit-1."]);
  expect(describeSetup(both, setupOf(both, { routes: [azure] }))).toEqual([
    "Route openai, orbit-1 is removed. The prices of openai are kept.",
    "No price, so callers will get 404.",
  ]);
  expect(describeSetup(both, setupOf(both, { routes: [] }))).toContain("No route, so callers will get 404.");
});

test("a model that is enabled with faults says what callers still get", () => {
  const disabled = { ...model, enabled: false, prices: [] };
  const setup = setupOf(disabled, { enabled: true, plans: [], studioDefault: false });
  expect(describeSetup(disabled, setup).filter((line) => line.endsWith("404.") || line.includes("enabled"))).toEqual([
    "The model is enabled.",
    "No price, so callers still get 404.",
    "No grant, so callers still get 404.",
    "Not offered to workspaces, so callers still get 404.",
  ]);
});

test("only the prices of an enabled route's provider let callers use the model", () => {
  const faults = (changes: Partial<ModelSetup>) => listSetupFaults(model, setupOf(model, changes));
  expect(faults({})).toEqual([]);
  expect(faults({ prices: [] })).toEqual([]);
  expect(faults({ routes: [azure, { ...route, enabled: false }] })).toEqual(["No price"]);
  expect(faults({ routes: [{ ...route, enabled: false }] })).toEqual(["No route"]);
});

test.each<[string, Partial<ModelSetup>, boolean]>([
  ["changes nothing", {}, false],
  ["disables the last enabled route", { routes: [{ ...route, enabled: false }] }, true],
  ["removes the last enabled route", { routes: [] }, true],
  ["replaces the last enabled route by one without a price", { routes: [azure] }, true],
  ["replaces the last enabled route by one with a price", { routes: [azure], prices: [azurePrice] }, false],
  ["adds a route", { routes: [route, azure] }, false],
  ["withdraws the model from a plan", { plans: [] }, true],
  ["grants the model to another plan", { plans: ["free", "team"] }, false],
  ["no longer offers the model", { studioDefault: false }, true],
  ["leaves the kind without a default model", { isDefault: false }, true],
])("an edit that %s is confirmed by typing only if it takes the model away", (_, changes, isTyped) => {
  const confirmation = isTyped ? { text: "orbit-large", what: "the model’s ID" } : null;
  expect(confirmationOf(model, setupOf(model, changes))).toEqual(confirmation);
});

test("an edit of a model that has no route, plan or default yet takes nothing away", () => {
  const bare = {
    ...model,
    isDefault: false,
    studioDefault: false,
    hasRoute: false,
    hasPrice: false,
    hasGrant: false,
    routes: [],
    prices: [],
    plans: [],
  };
  expect(confirmationOf(bare, setupOf(bare))).toBeNull();
});
