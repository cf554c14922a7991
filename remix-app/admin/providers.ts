import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { runAttempt } from "../studio/runs/run-schema.ts";
import { callFunction } from "../supabase/data-api.ts";

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
  /** Of the last seven days. */
  lastFailure: failure.nullable(),
});
const models = z.array(z.object({ model: z.string(), displayName: z.string(), routes: z.array(route) }));

/** An enabled model with its routes in order. */
export type RoutedModel = z.infer<typeof models>[number];
export type ModelRoute = z.infer<typeof route>;

/** @throws Response 503 UNAVAILABLE where it could not be asked */
export function listProviderRoutes(context: AppLoadContext): Promise<RoutedModel[]> {
  return callFunction(context, { name: "private.list_provider_routes", schema: models });
}

/** Returns why callers get 404 for an enabled model, or null. */
export function modelFault({ hasRoute, hasPrice }: { hasRoute: boolean; hasPrice: boolean }): string | null {
  if (!hasRoute) return "No route: callers get 404";
  return hasPrice ? null : "No price: callers get 404";
}
