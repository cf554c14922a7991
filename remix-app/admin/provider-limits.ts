import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import { createCountSchema } from "./plans.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** A token bucket: how much of a limit can be used at once, and how much of that is left. */
const bucket = z.object({ size: z.number(), left: z.number() });
export const providerLimitSchema = z.object({
  provider: z.string(),
  requestsPerMinute: z.number().nullable(),
  tokensPerMinute: z.number().nullable(),
  /** Null without a limit. */
  requests: bucket.nullable(),
  tokens: bucket.nullable(),
  version: z.string(),
});
/** A provider with a route, and its limits. */
export type ProviderLimit = z.infer<typeof providerLimitSchema>;

const maxTokens = 100_000_000_000;

/** The form that changes a provider's limits. `seen` is the version that the admin saw. */
export const providerLimitChangeSchema = reasonedChangeSchema.extend({
  seen: z.string().min(1),
  requestsPerMinute: createCountSchema(2_147_483_647),
  tokensPerMinute: createCountSchema(maxTokens),
});

/** @throws Response 404 if no route names the provider, 503 UNAVAILABLE */
export async function requireProviderLimit(context: AppLoadContext, provider: string): Promise<ProviderLimit> {
  const schema = z.array(providerLimitSchema);
  const args = { only_id: provider };
  const [found] = await callFunction(context, { name: "private.list_provider_limits", args, schema });
  if (found) return found;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: refusals.not_found.message });
}

/** Sets or removes the limits of a provider. */
export function saveProviderLimit(
  context: AppLoadContext,
  {
    admin,
    ...change
  }: z.output<typeof providerLimitChangeSchema> & {
    admin: InfrastructureAdmin;
    provider: string;
  },
): Promise<ConsoleChange> {
  return applyConsoleChange(context, { admin, name: "save_provider_limit", change, refusals });
}

const refusals = {
  not_found: { status: 404, message: "No route names this provider." },
} as const;
