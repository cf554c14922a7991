import { add, type Decimal, formatDecimal, multiply, parseDecimal, roundHalfEven } from "./decimal.ts";
import { readDecimalText } from "./usd-amount.ts";

/**
 * The prices of one tier of a route, as returned by `ai.begin_runs`. Amounts are decimals as text: USD per million
 * tokens, or USD per request for `request_fee`.
 */
export type PriceTier = {
  /** The name of the service tier. Absent for the default tier. */
  service_tier?: string;
  min_input_tokens: number;
  input: string;
  cached_input?: string;
  cache_write?: string;
  cache_write_1h?: string;
  output: string;
  audio_input?: string;
  audio_output?: string;
  image_input?: string;
  request_fee?: string;
};

/** A route's prices, and the multipliers of tiers that have no prices of their own. */
export type Tariff = { prices: readonly PriceTier[]; tier_multipliers?: Readonly<Record<string, number>> };

/**
 * The usage of a provider call. `input_tokens` is the whole input: uncached text, cache reads and writes, audio and
 * images. `output_tokens` is the whole output: text, reasoning and audio. Each other token count is part of one of
 * these.
 */
export type TokenCounts = {
  input_tokens?: number;
  /** Tokens read from a cache. */
  cached_input_tokens?: number;
  /** Tokens written to a cache for its default time, usually 5 minutes. */
  cache_write_tokens?: number;
  /** Tokens written to a cache for an hour. */
  cache_write_1h_tokens?: number;
  audio_input_tokens?: number;
  image_input_tokens?: number;
  output_tokens?: number;
  reasoning_tokens?: number;
  audio_output_tokens?: number;
  /** Number of requests with a separate fee, such as web searches. */
  fee_requests?: number;
};

const perMillion: Decimal = { units: 1n, scale: 6 };
const zero: Decimal = { units: 0n, scale: 0 };
const creditDecimals = 8;
/** Names that OpenAI, Anthropic and Groq use for the tier with their list prices. */
const listPriceTiers: ReadonlySet<string> = new Set(["auto", "default", "standard", "on_demand"]);

/** The items that a call may be charged for, in the order of a price list. */
export const priceItems = [
  "input",
  "cached_input",
  "cache_write",
  "cache_write_1h",
  "audio_input",
  "image_input",
  "output",
  "audio_output",
  "request_fee",
] as const;
export type PriceItem = (typeof priceItems)[number];

/** The charge for one class of tokens or for the fees of a call. `amount` is exactly `count` × `computeUnitPrice`. */
export type PriceLine = {
  item: PriceItem;
  count: number;
  /** The item whose price applies. Differs from `item` if the tier has no price for the item. */
  pricedAs: PriceItem;
  /** USD per million tokens, including the tier's multiplier, or USD per fee. */
  unitPrice: Decimal;
  /** The charged amount in USD. */
  amount: Decimal;
};

/** The price lines of a call, with the tier and the multiplier that apply. */
export type PricedUsage = { tier: PriceTier; multiplier: Decimal; lines: PriceLine[] };

/**
 * Returns the exact cost of usage in USD, which is the sum of the lines that {@link priceUsage} returns. Settlement
 * charges this amount.
 */
export function usageCostUsd(tariff: Tariff, counts: TokenCounts, servedTier?: string): Decimal {
  return sumOfLines(priceUsage(tariff, counts, servedTier).lines);
}

export function sumOfLines(lines: readonly PriceLine[]): Decimal {
  return lines.map(({ amount }) => amount).reduce(add, zero);
}

/**
 * Returns the tier that applies to usage, and a price line for each class of tokens and for fees.
 * @param servedTier the service tier in the provider's answer; a tier without a price is charged as the default tier
 * @throws RangeError for a route without a price
 */
export function priceUsage(tariff: Tariff, counts: TokenCounts, servedTier?: string): PricedUsage {
  const input = counts.input_tokens ?? 0;
  const { tier, multiplier } = findPriceTier(tariff, input, servedTier);
  if (!tier) throw new RangeError("a route without a price");
  return { tier, multiplier, lines: priceLines(counts, { tier, multiplier }) };
}

/**
 * Returns the price items in usage whose count is not zero, with their counts. The counts of the input items add up to
 * `input_tokens`. If the provider reports more tokens for the parts of the input, the excess is dropped.
 */
export function usageItems(counts: TokenCounts): { item: PriceItem; count: number }[] {
  const output = counts.output_tokens ?? 0;
  let rest = counts.input_tokens ?? 0;
  function part(tokens = 0): number {
    const counted = Math.min(tokens, rest);
    rest -= counted;
    return counted;
  }
  const parts = {
    cached_input: part(counts.cached_input_tokens),
    cache_write_1h: part(counts.cache_write_1h_tokens),
    cache_write: part(counts.cache_write_tokens),
    audio_input: part(counts.audio_input_tokens),
    image_input: part(counts.image_input_tokens),
  };
  const audioOutput = Math.min(counts.audio_output_tokens ?? 0, output);
  const used: Record<PriceItem, number> = {
    ...parts,
    input: rest,
    output: output - audioOutput,
    audio_output: audioOutput,
    request_fee: counts.fee_requests ?? 0,
  };
  return priceItems.map((item) => ({ item, count: used[item] })).filter(({ count }) => count !== 0);
}

/** Returns the unit price and the amount of each item of usage, at the prices of one tier. */
export function priceLines(
  counts: TokenCounts,
  { tier, multiplier }: Pick<PricedUsage, "tier" | "multiplier">,
): PriceLine[] {
  return usageItems(counts).map(({ item, count }) => {
    const pricedAs = [item, ...fallbackItems[item]].find((name) => tier[name] !== undefined) ?? item;
    const price = parseDecimal(tier[pricedAs] ?? "0");
    const isFee = item === "request_fee";
    const unitPrice = isFee ? price : multiply(price, multiplier);
    const total = multiply({ units: BigInt(count), scale: 0 }, unitPrice);
    return { item, count, pricedAs, unitPrice, amount: isFee ? total : multiply(total, perMillion) };
  });
}

/** The items whose prices apply if a tier has no price for an item. Fees without a price are free. */
const fallbackItems: Readonly<Record<PriceItem, readonly PriceItem[]>> = {
  input: [],
  cached_input: ["input"],
  cache_write: ["input"],
  cache_write_1h: ["cache_write", "input"],
  audio_input: ["input"],
  image_input: ["input"],
  output: [],
  audio_output: ["output"],
  request_fee: [],
};

/**
 * Returns the prices for a served tier in ascending order of `min_input_tokens`, and their multiplier. A tier without a
 * price is charged as the default tier.
 */
export function findTierPrices(
  { prices, tier_multipliers = {} }: Tariff,
  servedTier = "default",
): { prices: readonly PriceTier[]; multiplier: Decimal } {
  const of = (name: string) => prices.filter(({ service_tier = "default" }) => service_tier === name);
  const own = of(servedTier);
  const ascending = (own.length > 0 ? own : of("default")).toSorted(
    (one, other) => one.min_input_tokens - other.min_input_tokens,
  );
  // The tier's name comes from the provider, so it may match an inherited member such as `constructor`.
  const multiplier = own.length === 0 && Object.hasOwn(tier_multipliers, servedTier) ? tier_multipliers[servedTier] : 1;
  // JavaScript formats small numbers with an exponent, which parseDecimal rejects.
  return { prices: ascending, multiplier: parseDecimal(readDecimalText(String(multiplier)) ?? "1") };
}

/** Returns a tier's price with its multiplier applied, as exact decimal text. */
export function computeUnitPrice(price: string, multiplier: Decimal): string {
  return formatDecimal(multiply(parseDecimal(price), multiplier));
}

/**
 * Returns a call's prices for text, in USD per million tokens, as exact decimal text. Returns undefined if the default
 * tier has no price.
 */
export function findUnitPrices(
  tariff: Tariff,
  { inputTokens, servedTier }: { inputTokens: number; servedTier?: string },
): { input: string; output: string } | undefined {
  const { tier, multiplier } = findPriceTier(tariff, inputTokens, servedTier);
  return tier && { input: computeUnitPrice(tier.input, multiplier), output: computeUnitPrice(tier.output, multiplier) };
}

export function isTierPriced({ prices, tier_multipliers = {} }: Tariff, tier: string): boolean {
  return (
    listPriceTiers.has(tier) ||
    Object.hasOwn(tier_multipliers, tier) ||
    prices.some(({ service_tier }) => service_tier === tier)
  );
}

/** Converts an amount to credits at the rate returned by `ai.begin_runs`, rounded half to even. */
export function usdToCredits(amountUsd: Decimal, creditsPerUsd: string): Decimal {
  return roundHalfEven(multiply(amountUsd, parseDecimal(creditsPerUsd)), creditDecimals);
}

function findPriceTier(
  tariff: Tariff,
  inputTokens: number,
  servedTier?: string,
): { tier: PriceTier | undefined; multiplier: Decimal } {
  const { prices, multiplier } = findTierPrices(tariff, servedTier);
  const tier = prices.findLast(({ min_input_tokens }) => min_input_tokens <= inputTokens) ?? prices[0];
  return { tier, multiplier };
}
