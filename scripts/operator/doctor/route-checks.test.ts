import { expect, test } from "vitest";
import { readProviders } from "../../../supabase/functions/_gateway/providers/provider-settings.ts";
import { checkRoutes, groupByProvider, type RoutedModel } from "./route-checks.ts";

const providers = readProviders(
  { AI_PROVIDER_A_KIND: "openai", AI_PROVIDER_A_API_KEY: "k", AI_PROVIDER_B_KIND: "groq", AI_PROVIDER_B_API_KEY: "k" },
  { local: false },
);
const route = (position: number, provider_id: string, tier_multipliers = {}) => ({
  model_id: "m",
  position,
  provider_id,
  provider_model: "upstream",
  tier_multipliers,
});
const price = (providerId: string, { serviceTier = "default", minInputTokens = 0 } = {}) => ({
  providerId,
  serviceTier,
  minInputTokens,
  current: true,
});
const model = (more: Partial<RoutedModel>): RoutedModel => ({
  id: "m",
  kind: "chat",
  routes: [route(1, "a")],
  prices: [price("a")],
  granted: true,
  ...more,
});

test.each<[string, Partial<RoutedModel>, string[]]>([
  ["a price and a provider", {}, ["ok 1 enabled, each route with a provider and a price"]],
  ["no route", { routes: [] }, ["fail route: m has no enabled route, so callers get 404. Add one"]],
  [
    "no grant",
    { granted: false },
    [
      "ok 1 enabled, each route with a provider and a price",
      "warn grant: no plan or workspace may use m, so callers get 404. Add a grant",
    ],
  ],
  [
    "no price",
    { prices: [] },
    ["fail price: route 1 of m has no current price for a, so callers get 404. Add a price"],
  ],
  [
    "no price on one of two routes",
    { routes: [route(1, "a"), route(2, "b")] },
    ["fail price: route 2 of m has no current price for b, so calls skip it. Add a price"],
  ],
  [
    "a provider without settings",
    { routes: [route(1, "eu_openai")], prices: [price("eu_openai")] },
    [
      "fail route: route 1 of m leads to eu_openai, which has no settings, so callers get 404. Add its settings, such as AI_PROVIDER_EU_OPENAI_KIND",
    ],
  ],
  [
    "a provider without the endpoint",
    { kind: "embedding", routes: [route(1, "b")], prices: [price("b")] },
    [
      "fail kind: route 1 of m leads to b, which has no endpoint for embedding models, so callers get 404. Correct AI_PROVIDER_B_KIND",
    ],
  ],
  [
    "a price for long inputs only",
    { prices: [price("a", { minInputTokens: 200_000 })] },
    ["fail price: route 1 of m has no price of the tier default from 0 tokens on"],
  ],
  [
    "a price for another tier only",
    { prices: [price("a", { serviceTier: "flex" })] },
    ["fail price: route 1 of m has no price of the tier default from 0 tokens on"],
  ],
  [
    "a tier's price on one of two routes",
    { routes: [route(1, "a"), route(2, "b")], prices: [price("a"), price("a", { serviceTier: "flex" }), price("b")] },
    ["ok 1 enabled", "warn price: m has a price for the tier flex, but not on route 2, so calls that name it get 400"],
  ],
  [
    "a tier's price on one route and its multiplier on the other",
    {
      routes: [route(1, "a"), route(2, "b", { flex: 0.5 })],
      prices: [price("a"), price("a", { serviceTier: "flex" }), price("b")],
    },
    ["ok 1 enabled"],
  ],
])("the doctor's route check gives the expected findings for a model with %s", (_, more, expected) => {
  const found = checkRoutes([model(more)], providers).map(({ level, says }) => `${level} ${says}`);
  expect(found).toEqual(expected.map((says) => expect.stringContaining(says)));
});

test("checks the routes' prices even if the providers' settings are unknown", () => {
  const unknown = model({ routes: [route(1, "elsewhere")], prices: [price("elsewhere")] });
  expect(checkRoutes([unknown], undefined)).toEqual([expect.objectContaining({ level: "ok" })]);
  expect(checkRoutes([{ ...unknown, prices: [] }], undefined)).toEqual([expect.objectContaining({ level: "warn" })]);
});

test("the doctor warns if no model is enabled", () => {
  expect(checkRoutes([], providers)).toEqual([expect.objectContaining({ level: "warn" })]);
});

test("asks a provider only once about a model that several routes name", () => {
  const twice = [model({}), model({ id: "n", routes: [{ ...route(3, "a"), model_id: "n" }] })];
  expect([...groupByProvider(twice, providers)]).toEqual([
    ["a", [{ model: "upstream", endpoint: "chat", routes: ["route 1 of m", "route 3 of n"] }]],
  ]);
});
