import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";

const priceSchema = z.object({
  id: z.number(),
  providerId: z.string(),
  serviceTier: z.string(),
  minInputTokens: z.number(),
  from: z.string().nullable(),
  until: z.string().nullable(),
  current: z.boolean(),
  /** USD per million tokens, as decimal text. */
  inputUsd: z.string(),
  cachedInputUsd: z.string().nullable(),
  cacheWriteUsd: z.string().nullable(),
  cacheWrite1hUsd: z.string().nullable(),
  outputUsd: z.string(),
  audioInputUsd: z.string().nullable(),
  audioOutputUsd: z.string().nullable(),
  imageInputUsd: z.string().nullable(),
  /** USD per request. */
  requestFeeUsd: z.string().nullable(),
});
export type ModelPrice = z.infer<typeof priceSchema>;

const kinds = ["chat", "embedding", "speech"] as const;
export const modelKind = z.enum(kinds);

/** Matches the ID of a new model. HTTP clients remove the parts `.` and `..` from the path that has the ID. */
export const modelIdPattern = /^(?!(?:.*\/)?\.{1,2}(?:\/|$))[A-Za-z0-9._:/-]{1,128}$/;

export const listedModelSchema = z.object({
  id: z.string(),
  kind: modelKind,
  displayName: z.string(),
  ownedBy: z.string(),
  enabled: z.boolean(),
  studioDefault: z.boolean(),
  sortsAs: z.array(z.string()),
  hasRoute: z.boolean(),
  hasPrice: z.boolean(),
  hasGrant: z.boolean(),
  /** In the order they are tried. */
  providers: z.array(z.string()),
  prices: z.array(priceSchema),
});
/** A model of the catalogue with all its prices, past, current and future. */
export type CatalogueModel = z.infer<typeof listedModelSchema>;

const routeSchema = z.object({
  position: z.number(),
  providerId: z.string(),
  providerModel: z.string(),
  enabled: z.boolean(),
  trustsStatedCost: z.boolean(),
  /** Multiples of the default prices, as decimal text, by service tier. */
  tierMultipliers: z.record(z.string(), z.string()),
  firstByteSeconds: z.number().nullable(),
  idleSeconds: z.number().nullable(),
  totalSeconds: z.number().nullable(),
});
export type ConsoleRoute = z.infer<typeof routeSchema>;

export const modelSchema = listedModelSchema.extend({
  /** A digest of the model's settings and routes. */
  version: z.string(),
  contextWindow: z.number().nullable(),
  outputLimit: z.number().nullable(),
  /** The output limit of calls that state none; null for the platform's defaults. */
  defaultOutputLimit: z.number().nullable(),
  voices: z.array(z.string()),
  isDefault: z.boolean(),
  defaultOfKind: z.string().nullable(),
  /** Whether the model was never enabled. */
  canDelete: z.boolean(),
  /** In the order they are tried. */
  routes: z.array(routeSchema),
  /** All plans with their number of workspaces, which {@link countText} formats. */
  plans: z.array(z.object({ id: z.string(), name: z.string(), granted: z.boolean(), workspaces: z.number() })),
  /** The first {@link maxListedGrants} workspaces that were granted the model separately from their plan. */
  workspaces: z.array(z.object({ id: z.uuid(), name: z.string() })),
});
/** A model with everything the console can edit. */
export type ConsoleModel = z.infer<typeof modelSchema>;

/** The number of workspaces that private.granted_workspaces returns. */
export const maxListedGrants = 100;

/** Returns why callers get 404 for an enabled model, or null. */
export function findServingFault({ hasRoute, hasPrice }: { hasRoute: boolean; hasPrice: boolean }): string | null {
  if (!hasRoute) return "No route";
  return hasPrice ? null : "No price";
}

/** Returns why callers cannot use an enabled model. */
export function listModelFaults(model: Omit<CatalogueModel, "prices">): string[] {
  const fault = findServingFault(model);
  return [
    ...(fault ? [fault] : []),
    ...(model.hasGrant ? [] : ["No grant"]),
    ...(model.studioDefault ? [] : ["Not offered to workspaces"]),
  ];
}

const modelsPerPage = 50;

/** Parses the cursor of a page of models: the three texts by which the last model was sorted. */
export function parseModelCursor(cursor: string | null, { requestId }: { requestId: string }): string[] | null {
  return parseCursor(cursor, { read: (text) => readKeyCursor(text, { length: 3 }), requestId });
}

/**
 * Returns a page of the models whose id or name contains a term.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listModels(
  context: AppLoadContext,
  { term, cursor }: { term: string; cursor: string | null },
): Promise<{ models: CatalogueModel[]; nextCursor: string | null }> {
  const args = { term, after: parseModelCursor(cursor, context), page_size: modelsPerPage + 1 };
  const found = await callFunction(context, {
    name: "private.list_catalogue_models",
    args,
    schema: z.array(listedModelSchema),
  });
  const cursorOf = ({ sortsAs }: CatalogueModel) => writeKeyCursor(sortsAs);
  const { records, nextCursor } = buildPage(found, { limit: modelsPerPage, cursorOf });
  return { models: records, nextCursor };
}

/** @throws Response 404 for an unknown model */
export async function requireModel(context: AppLoadContext, id: string | null): Promise<ConsoleModel> {
  const args = { model: id ?? "" };
  const model = await callFunction(context, { name: "private.read_model", args, schema: modelSchema.nullable() });
  if (model) return model;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This model doesn’t exist." });
}
