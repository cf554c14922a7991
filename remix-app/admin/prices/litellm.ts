import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import {
  createExactOffer,
  isRecord,
  isTierSize,
  type Offer,
  type PriceClass,
  readLimits,
  type SourceModel,
  type SourceTier,
} from "./price-source.ts";

// LiteLLM's model_prices_and_context_window.json: a record for each model, with amounts in USD per token. Its
// `sample_spec` and `litellm/types/utils.py` (ModelInfoBase) name the fields, and
// `litellm_core_utils/llm_cost_calc/utils.py` says what a tier costs if it has no field of its own.

/** Fields in USD per token. */
const priceClassByField: Readonly<Record<string, PriceClass>> = {
  input_cost_per_token: "inputUsd",
  cache_read_input_token_cost: "cachedInputUsd",
  cache_creation_input_token_cost: "cacheWriteUsd",
  cache_creation_input_token_cost_above_1hr: "cacheWrite1hUsd",
  output_cost_per_token: "outputUsd",
  input_cost_per_audio_token: "audioInputUsd",
  output_cost_per_audio_token: "audioOutputUsd",
  input_cost_per_image_token: "imageInputUsd",
};

/**
 * Fields that have no price class of their own, with the class in which our prices count them. A field matters only if
 * its amount differs from the price of that class.
 */
const chargedClassByField: Readonly<Record<string, PriceClass>> = {
  output_cost_per_reasoning_token: "outputUsd",
  input_cost_per_token_cache_hit: "cachedInputUsd",
  cache_read_input_audio_token_cost: "cachedInputUsd",
  cache_read_input_image_token_cost: "cachedInputUsd",
  cache_creation_input_audio_token_cost: "cacheWriteUsd",
  input_cost_per_video_token: "inputUsd",
};

/** Service tiers of the providers whose answers name a tier (OpenAI, Gemini, Groq). */
const serviceTiers = ["priority", "flex", "ultrafast", "balanced"];
/**
 * Matches a field with the suffixes of its context tier and its service tier, in either order:
 * `…_above_200k_tokens_priority`.
 */
const suffixes = new RegExp(
  `^(.+?)(?:_(${serviceTiers.join("|")}))?(?:_above_(\\d+)(k?)_tokens)?(?:_(${serviceTiers.join("|")}))?$`,
);
const chargeFieldPattern = /cost|pricing|multiplier/;
/** Matches batch prices, which are ignored because the gateway makes no batch calls. */
const batchFieldPattern = /_batches$/;

const searchFees = z.record(z.string(), z.instanceof(JsonNumber));

/** Returns whether a file has LiteLLM's shape. */
export function isLiteLlm(file: Record<string, unknown>): boolean {
  return Object.values(file).some(hasProvider);
}

/** Reads the wanted models. A key may start with its provider (`gemini/gemini-2.5-pro`) or not (`gpt-4.1`). */
export function readLiteLlm(file: Record<string, unknown>, modelNames: ReadonlySet<string>): SourceModel[] {
  return Object.entries(file).flatMap(([key, value]) => {
    if (!hasProvider(value) || key === "sample_spec") return [];
    const provider = value.litellm_provider;
    const model = key.startsWith(`${provider}/`) ? key.slice(provider.length + 1) : key;
    if (!modelNames.has(model)) return [];
    // The legacy `max_tokens` may be the limit of the input (`sample_spec`).
    const { max_input_tokens: contextWindow, max_output_tokens: outputLimit } = value;
    return [{ provider, model, ...readRecord(value), limits: readLimits({ contextWindow, outputLimit }) }];
  });
}

function hasProvider(value: unknown): value is Record<string, unknown> & { litellm_provider: string } {
  return isRecord(value) && typeof value.litellm_provider === "string";
}

function readRecord(data: Record<string, unknown>): Pick<SourceModel, "tiers" | "unpriced"> {
  const tiers = new Map<string, SourceTier>();
  const rest: { name: string; like?: { aboveTokens: number; serviceTier: string; as: PriceClass }; amount: string }[] =
    [];
  for (const [name, value] of Object.entries(data)) {
    if (!chargeFieldPattern.test(name) || batchFieldPattern.test(name) || name === searchField || value === null)
      continue;
    const [, field = "", first, size, k, last] = suffixes.exec(name) ?? [];
    const serviceTier = first ?? last ?? "default";
    const aboveTokens = Number(size ?? 0) * (k ? 1_000 : 1);
    const asClass = Object.hasOwn(priceClassByField, field) ? priceClassByField[field] : undefined;
    const isTier = !(first && last) && (size === undefined || isTierSize(aboveTokens));
    if (asClass && value instanceof JsonNumber && isTier) {
      const key = `${serviceTier} ${aboveTokens}`;
      const tier = tiers.get(key) ?? { serviceTier, aboveTokens, offers: {} };
      tier.offers[asClass] = mergeSpellings(createExactOffer(value, 6), tier.offers[asClass]);
      tiers.set(key, tier);
      continue;
    }
    const as = Object.hasOwn(chargedClassByField, field) ? chargedClassByField[field] : undefined;
    const amount = value instanceof JsonNumber ? (createExactOffer(value, 6).usd ?? value.text) : "";
    // A charge without a price class is ignored if it is free.
    if (!as && amount === "0") continue;
    rest.push({ name, amount, ...(as && { like: { aboveTokens, serviceTier, as } }) });
  }
  const fee = readSearchFee(data);
  const filled = [...tiers.values()].map((tier) => fillMissingPrices(tier, { tiers, fee }));
  const unpriced = rest.flatMap(({ name, like, amount }) => {
    const same = filled.find((tier) => like?.serviceTier === tier.serviceTier && like.aboveTokens === tier.aboveTokens);
    return like && same?.offers[like.as]?.usd === amount ? [] : [name];
  });
  return { tiers: filled, unpriced };
}

/**
 * Merges two spellings of a field, such as `…_above_200k_tokens_flex` and `…_flex_above_200k_tokens`, which may state
 * different amounts.
 */
function mergeSpellings(offer: Offer, other: Offer = offer): Offer {
  return other.usd === offer.usd
    ? offer
    : { usd: null, note: `Stated twice (${other.usd} and ${offer.usd}), so it can’t be applied` };
}

/**
 * Fills in a tier's missing prices from the default service tier with the same token threshold, then from the tiers
 * without a threshold.
 */
function fillMissingPrices(
  tier: SourceTier,
  { tiers, fee }: { tiers: ReadonlyMap<string, SourceTier>; fee: Offer | undefined },
) {
  const { serviceTier, aboveTokens } = tier;
  const others = [`default ${aboveTokens}`, `${serviceTier} 0`, "default 0"].flatMap((key) => tiers.get(key) ?? []);
  const offers: SourceTier["offers"] = {};
  for (const other of others.toReversed()) {
    for (const [name, offer] of Object.entries(other.offers) as [PriceClass, Offer][]) {
      offers[name] = { note: "LiteLLM’s default price, as it has none for this tier", ...offer };
    }
  }
  return { serviceTier, aboveTokens, offers: { ...offers, ...tier.offers, ...(fee && { requestFeeUsd: fee }) } };
}

const searchField = "search_context_cost_per_query";

/** Reads the fee per search. The fee can be applied only if it is the same for all context sizes of the search. */
function readSearchFee(data: Record<string, unknown>): Offer | undefined {
  const { success, data: fees } = searchFees.safeParse(data[searchField]);
  const offers = success ? Object.values(fees).map((fee) => createExactOffer(fee)) : [];
  const [offer] = offers;
  if (!offer) return undefined;
  if (offers.some(({ usd }) => usd !== offer.usd))
    return { usd: null, note: "Varies with web search context size, so it can’t be applied" };
  return data.search_free_requests === undefined ? offer : { ...offer, note: "After a number of free searches" };
}
