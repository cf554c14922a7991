import { z } from "zod";
import { providerIdPattern } from "../admin/model-forms.ts";
import { isReadable } from "../http/readable.ts";

/** The largest number in a column of type integer. */
export const maxInteger = 2_147_483_647;

/** A limit in whole numbers; null for none. */
export const optionalCount = (max: number = maxInteger) => z.number().int().min(1).max(max).nullable();

/** A name in one line. */
export const shortText = (max = 80) =>
  z.string().trim().min(1).max(max).refine(isReadable, "must be one line of characters that can be seen");

/** Exact decimal text of an amount in USD that fits the price book. */
const priceUsd = z
  .string()
  .regex(/^\d{1,12}(\.\d{1,6})?$/, "must be an amount in USD as text, with at most 6 decimals, such as “2.50”");
const optionalPriceUsd = priceUsd.nullable().default(null);

/** The fields of a new price: USD per million tokens, except the fee, which is per request. */
export const priceAmounts = {
  inputUsd: priceUsd,
  cachedInputUsd: optionalPriceUsd,
  cacheWriteUsd: optionalPriceUsd,
  cacheWrite1hUsd: optionalPriceUsd,
  outputUsd: priceUsd,
  audioInputUsd: optionalPriceUsd,
  audioOutputUsd: optionalPriceUsd,
  imageInputUsd: optionalPriceUsd,
  requestFeeUsd: optionalPriceUsd,
};

/** A service tier as the provider names it. */
export const tierName = z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/);

/** Where a price applies. */
export const priceScope = {
  providerId: z.string().regex(providerIdPattern),
  serviceTier: tierName.default("default"),
  minInputTokens: z.number().int().min(0).max(maxInteger).default(0),
};

/** The ID of the newest price of a provider and input size that the caller read, in any tier; null for none. */
export const latestPrice = z.union([z.number().int(), z.string().regex(/^\d{1,18}$/)]).nullable();
