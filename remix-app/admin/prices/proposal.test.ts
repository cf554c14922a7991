import { describe, expect, test } from "vitest";
import { limitsQuery, readProposedLimits } from "./limits.ts";
import type { PriceClass, PriceSource, SourceModel } from "./price-source.ts";
import { compareWithSources, currentUsd, fallbackText, proposePrices, type RoutePrices } from "./proposal.ts";
import { namesFromSettings, readNames } from "./source-names.ts";

type Amounts = Partial<Record<PriceClass, string>>;
type Known = RoutePrices["prices"][number];

const none = {
  cachedInputUsd: null,
  cacheWriteUsd: null,
  cacheWrite1hUsd: null,
  audioInputUsd: null,
  audioOutputUsd: null,
  imageInputUsd: null,
  requestFeeUsd: null,
};
const price = (rest: Partial<Known> = {}): Known => ({
  ...none,
  inputUsd: "1.000000",
  outputUsd: "2.000000",
  serviceTier: "default",
  minInputTokens: 0,
  latest: "7",
  current: true,
  from: "2026-01-01T00:00:00Z",
  until: null,
  ...rest,
});
const route = (prices: Known[], rest: Partial<RoutePrices> = {}): RoutePrices => ({
  model: "m",
  displayName: "M",
  limits: null,
  providerId: "openai",
  providerModel: "gpt-x",
  prices,
  ...rest,
});
const stated = (amounts: Amounts, { serviceTier = "default", aboveTokens = 0 } = {}) => ({
  serviceTier,
  aboveTokens,
  offers: Object.fromEntries(Object.entries(amounts).map(([name, usd]) => [name, { usd }])),
});
const model = (tiers: SourceModel["tiers"], rest: Partial<SourceModel> = {}): SourceModel => ({
  provider: "openai",
  model: "gpt-x",
  tiers,
  unpriced: [],
  ...rest,
});
const liteLlm = (...models: SourceModel[]): PriceSource => ({ name: "LiteLLM", models });
const modelsDev = (...models: SourceModel[]): PriceSource => ({ name: "models.dev", models });
const propose = (routes: RoutePrices[], sources: PriceSource[], names: Record<string, string> = {}) =>
  proposePrices(routes, { sources, names: new Map(Object.entries(names)) });
const base = { inputUsd: "1", outputUsd: "2" };

describe("a price comparison", () => {
  test.each<[string, Partial<Known>, Amounts, Amounts, PriceClass, string | null]>([
    ["ignores trailing zeros", {}, base, base, "inputUsd", "same"],
    ["finds a difference in the last digit", { inputUsd: "1.000001" }, base, {}, "inputUsd", "different"],
    ["reports that the sources disagree", {}, base, { inputUsd: "3" }, "inputUsd", "sources disagree"],
    ["leaves out a price class that no source prices", { audioInputUsd: "9" }, base, base, "audioInputUsd", null],
    ["compares an empty amount at its fallback price", {}, { cachedInputUsd: "1.0" }, {}, "cachedInputUsd", "same"],
    [
      "compares one-hour cache writes at the price of other cache writes",
      { cacheWriteUsd: "4" },
      { cacheWrite1hUsd: "4" },
      {},
      "cacheWrite1hUsd",
      "same",
    ],
    ["reports a new price if we have none for audio input", {}, { audioInputUsd: "1" }, {}, "audioInputUsd", "new"],
    ["treats a missing fee as a fee of 0", {}, { requestFeeUsd: "0" }, {}, "requestFeeUsd", "same"],
  ])("a price comparison %s", (_, now, one, other, name, expected) => {
    const { differences, same } = propose(
      [route([price(now)])],
      [liteLlm(model([stated(one)])), modelsDev(model([stated(other)]))],
    );
    const [found] = [...differences, ...same];
    expect(found && compareWithSources(found, name)).toBe(expected);
  });

  test("price rows that match all sources are listed separately from rows that differ", () => {
    const found = propose([route([price()])], [liteLlm(model([stated(base), stated(base, { serviceTier: "flex" })]))]);
    expect(found.same).toMatchObject([{ serviceTier: "default", latest: "7" }]);
    expect(found.differences).toMatchObject([{ serviceTier: "flex", current: null, latest: "7" }]);
  });

  test("marks price classes that a source doesn't cover, and uses the other source's price", () => {
    const marked = model([
      { serviceTier: "default", aboveTokens: 0, offers: { inputUsd: { usd: null, note: "marked" } } },
    ]);
    const both = propose([route([price()])], [liteLlm(marked), modelsDev(model([stated(base)]))]);
    expect(both.differences).toEqual([]);
    const [alone] = propose([route([price()])], [liteLlm(marked)]).same;
    expect(alone && compareWithSources(alone, "inputUsd")).toBe("no usable price");
  });

  test("a price proposal shows no current price once the last price has ended, and reports whether a later price is scheduled", () => {
    const soon = new Date(Date.now() + 60_000).toISOString();
    const of = (rest: Partial<Known>) =>
      propose([route([price(rest)])], [liteLlm(model([stated({ inputUsd: "5" })]))]).differences[0];
    expect(of({ current: false, until: "2026-02-01T00:00:00Z" })).toMatchObject({
      current: null,
      scheduled: false,
      latest: "7",
    });
    expect(of({ until: soon })).toMatchObject({ current: { inputUsd: "1.000000" }, scheduled: true });
    expect(of({ current: false, from: soon })).toMatchObject({ current: null, scheduled: true });
  });
});

describe("price tiers that begin above a token threshold", () => {
  const above = (amount: string) => stated({ inputUsd: amount, outputUsd: "2" }, { aboveTokens: 200_000 });
  const sizeOf = (prices: Known[], rest: Partial<RoutePrices> = {}, provider = "openai") =>
    propose([route(prices, rest)], [liteLlm(model([above("3")], { provider }))]).differences.map(
      ({ minInputTokens, current }) => [minInputTokens, current?.inputUsd],
    );

  test("a tier begins at the token after its threshold", () => {
    expect(sizeOf([])).toEqual([[200_001, undefined]]);
  });

  test("a source's price tier above 200,000 tokens matches our price from 200,000 or 200,001 tokens", () => {
    expect(sizeOf([price({ minInputTokens: 200_000 })])).toEqual([[200_000, "1.000000"]]);
    expect(sizeOf([price({ minInputTokens: 200_001, inputUsd: "4" }), price({ minInputTokens: 200_000 })])).toEqual([
      [200_001, "4"],
    ]);
    expect(sizeOf([price({ minInputTokens: 199_999 })])).toEqual([[200_001, undefined]]);
  });

  // litellm_core_utils/llm_cost_calc/utils.py, _INCLUSIVE_THRESHOLD_PROVIDERS.
  test("a price tier of xAI begins at its threshold, not one token above it", () => {
    expect(sizeOf([], { providerId: "xai" }, "xai")).toEqual([[200_000, undefined]]);
  });
});

describe("matching of routes to the entries of a price source", () => {
  const found = (providerId: string, names: Record<string, string>, entry: Partial<SourceModel>) =>
    propose([route([], { providerId })], [modelsDev(model([stated(base)], entry))], names).differences.length === 1;

  test.each<[string, Record<string, string>, string, boolean]>([
    ["openai", {}, "openai", true],
    ["gemini", {}, "google", true],
    ["google", {}, "google", true],
    ["moonshot", {}, "moonshotai-cn", true],
    ["together", {}, "togetherai", true],
    ["bedrock", {}, "amazon-bedrock", true],
    ["eu_openai", {}, "openai", false],
    ["eu_openai", { eu_openai: "openai" }, "openai", true],
    ["openai", { openai: "azure" }, "openai", false],
    ["own", { own: "fireworks-ai" }, "fireworks-ai", true],
    ["own", {}, "fireworks-ai", false],
  ])(
    "provider %s, with the configured names %j, matches a source's provider %s only if both names mean the same provider",
    (providerId, names, provider, expected) => {
      expect(found(providerId, names, { provider })).toBe(expected);
    },
  );

  test.each(["GPT-x", "gpt-x-2026", "openai/gpt-x"])(
    "matches a model only by the exact name that its provider uses, not by %s",
    (name) => {
      const { missing } = propose([route([])], [modelsDev(model([stated(base)], { model: name }))]);
      expect(missing).toEqual([{ model: "m", providerId: "openai", providerModel: "gpt-x", name: "openai" }]);
    },
  );

  test("reports an ambiguous match if entries of one source differ", () => {
    const azure = { providerId: "azure" };
    const entries = (other: string) =>
      liteLlm(
        model([stated(base)], { provider: "azure" }),
        model([stated({ ...base, inputUsd: other })], { provider: "azure_ai" }),
      );
    const [differs] = propose([route([], azure)], [entries("1.5")]).differences;
    expect(differs?.offered[0]?.inputUsd).toEqual({
      usd: null,
      note: "Stated twice (azure/gpt-x 1, azure_ai/gpt-x 1.5), so it can’t be applied",
    });
    expect(differs?.offered[0]?.outputUsd).toEqual({ usd: "2" });
    const [agrees] = propose([route([], azure)], [entries("1")]).differences;
    expect(agrees?.offered[0]?.inputUsd).toEqual({ usd: "1" });
  });

  test("proposes one price per model and provider, even if the provider has several routes", () => {
    const routes = [route([]), route([], { providerModel: "gpt-y" })];
    const entries = liteLlm(model([stated(base)]), model([stated({ ...base, inputUsd: "9" })], { model: "gpt-y" }));
    const { differences } = propose(routes, [entries]);
    expect(differences).toHaveLength(1);
    expect(differences[0]?.offered[0]?.inputUsd?.usd).toBeNull();
  });
});

const unknown = { contextWindow: null, outputLimit: null, defaultOutputLimit: null };

test.each<[string, RoutePrices["limits"], PriceSource[], object | undefined]>([
  [
    "all limits",
    unknown,
    [modelsDev(model([], { limits: { contextWindow: 400_000, outputLimit: 128_000 } }))],
    { contextWindow: 400_000, outputLimit: 128_000, defaultOutputLimit: 32_768 },
  ],
  [
    "the lowest output limit and the largest context window of two sources",
    unknown,
    [
      modelsDev(model([], { limits: { contextWindow: 400_000, outputLimit: 16_384 } })),
      liteLlm(model([], { limits: { contextWindow: 272_000, outputLimit: 8_192 } })),
    ],
    { contextWindow: 400_000, outputLimit: 8_192, defaultOutputLimit: 8_192 },
  ],
  [
    "a default for the catalogue's own output limit",
    { ...unknown, contextWindow: 1_000, outputLimit: 4_096 },
    [liteLlm(model([], { limits: { contextWindow: 9, outputLimit: 64_000 } }))],
    { contextWindow: 1_000, outputLimit: 4_096, defaultOutputLimit: 4_096 },
  ],
  [
    "no default if no output limit is known",
    unknown,
    [liteLlm(model([], { limits: { contextWindow: 9 } }))],
    { contextWindow: 9, outputLimit: null, defaultOutputLimit: null },
  ],
  [
    "a lower default if the catalogue's is above the proposed output limit",
    { ...unknown, defaultOutputLimit: 32_768 },
    [liteLlm(model([], { limits: { outputLimit: 8_192 } }))],
    { contextWindow: null, outputLimit: 8_192, defaultOutputLimit: 8_192 },
  ],
  [
    "the catalogue's own default if no output limit is known",
    { ...unknown, defaultOutputLimit: 4_096 },
    [liteLlm(model([], { limits: { contextWindow: 9 } }))],
    { contextWindow: 9, outputLimit: null, defaultOutputLimit: 4_096 },
  ],
  [
    "nothing if the catalogue is complete",
    { contextWindow: 1, outputLimit: 1, defaultOutputLimit: 1 },
    [liteLlm(model([], { limits: { contextWindow: 9, outputLimit: 9 } }))],
    undefined,
  ],
  ["nothing for a model that is not for chats", null, [liteLlm(model([], { limits: { outputLimit: 9 } }))], undefined],
  ["nothing without a source", unknown, [liteLlm()], undefined],
])("proposes %s", (_, limits, sources, expected) => {
  const proposed = propose([route([], { limits })], sources).limits;
  expect(proposed).toEqual(expected ? [{ model: "m", ...expected }] : []);
  for (const each of proposed) {
    const { model: __, ...stated } = each;
    const known = Object.fromEntries(Object.entries(stated).filter(([, value]) => value !== null));
    expect(readProposedLimits(new URLSearchParams(limitsQuery(each)))).toEqual(known);
  }
});

test.each(["defaultOutputLimit=32769", "outputLimit=x", "outputLimit=0", "outputLimit=-1", "model=m", ""])(
  "fills in nothing for the query %j",
  (query) => {
    expect(readProposedLimits(new URLSearchParams(query))).toEqual({});
  },
);

test("an empty price is compared as the fallback price that settlement would charge", () => {
  const current = { ...none, inputUsd: "1", outputUsd: "2", cacheWriteUsd: "3" };
  expect(currentUsd(current, "cacheWrite1hUsd")).toBe("3");
  expect(currentUsd({ ...current, cacheWriteUsd: null }, "cacheWrite1hUsd")).toBe("1");
  expect(currentUsd(current, "audioOutputUsd")).toBe("2");
  expect(currentUsd(current, "audioInputUsd")).toBeNull();
  expect(currentUsd(null, "inputUsd")).toBeNull();
});

test("the hint for an empty amount names the price that applies instead", () => {
  const current = { ...none, inputUsd: "1", outputUsd: "2" };
  expect(fallbackText(current, "inputUsd")).toBeNull();
  expect(fallbackText(current, "cachedInputUsd")).toBe("input price applies");
  expect(fallbackText(current, "cacheWrite1hUsd")).toBe("cache write price applies");
  expect(fallbackText(current, "audioOutputUsd")).toBe("output price applies");
  expect(fallbackText(current, "audioInputUsd")).toBe("not set");
  expect(fallbackText(current, "requestFeeUsd")).toBe("not set");
  expect(fallbackText(null, "cachedInputUsd")).toBeNull();
});

test("reads the provider names from the gateway functions' settings", () => {
  const names = namesFromSettings({
    AI_PROVIDER_EU_KIND: "azure",
    AI_PROVIDER_EU_BILLING_NAME: "microsoft",
    AI_PROVIDER_FIRE_BILLING_NAME: "fireworks-ai",
    AI_PROVIDER_FIRE_KIND: "openai-compatible",
    AI_PROVIDER_OWN_BASE_URL: "https://llm.example.com/v1",
    AI_PROVIDER_EMPTY_KIND: "",
  });
  expect(Object.fromEntries(names)).toEqual({ eu: "azure", fire: "fireworks-ai" });
});

test.each<[string, Record<string, string> | null]>([
  ["", {}],
  ["eu_openai=openai", { eu_openai: "openai" }],
  [" a = b \r\n\nc=d,e=f", { a: "b", c: "d", e: "f" }],
  ["openai", null],
  ["EU=openai", null],
  ["a=b=c", null],
])("parses the provider names %j", (text, expected) => {
  const names = readNames(text);
  expect(names && Object.fromEntries(names)).toEqual(expected);
});
