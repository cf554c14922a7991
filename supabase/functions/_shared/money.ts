import { add, type Decimal, multiply, parseDecimal, roundHalfEven } from "./decimal.ts";

/** One tier of a route's prices, USD per million tokens as decimal text, as `ai.begin_run` answers it. */
export type PriceTier = {
  min_input_tokens: number;
  input: string;
  cached_input?: string;
  output: string;
  audio_input?: string;
  audio_output?: string;
};

/** Counted tokens. Cached and audio tokens are parts of the input, reasoning and audio tokens parts of the output. */
export type TokenCounts = {
  input_tokens?: number;
  cached_input_tokens?: number;
  audio_input_tokens?: number;
  output_tokens?: number;
  reasoning_tokens?: number;
  audio_output_tokens?: number;
};

const perMillion: Decimal = { units: 1n, scale: 6 };
const creditDecimals = 8;

/** Returns what usage costs in USD, exactly. Settlement books this amount. */
export function usageCostUsd(prices: readonly PriceTier[], counts: TokenCounts): Decimal {
  const input = counts.input_tokens ?? 0;
  const output = counts.output_tokens ?? 0;
  const cached = Math.min(counts.cached_input_tokens ?? 0, input);
  const audioInput = Math.min(counts.audio_input_tokens ?? 0, input - cached);
  const audioOutput = Math.min(counts.audio_output_tokens ?? 0, output);
  const tier = tierFor(prices, input);
  const parts: [number, string][] = [
    [input - cached - audioInput, tier.input],
    [cached, tier.cached_input ?? tier.input],
    [audioInput, tier.audio_input ?? tier.input],
    [output - audioOutput, tier.output],
    [audioOutput, tier.audio_output ?? tier.output],
  ];
  const sum = parts
    .filter(([tokens]) => tokens !== 0)
    .map(([tokens, price]) => multiply({ units: BigInt(tokens), scale: 0 }, parseDecimal(price)))
    .reduce(add, { units: 0n, scale: 0 });
  return multiply(sum, perMillion);
}

/** Returns an amount in credits, rounded half to even, at the rate that `ai.begin_run` answers. */
export function usdToCredits(amountUsd: Decimal, creditsPerUsd: string): Decimal {
  return roundHalfEven(multiply(amountUsd, parseDecimal(creditsPerUsd)), creditDecimals);
}

function tierFor(prices: readonly PriceTier[], inputTokens: number): PriceTier {
  const ascending = prices.toSorted((one, other) => one.min_input_tokens - other.min_input_tokens);
  const tier = ascending.findLast((each) => each.min_input_tokens <= inputTokens) ?? ascending[0];
  if (!tier) throw new RangeError("a route without a price");
  return tier;
}
