import { formatDecimal, multiply, parseDecimal } from "#shared/decimal.ts";
import { JsonNumber } from "#shared/exact-json.ts";
import { readDecimalText } from "#shared/usd-amount.ts";

/** The price classes, named as in the arguments of `private.add_model_price`. */
export const priceClasses = [
  "inputUsd",
  "cachedInputUsd",
  "cacheWriteUsd",
  "cacheWrite1hUsd",
  "outputUsd",
  "audioInputUsd",
  "audioOutputUsd",
  "imageInputUsd",
  "requestFeeUsd",
] as const;
export type PriceClass = (typeof priceClasses)[number];

export const priceLabels: Readonly<Record<PriceClass, string>> = {
  inputUsd: "Input",
  cachedInputUsd: "Cached input",
  cacheWriteUsd: "Cache write",
  cacheWrite1hUsd: "Cache write, 1 hour",
  outputUsd: "Output",
  audioInputUsd: "Audio input",
  audioOutputUsd: "Audio output",
  imageInputUsd: "Image input",
  requestFeeUsd: "Fee per request",
};

/** The price from a source for one class: USD as exact decimal text, or null with the reason. */
export type Offer = { usd: string | null; note?: string };

/**
 * A source's prices for one service tier and for inputs above `aboveTokens`, which is 0 if they apply to all inputs.
 */
export type SourceTier = { serviceTier: string; aboveTokens: number; offers: Partial<Record<PriceClass, Offer>> };

/** The limits of a model in tokens, as far as a source states them. */
export type SourceLimits = { contextWindow?: number; outputLimit?: number };

/** A model from a source. `unpriced` lists its other charges, which our prices can't express. */
export type SourceModel = {
  provider: string;
  model: string;
  tiers: SourceTier[];
  unpriced: string[];
  limits?: SourceLimits;
};

export type SourceName = "models.dev" | "LiteLLM";
export type PriceSource = { name: SourceName; models: SourceModel[] };

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Matches what the service tier column accepts. */
export const serviceTierName = /^[a-z][a-z0-9_-]{0,31}$/;
/**
 * Returns whether a price tier can apply above this number of tokens. The tier's minimum is one token more, which must
 * fit the integer column.
 */
export const isTierSize = (tokens: number) => Number.isInteger(tokens) && tokens > 0 && tokens < 2_147_483_647;

/** Returns the limits that a source states. Ignores values that the integer columns can't hold. */
export function readLimits(values: Record<keyof SourceLimits, unknown>): SourceLimits {
  const limits = Object.entries(values).flatMap(([name, value]) => {
    const tokens = value instanceof JsonNumber ? Number(value.text) : Number.NaN;
    return isTierSize(tokens) ? [[name, tokens]] : [];
  });
  return Object.fromEntries(limits);
}

/** A price file that cannot be read. The message is for the admin. */
export class UnreadablePrices extends Error {}

/** The maximum number of decimals that a price column stores. */
const maxDecimals = 6;
const maxWholeDigits = 12;
/** Maximum length of a number, to bound parsing time. */
const maxNumberLength = 100;

/**
 * Multiplies an amount in USD by a power of ten, exactly. An amount with too many decimals gets a note instead of being
 * rounded.
 */
export function createExactOffer({ text }: JsonNumber, powerOfTen = 0): Offer {
  const decimal = text.length <= maxNumberLength ? readDecimalText(text) : null;
  if (decimal === null) return { usd: null, note: `${text.slice(0, 40)} isn’t a price` };
  const factor = { units: 10n ** BigInt(powerOfTen), scale: 0 };
  const usd = formatDecimal(multiply(parseDecimal(decimal), factor));
  const [whole = "", fraction = ""] = usd.replace(/^0+(?=\d)/, "").split(".");
  if (usd.startsWith("-") || whole.length > maxWholeDigits) {
    return { usd: null, note: `${usd.slice(0, 40)} isn’t a price` };
  }
  if (fraction.length > maxDecimals) return { usd: null, note: `Can’t be used: more than ${maxDecimals} decimals` };
  return { usd: fraction ? `${whole}.${fraction}` : whole };
}
