import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, writeKeyCursor } from "../http/list-page.ts";
import { rangeDays } from "../studio/range.ts";
import { runAttempt } from "../studio/runs/run-schema.ts";
import { callFunction } from "../supabase/data-api.ts";
import { parseModelCursor } from "./models.ts";
import { providerLimitSchema } from "./provider-limits.ts";
import { routeState, troubledRoute } from "./provider-trouble.ts";
import { usageSchema } from "./provider-usage.ts";

const failure = runAttempt.pick({ failure: true, status: true, upstreamRequestId: true }).extend({
  at: z.string(),
  runId: z.uuid(),
});
const route = z.object({
  position: z.number(),
  provider: z.string(),
  providerModel: z.string(),
  enabled: z.boolean(),
  hasPrice: z.boolean(),
  failedLastHour: z.number(),
  /** The latest failure of the last seven days, or null. */
  lastFailure: failure.nullable(),
});
const routedModelsSchema = z.array(
  z.object({ model: z.string(), displayName: z.string(), sortsAs: z.array(z.string()), routes: z.array(route) }),
);

/** An enabled model with its routes in order. */
export type RoutedModel = z.infer<typeof routedModelsSchema>[number];
export type ModelRoute = z.infer<typeof route>;

const modelsPerPage = 40;

const routeStates = z.object({
  routes: z.array(
    troubledRoute.omit({ model: true }).extend({
      provider: z.string(),
      /** The provider's name of the model. */
      providerModel: z.string(),
      /** The display names of the models that the route serves, at most three. */
      models: z.array(z.string()),
      /** Null if the gateway hasn't reported the route. */
      endpoint: z.string().nullable(),
      state: routeState,
      since: z.string().nullable(),
      failedAt: z.string().nullable(),
      answeredAt: z.string().nullable(),
    }),
  ),
  /** How many routes there are. */
  count: z.number(),
});
/** The states of the routes of enabled models, those in trouble first. */
export type RouteStates = z.infer<typeof routeStates>;
export type RouteState = RouteStates["routes"][number];

export const providersPage = z.object({
  models: routedModelsSchema,
  states: routeStates,
  limits: z.array(providerLimitSchema),
  usage: usageSchema,
});

/**
 * Returns a page of the enabled models with their routes, the states of all routes, the providers' limits, and each
 * provider's usage in a range of whole UTC days, highest cost first.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function readProviders(
  context: AppLoadContext,
  { cursor, range }: { cursor: string | null; range: { from: string; to: string } },
) {
  const { first: first_day, last: last_day } = rangeDays(range);
  const args = { after: parseModelCursor(cursor, context), page_size: modelsPerPage + 1, first_day, last_day };
  const found = await callFunction(context, { name: "private.read_providers_state", args, schema: providersPage });
  const cursorOf = ({ sortsAs }: RoutedModel) => writeKeyCursor(sortsAs);
  const { records, nextCursor } = buildPage(found.models, { limit: modelsPerPage, cursorOf });
  return { ...found, models: records, nextCursor };
}
