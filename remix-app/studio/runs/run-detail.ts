import { z } from "zod";
import { type Tariff, tierPrices, unitPrice } from "#shared/money.ts";
import { type RunUnitPrice, runAttempt, runStep, runSummary } from "./run-schema.ts";

const price = z.object({
  service_tier: z.string().optional(),
  min_input_tokens: z.number(),
  input: z.string(),
  output: z.string(),
});
const route = z.object({
  position: z.number(),
  provider: z.string(),
  model: z.string(),
  prices: z.array(price),
  tier_multipliers: z.record(z.string(), z.number()).optional(),
});

/** The answer of `ai.run_detail`, with the unit prices of the route that answered. */
export const runDetail = z
  .object({
    run: runSummary,
    steps: z.array(runStep),
    attempts: z.array(runAttempt).nullable(),
    answeredBy: route.nullable(),
  })
  .transform(({ answeredBy, ...detail }) => ({
    ...detail,
    provider: answeredBy && { route: answeredBy.position, name: answeredBy.provider, model: answeredBy.model },
    unitPrices: answeredBy && unitPricesOf(answeredBy, detail.run.servedTier ?? undefined),
  }));

/** A run with all that is shown of it; attempts, provider and unitPrices are null where provider cost is hidden. */
export type RunDetail = z.output<typeof runDetail>;

function unitPricesOf(tariff: Tariff, servedTier: string | undefined): RunUnitPrice[] {
  const { prices, multiplier } = tierPrices(tariff, servedTier);
  return prices.map(({ min_input_tokens, input, output }) => ({
    minInputTokens: min_input_tokens,
    inputUsd: unitPrice(input, multiplier),
    outputUsd: unitPrice(output, multiplier),
  }));
}
