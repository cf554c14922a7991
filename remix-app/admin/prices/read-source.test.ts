import { describe, expect, test } from "vitest";
import { UnreadablePrices } from "./price-source.ts";
import { readPriceSources } from "./read-source.ts";

/** Reads all models of one file. */
function read(file: object | string, ...models: string[]) {
  const text = typeof file === "string" ? file : JSON.stringify(file);
  const [source] = readPriceSources(
    [{ from: "prices.json", text }],
    models.map((providerModel) => ({ providerModel })),
  );
  return source;
}
const amounts = (tier: { offers: object } | undefined) =>
  Object.fromEntries(Object.entries(tier?.offers ?? {}).map(([name, { usd }]) => [name, usd]));

// The entry `sample_spec` lists the fields:
// https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json
// The field names are those of LiteLLM's `sample_spec` and of models.dev's packages/core/src/schema.ts.
test.each([
  [
    '"max_input_tokens": 272000, "max_output_tokens": 128000, "max_tokens": 1',
    '"context": 272000, "output": 128000, "input": 9',
    { contextWindow: 272_000, outputLimit: 128_000 },
  ],
  // Without `max_output_tokens`, LiteLLM's legacy `max_tokens` is the limit of the input.
  ['"max_input_tokens": 272000, "max_tokens": 272000', '"context": 272000', { contextWindow: 272_000 }],
])("reads a model's limits: %s", (inLiteLlm, inModelsDev, limits) => {
  expect(read(`{"m": {"litellm_provider": "openai", ${inLiteLlm}}}`, "m")?.models[0]?.limits).toEqual(limits);
  const file = `{"openai": {"models": {"m": {"limit": {${inModelsDev}}}}}}`;
  expect(read(file, "m")?.models[0]?.limits).toEqual(limits);
});

test.each(["0", "-1", "1.5", '"x"', "null", "1e12"])("ignores the output limit %s", (text) => {
  const file = `{"m": {"litellm_provider": "openai", "max_output_tokens": ${text}}}`;
  expect(read(file, "m")?.models[0]?.limits).toEqual({});
});

describe("the LiteLLM reader", () => {
  const entry = (text: string, { key = "gpt-x", provider = "openai" } = {}) =>
    read(
      `{"sample_spec": {"litellm_provider": "one of https://docs.litellm.ai/docs/providers", "input_cost_per_token": 0.0},
      "${key}": {"litellm_provider": "${provider}", "mode": "chat"${text && `, ${text}`}}}`,
      "gpt-x",
    )?.models[0];

  test.each([
    ["2.5e-07", "0.25"],
    ["1.25e-06", "1.25"],
    ["0.0000004", "0.4"],
    ["1E-12", "0.000001"],
    ["0.0", "0"],
    ["0", "0"],
    ["3e-05", "30"],
    // A double would turn this into 0.049999999999999996.
    ["5e-08", "0.05"],
    ["3.0e-07", "0.3"],
    ["999999.999999999999e0", "999999999999.999999"],
  ])("converts %s USD per token to %s per million", (text, usd) => {
    expect(entry(`"input_cost_per_token": ${text}`)?.tiers[0]?.offers.inputUsd).toEqual({ usd });
  });

  test.each([
    ["1e-13", "Can’t be used: more than 6 decimals"],
    ["3.00000000000000001e-07", "Can’t be used: more than 6 decimals"],
    ["-1e-06", "-1 isn’t a price"],
    ["1e6", "1000000000000 isn’t a price"],
    ["1e-400", "1e-400 isn’t a price"],
    [`0.${"0".repeat(98)}`, null],
    [`0.${"0".repeat(99)}`, `0.${"0".repeat(38)} isn’t a price`],
  ])("does not round the price %s, and says in a note why it can't be used", (text, note) => {
    const offer = note === null ? { usd: "0" } : { usd: null, note };
    expect(entry(`"input_cost_per_token": ${text}`)?.tiers[0]?.offers.inputUsd).toEqual(offer);
  });

  test("maps each kind of token, and one-hour cache writes, to a price class", () => {
    const model = entry(`"input_cost_per_token": 3e-06, "cache_read_input_token_cost": 3e-07,
      "cache_creation_input_token_cost": 3.75e-06, "cache_creation_input_token_cost_above_1hr": 6e-06,
      "output_cost_per_token": 1.5e-05, "input_cost_per_audio_token": 3.2e-05, "output_cost_per_audio_token": 6.4e-05,
      "input_cost_per_image_token": 5e-06, "input_cost_per_token_batches": 1.5e-06,
      "search_context_cost_per_query": {"search_context_size_low": 0.01, "search_context_size_high": 0.01}`);
    expect(model?.tiers.map(amounts)).toEqual([
      {
        inputUsd: "3",
        cachedInputUsd: "0.3",
        cacheWriteUsd: "3.75",
        cacheWrite1hUsd: "6",
        outputUsd: "15",
        audioInputUsd: "32",
        audioOutputUsd: "64",
        imageInputUsd: "5",
        requestFeeUsd: "0.01",
      },
    ]);
    expect(model?.unpriced).toEqual([]);
  });

  test("reads service tiers and token thresholds from field suffixes in either order", () => {
    const model = entry(`"input_cost_per_token": 1.25e-06, "input_cost_per_token_above_200k_tokens": 2.5e-06,
      "input_cost_per_token_flex": 6e-07, "input_cost_per_token_above_200k_tokens_priority": 4.5e-06,
      "output_cost_per_token_priority_above_200k_tokens": 2.7e-05, "input_cost_per_token_above_512_tokens": 9e-06`);
    expect(model?.tiers.map(({ serviceTier, aboveTokens }) => `${serviceTier} ${aboveTokens}`)).toEqual([
      "default 0",
      "default 200000",
      "flex 0",
      "priority 200000",
      "default 512",
    ]);
    expect(amounts(model?.tiers[3])).toMatchObject({ inputUsd: "4.5", outputUsd: "27" });
  });

  // litellm_core_utils/llm_cost_calc/utils.py, _get_token_base_cost: each tier falls back to the base rates.
  test("uses LiteLLM's default price, with a note, where a tier has no price of its own", () => {
    const model =
      entry(`"input_cost_per_token": 1e-06, "output_cost_per_token": 4e-06, "cache_read_input_token_cost": 1e-07,
      "input_cost_per_token_flex": 5e-07, "output_cost_per_token_flex": 2e-06, "input_cost_per_token_above_272k_tokens": 2e-06`);
    const note = "LiteLLM’s default price, as it has none for this tier";
    expect(model?.tiers[1]?.offers).toEqual({
      inputUsd: { usd: "0.5" },
      outputUsd: { usd: "2" },
      cachedInputUsd: { usd: "0.1", note },
    });
    expect(model?.tiers[2]?.offers).toMatchObject({ inputUsd: { usd: "2" }, outputUsd: { usd: "4", note } });
  });

  test("reads no price from fees that depend on size or start after a free allowance, and says why in a note", () => {
    const fee = (high: string, more = "") =>
      entry(`"search_context_cost_per_query": {"search_context_size_low": 0.005, "search_context_size_high": ${high}}${more},
        "input_cost_per_token": 1e-06`)?.tiers[0]?.offers.requestFeeUsd;
    expect(fee("0.005")).toEqual({ usd: "0.005" });
    expect(fee("0.012")).toEqual({ usd: null, note: "Varies with web search context size, so it can’t be applied" });
    expect(fee("0.005", ', "search_free_requests": {"count": 1500, "period": "day"}')).toEqual({
      usd: "0.005",
      note: "After a number of free searches",
    });
  });

  test("lists charges that belong to no price class", () => {
    const model =
      entry(`"input_cost_per_character": 1.5e-05, "output_cost_per_second": 0.00025, "input_cost_per_pixel": 0.0,
      "output_cost_per_token": 4e-06, "output_cost_per_reasoning_token": 8e-06, "cache_read_input_token_cost": 1e-07,
      "cache_read_input_audio_token_cost": 1e-07, "tiered_pricing": [{"range": [0, 256000.0], "input_cost_per_token": 5e-08}],
      "input_cost_per_token_above_9999999k_tokens": 1e-06, "regional_processing_uplift_multiplier_eu": 1.1`);
    expect(model?.unpriced).toEqual([
      "input_cost_per_character",
      "output_cost_per_second",
      "output_cost_per_reasoning_token",
      "tiered_pricing",
      "input_cost_per_token_above_9999999k_tokens",
      "regional_processing_uplift_multiplier_eu",
    ]);
  });

  test("marks a price as unusable if two spellings of its field state different amounts", () => {
    const spelled = (amount: string) =>
      entry(`"input_cost_per_token_above_200k_tokens": 1e-06, "input_cost_per_token_above_200000_tokens": ${amount}`)
        ?.tiers[0]?.offers.inputUsd;
    expect(spelled("1.0e-06")).toEqual({ usd: "1" });
    expect(spelled("2e-06")).toEqual({ usd: null, note: "Stated twice (1 and 2), so it can’t be applied" });
  });

  test("accepts model names with and without a provider, and reads only the wanted models", () => {
    expect(entry("", { key: "gemini/gpt-x", provider: "gemini" })).toMatchObject({
      provider: "gemini",
      model: "gpt-x",
    });
    expect(entry("", { key: "azure/eu/gpt-x", provider: "azure" })).toBeUndefined();
    expect(entry("", { key: "sample_spec" })).toBeUndefined();
  });
});

// https://github.com/anomalyco/models.dev#schema-reference, and packages/core/src/schema.ts there.
describe("the models.dev reader", () => {
  const file = (cost: string, more = "") =>
    `{"google": {"id": "google", "npm": "@ai-sdk/google", "env": ["K"], "name": "Google", "models":
      {"gemini-x": {"id": "gemini-x", "limit": {"context": 1048576, "input": 1}, "cost": ${cost}${more}}}}}`;
  const entry = (cost: string, more = "") => read(file(cost, more), "gemini-x")?.models[0];

  test("reads costs in USD per million tokens", () => {
    const model = entry(
      `{"input": 1.25, "output": 10.00, "cache_read": 0.125, "cache_write": 1.5, "input_audio": 3, "output_audio": 4}`,
    );
    expect(model).toMatchObject({ provider: "google", model: "gemini-x", unpriced: [] });
    expect(amounts(model?.tiers[0])).toEqual({
      inputUsd: "1.25",
      outputUsd: "10",
      cachedInputUsd: "0.125",
      cacheWriteUsd: "1.5",
      audioInputUsd: "3",
      audioOutputUsd: "4",
    });
  });

  test.each([
    ["0.000001", { usd: "0.000001" }],
    ["0.0000015", { usd: null, note: "Can’t be used: more than 6 decimals" }],
    // A price that was converted as a double can have more digits than the original price.
    ["0.49299999999999994", { usd: null, note: "Can’t be used: more than 6 decimals" }],
  ])("reads the cost %s exactly, or says in a note why it can't be used", (text, offer) => {
    expect(entry(`{"input": ${text}, "output": 1}`)?.tiers[0]?.offers.inputUsd).toEqual(offer);
  });

  // If a model has only one tier, models.dev's generate.ts copies the tier into the legacy field context_over_200k,
  // even if the tier starts above 200k.
  test("takes a tier's threshold from the tiers list, or uses 200k if the list is missing", () => {
    const tier = `"input": 10, "output": 45`;
    const base = `"input": 5, "output": 30`;
    const sizes = (cost: string) =>
      entry(cost)?.tiers.map(({ aboveTokens, offers }) => [aboveTokens, offers.inputUsd?.usd]);
    expect(sizes(`{${base}, "tiers": [{${tier}, "tier": {"size": 272000}}], "context_over_200k": {${tier}}}`)).toEqual([
      [0, "5"],
      [272000, "10"],
    ]);
    expect(sizes(`{${base}, "context_over_200k": {${tier}}}`)).toEqual([
      [0, "5"],
      [200000, "10"],
    ]);
    expect(entry(`{${base}, "tiers": [{${tier}, "tier": {"size": 0.5}}]}`)).toMatchObject({
      tiers: [{ aboveTokens: 0 }],
      unpriced: ["tiers of unknown size"],
    });
  });

  test("reads the costs of a models.dev mode as prices of its service tier, and lists a mode without a service tier as unpriced", () => {
    const model = entry(
      `{"input": 5, "output": 30}`,
      `, "experimental": {"modes": {"fast": {"cost": {"input": 12.5, "output": 75}, "provider": {"body": {"service_tier": "priority"}}},
        "turbo": {"cost": {"input": 30, "output": 150}, "provider": {"body": {"speed": "fast"}}}}}`,
    );
    expect(model?.tiers[1]).toMatchObject({
      serviceTier: "priority",
      aboveTokens: 0,
      offers: { inputUsd: { usd: "12.5" } },
    });
    expect(model?.unpriced).toEqual(["mode turbo"]);
  });

  test("treats a reasoning cost higher than the output cost, or a cost in an unknown form, as unpriced", () => {
    expect(entry(`{"input": 1, "output": 3, "reasoning": 3.0}`)?.unpriced).toEqual([]);
    expect(entry(`{"input": 1, "output": 3, "reasoning": 4, "video": 1}`)?.unpriced).toEqual(["reasoning", "video"]);
    expect(entry(`{"input": 1, "output": 3, "tiers": "none"}`)).toMatchObject({
      tiers: [],
      unpriced: [expect.any(String)],
    });
  });

  test("accepts a models.dev catalog file, which lists models separately from providers", () => {
    const catalog = `{"models": {"google/gemini-x": {"id": "google/gemini-x"}}, "providers": ${file(`{"input": 1, "output": 2}`)}}`;
    expect(read(catalog, "gemini-x")).toMatchObject({ name: "models.dev", models: [{ provider: "google" }] });
  });
});

// The file is edited by hand, and JSON parsers keep the last of two members with the same name.
test.each([
  [
    "a record",
    `{"gpt-x": {"litellm_provider": "openai", "input_cost_per_token": 1e-06}, "gpt-y": {}, "gpt\\u002dx": {"litellm_provider": "openai", "input_cost_per_token": 2e-06}}`,
  ],
  [
    "a field",
    `{"openai/gpt-x": {"litellm_provider": "openai", "input_cost_per_token": 1e-06, "mode": "\\"", "input_cost_per_token": 2e-06}}`,
  ],
  ["a cost", `{"openai": {"models": {"gpt-x": {"cost": {"input": 1, "output": 1, "input": 2}}}}}`],
])("takes no price from a model that states %s twice", (_, text) => {
  expect(read(text, "gpt-x")?.models).toMatchObject([{ tiers: [], unpriced: ["stated twice in the file"] }]);
});

test("reads a model's prices even if the file lists another model twice", () => {
  const text = `{"gpt-x": {"litellm_provider": "openai"}, "gpt-x": {}, "gpt-y": {"litellm_provider": "openai", "input_cost_per_token": 1e-06}}`;
  expect(read(text, "gpt-y")?.models).toMatchObject([
    { tiers: [{ offers: { inputUsd: { usd: "1" } } }], unpriced: [] },
  ]);
});

test.each(["", "[]", "null", "{", `{"google/gemini-x": {"id": "x"}}`, `{"error": "not found"}`, "<!doctype html>"])(
  "refuses %j as a price file and says which files to use",
  (text) => {
    expect(() => read(text)).toThrow(UnreadablePrices);
    expect(() => read(text)).toThrow(/prices\.json .*api\.json/);
  },
);

test.each([
  [500_000, undefined],
  [500_001, "prices.json has more than 500,000 values"],
])("a price file may have at most 500,000 values: with %i values, the error is %s", (values, message) => {
  // Each comma, opening bracket and opening brace counts as a value. Four of these characters come before the numbers.
  const reading = () => read(`{"x": {"litellm_provider": "openai"}, "y": [${"1,".repeat(values - 4)}1]}`);
  if (message) expect(reading).toThrow(message);
  else expect(reading()?.name).toBe("LiteLLM");
});

test("accepts two price files only if they come from different projects", () => {
  const liteLlm = { from: "a.json", text: `{"x": {"litellm_provider": "openai"}}` };
  const modelsDev = { from: "b.json", text: `{"openai": {"models": {}}}` };
  expect(readPriceSources([modelsDev, liteLlm], []).map(({ name }) => name)).toEqual(["models.dev", "LiteLLM"]);
  expect(() => readPriceSources([liteLlm, liteLlm], [])).toThrow("Both files are from LiteLLM");
});
