import { z } from "zod";
import type { ChatRequest } from "../_gateway/chat/schema.ts";
import { outputLimits } from "../_gateway/requests/text-fields.ts";
import { formatDecimal, parseDecimal } from "../_shared/decimal.ts";

const listed = z.object({
  id: z.string(),
  platform: z.object({
    name: z.string(),
    kind: z.enum(["chat", "embedding", "speech"]),
    context_window: z.number().nullable(),
    output_limit: z.number().nullable(),
  }),
});
const listing = z.union([z.object({ data: z.array(listed) }), listed]);
type Listed = z.infer<typeof listed>;

const outputModalities = { chat: "text", embedding: "embeddings", speech: "speech" } as const;

/** The parameters of chat completions that the gateway passes on, of those that OpenRouter lists. */
const chatParameters = [
  "frequency_penalty",
  "logit_bias",
  "logprobs",
  "max_completion_tokens",
  "max_tokens",
  "parallel_tool_calls",
  "presence_penalty",
  "reasoning_effort",
  "response_format",
  "seed",
  "stop",
  "temperature",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "verbosity",
] as const satisfies readonly (keyof ChatRequest)[];

/** OpenRouter's names of prices for a token, with ours for a million. */
const tokenPrices = {
  prompt: "input_usd_per_million",
  completion: "output_usd_per_million",
  input_cache_read: "cached_input_usd_per_million",
  input_cache_write: "cache_write_usd_per_million",
  input_cache_write_1h: "cache_write_1h_usd_per_million",
  audio: "audio_input_usd_per_million",
  audio_output: "audio_output_usd_per_million",
  image_token: "image_input_usd_per_million",
} as const;

/** The start of the member that the database writes for each model. Quotes within strings are escaped. */
const platformStart = '"platform": {';
/** The first route's prices, which have no nested objects. */
const firstPrices = /"prices": \[([^\]]*)\]/;
const numberMembers = /"(\w+)": ([\d.]+)/g;

/**
 * Adds the paths that serve each model and the fields of OpenRouter's list (https://openrouter.ai/docs/models) to the
 * database's listing. Adds them as text, so that prices keep all their digits and long lists stay fast.
 * @param answer.listing JSON
 * @param answer.endpoints the paths that serve each model of the listing
 */
export function describeModels(answer: { listing: string; endpoints: readonly (readonly string[])[] }): string {
  const value = listing.parse(JSON.parse(answer.listing));
  const models = "data" in value ? value.data : [value];
  const [head = "", ...texts] = answer.listing.split(platformStart);
  return models.reduce((text, model, place) => {
    const [endpoints = [], rest = ""] = [answer.endpoints[place], texts[place]];
    const fields = JSON.stringify({ ...describeModel(model, endpoints), ...describePricing(model, rest) }).slice(1, -1);
    return `${text}${fields}, ${platformStart}"endpoints": ${JSON.stringify(endpoints)}, ${rest}`;
  }, head);
}

function describeModel({ id, platform }: Listed, endpoints: readonly string[]) {
  const { name, context_window, output_limit } = platform;
  const servesChat = endpoints.includes("/v1/chat/completions");
  // OpenRouter's clients send this as max_tokens.
  const maxTokens = servesChat && output_limit !== null ? Math.min(output_limit, outputLimits.max) : output_limit;
  return {
    canonical_slug: id,
    name,
    context_length: context_window,
    top_provider: { context_length: context_window, max_completion_tokens: maxTokens },
    ...(servesChat ? { supported_parameters: [...chatParameters, "structured_outputs"] } : {}),
  };
}

/**
 * Returns the prices of a model's first route, and which media its input may contain. Only priced media are known.
 * Without prices, because the workspace hides them, returns neither.
 */
function describePricing({ platform: { kind } }: Listed, text: string) {
  const output_modalities = [outputModalities[kind]];
  const [base, ...larger] = readDefaultPrices(text);
  if (!base) return { architecture: { output_modalities } };
  const { audio_input_usd_per_million: audio, image_input_usd_per_million: image, request_fee_usd: web_search } = base;
  return {
    architecture: {
      input_modalities: ["text", ...(audio === undefined ? [] : ["audio"]), ...(image === undefined ? [] : ["image"])],
      output_modalities,
    },
    pricing: {
      ...pricesPerToken(base),
      ...(web_search === undefined ? {} : { web_search }),
      ...(larger.length > 0
        ? {
            overrides: larger.map((tier) => ({
              min_prompt_tokens: Number(tier.min_input_tokens),
              ...pricesPerToken(tier),
            })),
          }
        : {}),
    },
  };
}

/** The numbers of a price as the database wrote them. */
type PriceDigits = Readonly<Record<string, string>>;

/** Returns the prices of the default service tier, those of the smallest inputs first. */
function readDefaultPrices(text: string): PriceDigits[] {
  const tiers = (firstPrices.exec(text)?.[1] ?? "").split("}").slice(0, -1);
  return tiers
    .filter((tier) => !tier.includes('"service_tier"'))
    .map((tier) => Object.fromEntries(Array.from(tier.matchAll(numberMembers), ([, name, digits]) => [name, digits])));
}

function pricesPerToken(tier: PriceDigits): Record<string, string> {
  const prices: Record<string, string> = {};
  for (const [name, ours] of Object.entries(tokenPrices)) {
    const perMillion = tier[ours];
    if (perMillion === undefined) continue;
    const { units, scale } = parseDecimal(perMillion);
    prices[name] = formatDecimal({ units, scale: scale + 6 });
  }
  return prices;
}
