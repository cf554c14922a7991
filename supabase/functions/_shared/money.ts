import { add, type Decimal, formatDecimal, multiply, parseDecimal, roundHalfEven } from "./decimal.ts";
import { readDecimalText } from "./usd-amount.ts";

/**
 * One tier of a route's prices as decimal text, as returned by `ai.begin_run`: USD per million tokens, and USD per fee.
 */
export type PriceTier = {
  /** Absent for the default tier. */
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

/** A route's prices. */
export type Tariff = { prices: readonly PriceTier[]; tier_multipliers?: Readonly<Record<string, number>> };

/**
 * The usage of a provider call. `input_tokens` is the whole input: uncached, cache reads and writes, audio and images.
 * `output_tokens` is the whole output: text, reasoning and audio. The other tokens are parts of one of the two.
 */
export type TokenCounts = {
  input_tokens?: number;
  /** Read from a cache. */
  cached_input_tokens?: number;
  /** Written to a cache for its default time, usually 5 minutes. */
  cache_write_tokens?: number;
  /** Written to a cache for an hour. */
  cache_write_1h_tokens?: number;
  audio_input_tokens?: number;
  image_input_tokens?: number;
  output_tokens?: number;
  reasoning_tokens?: number;
  audio_output_tokens?: number;
  /** Requests with a separate fee, such as web searches. */
  fee_requests?: number;
};

const perMillion: Decimal = { units: 1n, scale: 6 };
const nothing: Decimal = { units: 0n, scale: 0 };
const creditDecimals = 8;
/** Providers' names for the tier of their list prices: OpenAI, Anthropic and Groq. */
const listPriceTiers: ReadonlySet<string> = new Set(["auto", "default", "standard", "on_demand"]);

/** What a call may be charged for, in the order of a price list. */
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

/** One class of tokens, or the fees, of a call: `count` × `unitPrice` = `amount`, exactly. */
export type PriceLine = {
  item: PriceItem;
  count: number;
  /** The item whose price applies. It differs from `item` if the tier has no price for that. */
  pricedAs: PriceItem;
  /** USD per million tokens with the tier's multiplier, or USD per fee. */
  unitPrice: Decimal;
  /** USD. */
  amount: Decimal;
};

/** The price lines of a call, and the tier and multiplier they use. */
export type PricedUsage = { tier: PriceTier; multiplier: Decimal; lines: PriceLine[] };

/** Returns the exact cost of usage in USD: the sum of {@link priceUsage}'s lines. Settlement charges this amount. */
export function usageCostUsd(tariff: Tariff, counts: TokenCounts, servedTier?: string): Decimal {
  return sumOfLines(priceUsage(tariff, counts, servedTier).lines);
}

export function sumOfLines(lines: readonly PriceLine[]): Decimal {
  return lines.map(({ amount }) => amount).reduce(add, nothing);
}

/**
 * Returns the tier that applies to usage, and a line for each class of tokens used.
 * @param servedTier the service tier named in the provider's answer; if it has no price, the default tier is charged
 * @throws RangeError for a route without a price
 */
export function priceUsage(tariff: Tariff, counts: TokenCounts, servedTier?: string): PricedUsage {
  const input = counts.input_tokens ?? 0;
  const { tier, multiplier } = priceFor(tariff, input, servedTier);
  if (!tier) throw new RangeError("a route without a price");
  return { tier, multiplier, lines: priceLines(counts, { tier, multiplier }) };
}

/** Returns the count of each item in usage, without zeros. Parts of the input never exceed the input. */
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

/** Returns the lines of usage at the prices of one tier. */
export function priceLines(
  counts: TokenCounts,
  { tier, multiplier }: Pick<PricedUsage, "tier" | "multiplier">,
): PriceLine[] {
  return usageItems(counts).map(({ item, count }) => {
    const pricedAs = [item, ...insteadOf[item]].find((name) => tier[name] !== undefined) ?? item;
    const price = parseDecimal(tier[pricedAs] ?? "0");
    const isFee = item === "request_fee";
    const unitPrice = isFee ? price : multiply(price, multiplier);
    const total = multiply({ units: BigInt(count), scale: 0 }, unitPrice);
    return { item, count, pricedAs, unitPrice, amount: isFee ? total : multiply(total, perMillion) };
  });
}

/** Fallbacks for prices that a tier doesn't have. Fees without a price are free. */
const insteadOf: Readonly<Record<PriceItem, readonly PriceItem[]>> = {
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
 * Returns the prices for a served tier, by ascending `min_input_tokens`, and their multiplier. A tier without a price
 * is charged as the default tier.
 */
export function tierPrices(
  { prices, tier_multipliers = {} }: Tariff,
  servedTier = "default",
): { prices: readonly PriceTier[]; multiplier: Decimal } {
  const of = (name: string) => prices.filter(({ service_tier = "default" }) => service_tier === name);
  const own = of(servedTier);
  const ascending = (own.length > 0 ? own : of("default")).toSorted(
    (one, other) => one.min_input_tokens - other.min_input_tokens,
  );
  // The provider names the tier, so it may match an inherited member such as `constructor`.
  const multiplier = own.length === 0 && Object.hasOwn(tier_multipliers, servedTier) ? tier_multipliers[servedTier] : 1;
  // JavaScript writes small numbers with an exponent.
  return { prices: ascending, multiplier: parseDecimal(readDecimalText(String(multiplier)) ?? "1") };
}

/** Returns a tier's price with its multiplier applied, as exact decimal text. */
export function unitPrice(price: string, multiplier: Decimal): string {
  return formatDecimal(multiply(parseDecimal(price), multiplier));
}

/** Returns the text prices of a call, in USD per million tokens, as exact decimal text; undefined without a price. */
export function unitPrices(
  tariff: Tariff,
  { inputTokens, servedTier }: { inputTokens: number; servedTier?: string },
): { input: string; output: string } | undefined {
  const { tier, multiplier } = priceFor(tariff, inputTokens, servedTier);
  return tier && { input: unitPrice(tier.input, multiplier), output: unitPrice(tier.output, multiplier) };
}

export function isTierPriced({ prices, tier_multipliers = {} }: Tariff, tier: string): boolean {
  return (
    listPriceTiers.has(tier) ||
    Object.hasOwn(tier_multipliers, tier) ||
    prices.some(({ service_tier }) => service_tier === tier)
  );
}

/** Returns an amount in credits, rounded half to even, at the rate returned by `ai.begin_run`. */
export function usdToCredits(amountUsd: Decimal, creditsPerUsd: string): Decimal {
  return roundHalfEven(multiply(amountUsd, parseDecimal(creditsPerUsd)), creditDecimals);
}

function priceFor(
  tariff: Tariff,
  inputTokens: number,
  servedTier?: string,
): { tier: PriceTier | undefined; multiplier: Decimal } {
  const { prices, multiplier } = tierPrices(tariff, servedTier);
  const tier = prices.findLast(({ min_input_tokens }) => min_input_tokens <= inputTokens) ?? prices[0];
  return { tier, multiplier };
}
