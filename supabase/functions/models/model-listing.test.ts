import { expect, test } from "vitest";
import { modelSchema } from "../_gateway/answer-schemas.ts";
import { chatSchema } from "../_gateway/chat/schema.ts";
import { describeModels } from "./model-listing.ts";

const platform = {
  name: 'A "platform": { model',
  kind: "chat",
  context_window: 400_000,
  output_limit: 128_000,
  default_output_limit: null,
  regions: ["unknown"],
  prices: [],
};
const chat = ["/v1/chat/completions", "/v1/responses"];

/** Returns a model as the database writes it, with the prices as JSON text. */
function listingOf({ prices = "[]", ...changes }: Partial<Omit<typeof platform, "prices">> & { prices?: string } = {}) {
  const { prices: _, ...facts } = { ...platform, ...changes };
  const rest = JSON.stringify(facts).slice(1);
  return `{"id": "lab/large", "object": "model", "created": 1, "owned_by": "lab", "platform": {"prices": ${prices}, ${rest}}`;
}

function describeModel(listing: string, endpoints: readonly string[] = chat) {
  const text = describeModels({ listing, endpoints: [endpoints] });
  return { text, model: modelSchema.parse(JSON.parse(text)) };
}

// Names and units: https://openrouter.ai/docs/models and
// https://openrouter.ai/docs/client-sdks/typescript/models/publicpricing
test("a model has the fields of OpenRouter's list, with exact prices for a token", () => {
  const { text, model } = describeModel(
    listingOf({
      prices:
        '[{"input_usd_per_million": 123456789012.345678, "output_usd_per_million": 10, "cached_input_usd_per_million": 0, ' +
        '"cache_write_usd_per_million": 3.75, "cache_write_1h_usd_per_million": 6, "audio_input_usd_per_million": 0.000001, ' +
        '"audio_output_usd_per_million": 20, "image_input_usd_per_million": 1.5, "request_fee_usd": 0.01, "min_input_tokens": 0}, ' +
        '{"input_usd_per_million": 2.5, "output_usd_per_million": 15, "min_input_tokens": 200000}, ' +
        '{"service_tier": "priority", "input_usd_per_million": 5, "output_usd_per_million": 30, "min_input_tokens": 0}]',
    }),
  );
  expect(model).toMatchObject({
    canonical_slug: "lab/large",
    name: platform.name,
    context_length: 400_000,
    architecture: { input_modalities: ["text", "audio", "image"], output_modalities: ["text"] },
    pricing: {
      prompt: "123456.789012345678",
      completion: "0.00001",
      input_cache_read: "0",
      input_cache_write: "0.00000375",
      input_cache_write_1h: "0.000006",
      audio: "0.000000000001",
      audio_output: "0.00002",
      image_token: "0.0000015",
      web_search: "0.01",
      overrides: [{ min_prompt_tokens: 200_000, prompt: "0.0000025", completion: "0.000015" }],
    },
    // Chat completions accept at most 32,768.
    top_provider: { context_length: 400_000, max_completion_tokens: 32_768 },
  });
  expect(model.platform.endpoints).toEqual(chat);
  expect(text).toContain('"input_usd_per_million": 123456789012.345678');
});

test("a model without visible prices states neither prices nor media of its input", () => {
  const { model } = describeModel(listingOf());
  expect(model).not.toHaveProperty("pricing");
  expect(model.architecture).toEqual({ output_modalities: ["text"] });
});

test.each([
  ["embedding", "embeddings", ["/v1/embeddings"]],
  ["speech", "speech", ["/v1/audio/speech"]],
  ["chat", "text", ["/v1/messages"]],
])(
  "a %s model without chat completions writes %s, and states no parameters of chat completions",
  (kind, output, endpoints) => {
    const { model } = describeModel(listingOf({ kind }), endpoints);
    expect(model.architecture.output_modalities).toEqual([output]);
    expect(model.top_provider.max_completion_tokens).toBe(128_000);
    expect(model).not.toHaveProperty("supported_parameters");
  },
);

test("the supported parameters are accepted by chat completions", () => {
  const { supported_parameters: parameters = [] } = describeModel(listingOf()).model;
  expect(parameters).toContain("tools");
  // Not a field of its own: response_format with a JSON schema.
  expect(parameters.filter((name) => !(name in chatSchema.shape))).toEqual(["structured_outputs"]);
});

test("each model of a list gets its own fields", () => {
  const models = [listingOf({ name: "First" }), listingOf({ name: "Second", kind: "embedding" })];
  const listing = `{"data": [${models.join(", ")}], "object": "list"}`;
  const { data } = JSON.parse(describeModels({ listing, endpoints: [chat, ["/v1/embeddings"]] }));
  expect(
    data.map(({ name, platform: { endpoints } }: ReturnType<typeof modelSchema.parse>) => [name, endpoints]),
  ).toEqual([
    ["First", chat],
    ["Second", ["/v1/embeddings"]],
  ]);
  expect(JSON.parse(describeModels({ listing: '{"data": [], "object": "list"}', endpoints: [] }))).toEqual({
    data: [],
    object: "list",
  });
});
