import { expect, test } from "vitest";
import type { ConsoleModel, ModelPrice } from "../models.ts";
import {
  acceptCurrent,
  changeForm,
  completeFields,
  createBlankModel,
  fieldsOf,
  listChosenProviders,
  listRoutes,
  type Typed,
} from "./fields.ts";
import { readSetup } from "./read-setup.ts";

const route = {
  providerId: "openai",
  providerModel: "orbit-1",
  enabled: true,
  trustsStatedCost: false,
  tierMultipliers: {},
  firstByteSeconds: null,
  idleSeconds: null,
  totalSeconds: null,
};
const amounts = {
  inputUsd: "2.500000",
  cachedInputUsd: "0.250000",
  cacheWriteUsd: null,
  cacheWrite1hUsd: null,
  outputUsd: "10.000000",
  audioInputUsd: null,
  audioOutputUsd: null,
  imageInputUsd: null,
  requestFeeUsd: null,
};
const price: ModelPrice = {
  ...amounts,
  id: 7,
  providerId: "openai",
  serviceTier: "default",
  minInputTokens: 0,
  from: "2026-11-01T00:00:00+00:00",
  until: null,
  current: true,
};
const model: ConsoleModel = {
  ...createBlankModel([
    { id: "free", name: "Free", workspaces: 3 },
    { id: "team", name: "Team", workspaces: 1 },
  ]),
  id: "orbit-large",
  version: "v1",
  displayName: "Orbit large",
  ownedBy: "orbit",
  contextWindow: 128_000,
  outputLimit: 16_384,
  defaultOutputLimit: 4_096,
  defaultOfKind: "orbit-small",
  enabled: true,
  routes: [
    { ...route, position: 1, trustsStatedCost: true, tierMultipliers: { flex: "0.5", priority: "2" }, idleSeconds: 7 },
    { ...route, position: 2, providerId: "eu_openai", enabled: false },
  ],
  prices: [price, { ...price, id: 9, serviceTier: "flex", inputUsd: "1.000000" }],
  plans: [
    { id: "free", name: "Free", granted: false, workspaces: 3 },
    { id: "team", name: "Team", granted: true, workspaces: 1 },
  ],
};

/** Returns the form as a browser sends it. */
const edited = (changes: Record<string, string> = {}): Typed => ({ ...fieldsOf(model), ...changes });

function faultsOf(typed: Typed, of: ConsoleModel = model): Record<string, string> {
  const { error } = readSetup(typed, of);
  return Object.fromEntries((error?.issues ?? []).map(({ path, message }) => [path.join("."), message]));
}

test("a form that is sent without a change saves the model as it is", () => {
  const [first, second] = model.routes.map(({ position: _, ...others }) => others);
  expect(readSetup(edited(), model).setup).toEqual({
    model: "orbit-large",
    version: "v1",
    kind: "chat",
    displayName: "Orbit large",
    ownedBy: "orbit",
    contextWindow: 128_000,
    outputLimit: 16_384,
    defaultOutputLimit: 4_096,
    voices: [],
    studioDefault: true,
    isDefault: false,
    defaultOfKind: "orbit-small",
    routes: [first, second],
    prices: [],
    plans: ["team"],
    seenPlans: ["team"],
    enabled: null,
  });
});

test("only prices that the admin changed are saved, with the prices that the admin saw", () => {
  const scope = {
    providerId: "openai",
    serviceTier: "default",
    minInputTokens: 0,
    latest: "9",
    seen: 2,
    replaces: "7",
  };
  expect(readSetup(edited({ price_openai_inputUsd: "2.5" }), model).setup?.prices).toEqual([]);
  expect(readSetup(edited({ price_openai_inputUsd: "3" }), model).setup?.prices).toEqual([
    { ...amounts, ...scope, inputUsd: "3", cachedInputUsd: "0.25", outputUsd: "10" },
  ]);
  // A scheduled price has taken effect while the form was open.
  const later = {
    ...model,
    prices: [
      { ...price, current: false },
      { ...price, id: 9, inputUsd: "4.000000" },
    ],
  };
  expect(readSetup(edited(), later).setup?.prices).toEqual([]);
  // The database then refuses a changed amount, because price 7 is no longer in force.
  expect(readSetup(edited({ price_openai_outputUsd: "11" }), later).setup?.prices).toMatchObject([{ replaces: "7" }]);
});

test("every name of the form's fields is plain, so that the server reads it", () => {
  const names = Object.keys(fieldsOf({ ...model, routes: [{ ...route, position: 1, providerId: "a".repeat(32) }] }));
  expect(names.filter((name) => !/^[A-Za-z][A-Za-z0-9_]{0,63}$/.test(name))).toEqual([]);
});

test("a new model is read from a form with a route, its prices and a plan", () => {
  const blank = createBlankModel(model.plans);
  const form = completeFields(changeForm(fieldsOf(blank), { intent: "add-route", providerId: "openai" }) ?? {}, blank);
  const typed = {
    ...form,
    ...{ id: "orbit-1", displayName: "Orbit", ownedBy: "orbit", plan_free: "on", enabled: "on" },
    ...{ route1_providerModel: "orbit-1", price_openai_inputUsd: "2.5", price_openai_outputUsd: " 10 " },
  };
  expect(readSetup(typed, blank).setup).toMatchObject({
    model: "orbit-1",
    version: null,
    routes: [route],
    prices: [
      {
        providerId: "openai",
        inputUsd: "2.5",
        outputUsd: "10",
        cachedInputUsd: null,
        latest: null,
        seen: 0,
        replaces: null,
      },
    ],
    plans: ["free"],
    seenPlans: [],
    enabled: true,
  });
});

test.each([
  ["add-route", ["openai orbit-1", "eu_openai orbit-1", "azure orbit-1"]],
  ["remove-route-1", ["eu_openai orbit-1"]],
  ["remove-route-2", ["openai orbit-1"]],
  ["move-route-2", ["eu_openai orbit-1", "openai orbit-1"]],
  ["move-route-1", ["openai orbit-1", "eu_openai orbit-1"]],
  ["open-route-2", ["openai orbit-1", "eu_openai orbit-1"]],
])("the button %s keeps everything else that is typed", (intent, routes) => {
  const before = edited({ displayName: "Typed", price_eu_openai_inputUsd: "x", plan_free: "on", reason: "Because" });
  const after = changeForm(before, { intent, providerId: "azure" }) ?? {};
  expect(listRoutes(after).map(({ providerId, providerModel }) => `${providerId} ${providerModel}`)).toEqual(routes);
  const others = (typed: Typed) => Object.entries(typed).filter(([name]) => !/^route\d/.test(name));
  expect(others(after)).toEqual(others(before));
});

test("a moved route takes all its fields along", () => {
  const moved = changeForm(edited(), { intent: "move-route-2", providerId: "" }) ?? {};
  expect(listRoutes(moved)).toEqual(listRoutes(edited()).toReversed());
});

test.each(["", "save", "preview", "remove-route-0", "remove-route-3", "remove-route-1x", "add-route-1"])(
  "the intent %j changes no row",
  (intent) => {
    expect(changeForm(edited(), { intent, providerId: "" })).toBeNull();
  },
);

test("opens the further prices of a provider whose id contains the names of others", () => {
  const opened = changeForm(edited(), { intent: "open-price-eu_openai", providerId: "" }) ?? {};
  expect(opened.price_eu_openai_opened).toBe("1");
  expect(opened.price_openai_opened).toBeUndefined();
});

test("shows the current prices of each provider that a route names, and keeps typed ones", () => {
  const typed = edited({ route2_providerId: "", route2_otherProvider: " OpenAI ", price_openai_inputUsd: "3" });
  const completed = completeFields(typed, model);
  expect(listChosenProviders(completed)).toEqual(["openai"]);
  expect(completed).toMatchObject({ route2_providerId: "openai", price_openai_inputUsd: "3" });
  expect(completed).not.toHaveProperty("route2_otherProvider");
  const fresh = completeFields({ route1_providerId: "openai", route1_providerModel: "x" }, model);
  expect(fresh).toMatchObject({ price_openai_seen: "9:2:7", price_openai_inputUsd: "2.5" });
});

test("after a conflict, the form has the current version and prices, and still what was typed", () => {
  const prices = [{ ...price, id: 11, inputUsd: "5.000000" }, ...model.prices];
  const later = { ...model, version: "v2", prices };
  const accepted = { displayName: "Typed", version: "v2", price_openai_seen: "11:3:11" };
  const typed = edited({ displayName: "Typed" });
  expect(acceptCurrent(typed, { model: later, changedPrices: [] })).toEqual(
    edited({ ...accepted, price_openai_inputUsd: "5" }),
  );
  const priced = edited({ displayName: "Typed", price_openai_inputUsd: "3" });
  expect(acceptCurrent(priced, { model: later, changedPrices: ["openai"] })).toEqual(
    edited({ ...accepted, price_openai_inputUsd: "3" }),
  );
});

test.each<[string, Record<string, string>, Record<string, unknown>]>([
  ["a route without a model name", { route2_providerModel: " " }, { route2_providerModel: expect.anything() }],
  ["a provider that isn’t an id", { route2_providerId: "eu openai" }, { route2_providerId: expect.anything() }],
  [
    "another provider without an id",
    { route2_providerId: "", route2_otherProvider: "" },
    { route2_otherProvider: expect.anything() },
  ],
  [
    "the same route twice",
    { route2_providerId: "openai" },
    { route2_providerModel: "Enter another model or provider: route 1 already has these" },
  ],
  ["a time limit of zero", { route1_idleSeconds: "0" }, { route1_idleSeconds: expect.anything() }],
  [
    "prices that were not shown",
    { route2_providerId: "azure" },
    { route2_providerId: "Check the prices of azure, then save again" },
  ],
  [
    "an amount with seven decimals",
    { price_openai_inputUsd: "0.0000001" },
    { price_openai_inputUsd: expect.stringContaining("at most 6 decimals") },
  ],
  [
    "an output price without an input price",
    { price_eu_openai_outputUsd: "1" },
    { price_eu_openai_inputUsd: "Enter an amount in USD, or leave all prices of this provider empty" },
  ],
  [
    "the removal of a price",
    { price_openai_inputUsd: "", price_openai_outputUsd: "", price_openai_cachedInputUsd: "" },
    { price_openai_inputUsd: "Enter an amount in USD: a price can be replaced, but not removed" },
  ],
  ["a default output limit above the limit", { outputLimit: "1" }, { defaultOutputLimit: expect.anything() }],
])("refuses %s at its field", (_, changes, faults) => {
  expect(faultsOf(edited(changes))).toEqual(faults);
});

test("refuses a new model without an id at its field", () => {
  const blank = createBlankModel();
  expect(Object.keys(faultsOf(fieldsOf(blank), blank))).toEqual(["id", "displayName", "ownedBy"]);
});
