import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { pageOf, writeKeyCursor } from "../http/list-page.ts";
import { runAttempt } from "../studio/runs/run-schema.ts";
import { callFunction } from "../supabase/data-api.ts";
import { modelPosition } from "./models.ts";

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
const models = z.array(
  z.object({ model: z.string(), displayName: z.string(), sortsAs: z.array(z.string()), routes: z.array(route) }),
);

/** An enabled model with its routes in order. */
export type RoutedModel = z.infer<typeof models>[number];
export type ModelRoute = z.infer<typeof route>;

const modelsPerPage = 40;

/**
 * Returns a page of the enabled models with their routes.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listProviderRoutes(
  context: AppLoadContext,
  cursor: string | null,
): Promise<{ models: RoutedModel[]; nextCursor: string | null }> {
  const args = { after: modelPosition(cursor, context), page_size: modelsPerPage + 1 };
  const found = await callFunction(context, { name: "private.list_provider_routes", args, schema: models });
  const cursorOf = ({ sortsAs }: RoutedModel) => writeKeyCursor(sortsAs);
  const { records, nextCursor } = pageOf(found, { limit: modelsPerPage, cursorOf });
  return { models: records, nextCursor };
}

const failing = z.array(z.object({ displayName: z.string(), failed: z.number() }));

/** Returns the enabled models with the most failed requests in the last hour. @throws Response 503 UNAVAILABLE */
export function listFailingModels(context: AppLoadContext): Promise<z.infer<typeof failing>> {
  return callFunction(context, { name: "private.list_failing_models", schema: failing });
}
