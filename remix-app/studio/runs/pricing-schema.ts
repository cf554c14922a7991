import { z } from "zod";
import { attemptFailures } from "#shared/attempt.ts";
import { priceItems } from "#shared/money.ts";
import { amountText as amount } from "../../ui/format-amount.ts";

const countSchema = z.number().int();
const price = amount.optional();
const tokenCountSchema = countSchema.optional();

const route = z.object({
  position: countSchema,
  provider: z.string(),
  model: z.string(),
  prices: z.array(
    z.object({
      service_tier: z.string().optional(),
      min_input_tokens: countSchema,
      input: amount,
      cached_input: price,
      cache_write: price,
      cache_write_1h: price,
      output: amount,
      audio_input: price,
      audio_output: price,
      image_input: price,
      request_fee: price,
    }),
  ),
  tier_multipliers: z.record(z.string(), z.number()).optional(),
  trusts_stated_cost: z.boolean().optional(),
});

const chargedUsageSchema = z.object({
  input_tokens: tokenCountSchema,
  cached_input_tokens: tokenCountSchema,
  cache_write_tokens: tokenCountSchema,
  cache_write_1h_tokens: tokenCountSchema,
  audio_input_tokens: tokenCountSchema,
  image_input_tokens: tokenCountSchema,
  output_tokens: tokenCountSchema,
  reasoning_tokens: tokenCountSchema,
  audio_output_tokens: tokenCountSchema,
  fee_requests: tokenCountSchema,
  served_tier: z.string().optional(),
  stated_cost_usd: amount.optional(),
});

/** The result of `ai.run_pricing_facts`. Everything from `markup` on is absent if provider cost is hidden. */
export const pricingFacts = z.object({
  cacheWrite1hTokens: countSchema,
  exempt: z.boolean(),
  swept: z.boolean(),
  idempotent: z.boolean(),
  askedProvider: z.boolean(),
  reservedCredits: amount.nullable(),
  markup: amount.optional(),
  creditsPerUsd: amount.optional(),
  route: countSchema.nullish(),
  routes: z.array(route).default([]),
  attempts: z
    .array(
      z.object({
        route: countSchema,
        failure: z.enum(attemptFailures).optional(),
        may_have_charged: z.boolean().optional(),
        charged: chargedUsageSchema.optional(),
      }),
    )
    .default([]),
});

export type PricingFacts = z.infer<typeof pricingFacts>;

/** Reasons why a run's credits differ from its tokens at list prices. */
export const pricingNotes = [
  "running",
  "not_called",
  "usage_unknown",
  "exempt",
  "partial",
  "estimated",
  "swept",
  "stated_cost",
  "several_calls",
  "not_itemised",
  "uncounted_attempts",
  "repeats_free",
] as const;

export type PricingNote = (typeof pricingNotes)[number];

/**
 * A line of a run's cost. `stated_cost` is a call's price as stated by the provider. `not_itemised` is the part of the
 * cost that the stored counts do not explain. `rounding` is the difference from rounding to 12 decimals.
 */
export const pricingLine = z.object({
  /** The call's number in a run with several calls. */
  call: countSchema.nullable(),
  item: z.enum([...priceItems, "stated_cost", "not_itemised", "rounding"]),
  /** The number of tokens, or of requests that cost a fee. Null for amounts without a count. */
  count: countSchema.nullable(),
  /** The item whose price applies, if this item has no price of its own. */
  pricedAs: z.enum(priceItems).nullable(),
  /** The price per million tokens, or the fee per request. */
  unitPriceUsd: amount.nullable(),
  amountUsd: amount.nullable(),
});

export type PricingLine = z.infer<typeof pricingLine>;

/** Identifies the prices that applied to a call. */
export const pricingCall = z.object({
  call: countSchema,
  route: countSchema,
  provider: z.string(),
  model: z.string(),
  /** As named in the provider's response; null for the default tier. */
  serviceTier: z.string().nullable(),
  minInputTokens: countSchema,
  multiplier: amount,
});

export type PricingCall = z.infer<typeof pricingCall>;

/** A run's pricing. If provider cost is hidden, calls, prices, amounts, costUsd, markup and creditsPerUsd are null. */
export const runPricing = z.object({
  lines: z.array(pricingLine),
  calls: z.array(pricingCall).nullable(),
  costUsd: amount.nullable(),
  markup: amount.nullable(),
  creditsPerUsd: amount.nullable(),
  billedCredits: amount,
  unmeteredCredits: amount,
  reservedCredits: amount.nullable(),
  notes: z.array(z.enum(pricingNotes)),
});

export type RunPricing = z.infer<typeof runPricing>;
