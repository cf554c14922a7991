import { expect, test } from "vitest";
import { creditsOf, findModels, listProviders, parseModels, readModelFilter } from "./models.ts";

/** Returns a model as the gateway lists it; `routes` is JSON text. */
const listed = (id: string, { kind = "chat", more = "" } = {}) =>
  `{"id": "${id}", "pricing": {"prompt": "0.1"}, "platform": {"name": "Model ${id}", "kind": "${kind}", "endpoints": ["/v1/x"], ` +
  `"context_window": 400000, "output_limit": null, "prices": []${more}}}`;
const list = (...models: string[]) => parseModels(`{"object": "list", "data": [${models.join(", ")}]}`);
const routes = (provider: string) =>
  `, "credits_per_usd": 12500, "routes": [{"provider": "${provider}", "model": "m", "tier_multipliers": {"flex": 0.5}, "prices": [` +
  '{"min_input_tokens": 0, "input_usd_per_million": 123456789012.345678, "output_usd_per_million": 10, "request_fee_usd": 0.01}, ' +
  '{"min_input_tokens": 200000, "service_tier": "priority", "input_usd_per_million": 5, "output_usd_per_million": 20}]}]';

test("a model has its limits and the exact prices of each route and tier, in the order of a price list", () => {
  expect(list(listed("a", { more: routes("openai") }))).toEqual([
    {
      id: "a",
      name: "Model a",
      kind: "chat",
      endpoints: ["/v1/x"],
      chatOutputLimit: null,
      contextWindow: 400_000,
      outputLimit: null,
      creditsPerUsd: "12500",
      default: false,
      routes: [
        {
          provider: "openai",
          model: "m",
          multipliers: { flex: 0.5 },
          tiers: [
            {
              minInputTokens: 0,
              serviceTier: "default",
              prices: [
                { item: "input", usd: "123456789012.345678" },
                { item: "output", usd: "10" },
                { item: "request_fee", usd: "0.01" },
              ],
            },
            {
              minInputTokens: 200_000,
              serviceTier: "priority",
              prices: [
                { item: "input", usd: "5" },
                { item: "output", usd: "20" },
              ],
            },
          ],
        },
      ],
    },
  ]);
});

test("a model of a workspace that hides provider costs has no routes and no credits", () => {
  expect(list(listed("a"))).toMatchObject([{ routes: [], creditsPerUsd: null }]);
});

test("models are found by name or id, kind and provider, 15 on a page", () => {
  const models = [
    ...list(
      listed("a/chat", { more: routes("openai") }),
      listed("vectors", { kind: "embedding", more: routes("mistral") }),
    ),
    ...list(...Array.from({ length: 14 }, (_, index) => listed(`m${index}`))),
  ];
  const find = (query: { term?: string; kind?: "chat" | "embedding"; provider?: string; page?: number }) => {
    const found = findModels(models, { term: "", page: 0, ...query });
    return { ...found, shown: found.shown.map(({ id }) => id) };
  };
  expect(find({ term: "MODEL A/" })).toEqual({ shown: ["a/chat"], count: 1, nextCursor: null });
  expect(find({ kind: "embedding" }).shown).toEqual(["vectors"]);
  expect(find({ provider: "openai" }).shown).toEqual(["a/chat"]);
  expect(find({ provider: "openai", kind: "embedding" }).count).toBe(0);
  expect(find({})).toMatchObject({ count: 16, nextCursor: "1" });
  expect(find({ page: 1 })).toEqual({ shown: ["m13"], count: 16, nextCursor: null });
  expect(listProviders(models)).toEqual(["mistral", "openai"]);
});

test.each([
  ["?kind=chat&provider=openai", { kind: "chat", provider: "openai" }],
  ["?kind=&provider=", {}],
  ["?kind=nonsense", { kind: undefined }],
])("reads the filter %s", (search, filter) => {
  expect(readModelFilter(new URL(`https://a.test/x${search}`))).toEqual(filter);
});

test("a price in credits is exact", () => {
  expect([creditsOf("0.000001", "12500"), creditsOf("2.5", "10000")]).toEqual(["0.0125", "25000"]);
});
