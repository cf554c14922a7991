import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import type { CsvColumn } from "../http/csv.ts";
import { rangeDays } from "../studio/range.ts";
import { callFunction } from "../supabase/data-api.ts";

export const usageSchema = z.array(
  z.object({
    /** Null for runs that reached no provider. */
    provider: z.string().nullable(),
    billingName: z.string().nullable(),
    billingAccount: z.string().nullable(),
    requests: z.number(),
    failed: z.number(),
    inputTokens: z.number(),
    outputTokens: z.number(),
    /** Exact decimal text. */
    costUsd: z.string(),
  }),
);
/** The usage and cost of a provider's billing account in all workspaces. */
export type ProviderUsage = z.infer<typeof usageSchema>[number];

/** Returns each provider's usage in a range of whole UTC days, highest cost first. @throws Response 503 UNAVAILABLE */
export function listProviderUsage(
  context: AppLoadContext,
  range: { from: string; to: string },
): Promise<ProviderUsage[]> {
  const { first: first_day, last: last_day } = rangeDays(range);
  const args = { first_day, last_day };
  return callFunction(context, { name: "private.list_provider_usage", args, schema: usageSchema });
}

export const providerUsageColumns: readonly CsvColumn<ProviderUsage>[] = [
  { name: "provider", value: ({ provider }) => provider },
  { name: "billing_name", value: ({ billingName }) => billingName },
  { name: "billing_account", value: ({ billingAccount }) => billingAccount },
  { name: "requests", value: ({ requests }) => requests },
  { name: "failed", value: ({ failed }) => failed },
  { name: "input_tokens", value: ({ inputTokens }) => inputTokens },
  { name: "output_tokens", value: ({ outputTokens }) => outputTokens },
  { name: "cost_usd", value: ({ costUsd }) => costUsd },
];
