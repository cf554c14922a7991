import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { utcTime } from "#shared/utc-time.ts";
import { pageOf, positionOf, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { actInConsole, type ConsoleChange, confirmedChangeSchema } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const priceSchema = z.object({
  id: z.number(),
  providerId: z.string(),
  serviceTier: z.string(),
  minInputTokens: z.number(),
  from: z.string().nullable(),
  until: z.string().nullable(),
  current: z.boolean(),
  /** USD for a million tokens, as decimal text. */
  inputUsd: z.string(),
  cachedInputUsd: z.string().nullable(),
  cacheWriteUsd: z.string().nullable(),
  cacheWrite1hUsd: z.string().nullable(),
  outputUsd: z.string(),
  audioInputUsd: z.string().nullable(),
  audioOutputUsd: z.string().nullable(),
  imageInputUsd: z.string().nullable(),
  /** USD for a request. */
  requestFeeUsd: z.string().nullable(),
});
export type ModelPrice = z.infer<typeof priceSchema>;

const modelsSchema = z.array(
  z.object({
    id: z.string(),
    kind: z.enum(["chat", "embedding", "speech"]),
    displayName: z.string(),
    ownedBy: z.string(),
    enabled: z.boolean(),
    sortsAs: z.array(z.string()),
    hasRoute: z.boolean(),
    hasPrice: z.boolean(),
    /** In the order in which they are asked. */
    providers: z.array(z.string()),
    prices: z.array(priceSchema),
  }),
);
/** A model of the catalogue, with every price that it ever had. */
export type CatalogueModel = z.infer<typeof modelsSchema>[number];

/** What the database takes of an amount: twelve digits and six decimals. */
const amount = z
  .string({ error: "Enter an amount in USD" })
  .trim()
  .regex(/^\d{1,12}(\.\d{1,6})?$/, "Enter an amount in USD with at most 6 decimals, such as 2.50");
const optionalAmount = z
  .literal("")
  .transform(() => null)
  .or(amount);

/** The form that opens or shuts a model. */
export const switchSchema = confirmedChangeSchema.extend({ of: z.literal("switch").default("switch") });

/** The form of a price. A moment is given to the minute, in UTC; without one the price holds at once. */
export const priceChangeSchema = confirmedChangeSchema.extend({
  of: z.literal("price").default("price"),
  latest: z
    .string()
    .regex(/^\d{0,18}$/)
    .transform((text) => text || null),
  from: z
    .literal("")
    .transform(() => null)
    .or(
      z
        .string()
        .transform((text) => `${text}:00Z`)
        .refine((text) => utcTime.safeParse(text).success, "Enter a day and a time, or nothing"),
    ),
  inputUsd: amount,
  serviceTier: z
    .string()
    .trim()
    .regex(/^([a-z][a-z0-9_-]{0,31})?$/, "Enter the tier as the provider names it, such as priority")
    .transform((text) => text || "default"),
  cachedInputUsd: optionalAmount,
  cacheWriteUsd: optionalAmount,
  cacheWrite1hUsd: optionalAmount,
  outputUsd: amount,
  audioInputUsd: optionalAmount,
  audioOutputUsd: optionalAmount,
  imageInputUsd: optionalAmount,
  requestFeeUsd: optionalAmount,
});

const modelsShown = 50;

/** Where a page of models begins, which are sorted by three texts. */
export function modelPosition(cursor: string | null, { requestId }: { requestId: string }): string[] | null {
  return positionOf(cursor, { read: (text) => readKeyCursor(text, { length: 3 }), requestId });
}

/**
 * A page of the models whose id or name contains a term.
 * @throws Response 400 INVALID_REQUEST for a cursor that is none of ours, 503 UNAVAILABLE where it could not be asked
 */
export async function listModels(
  context: AppLoadContext,
  { term, cursor }: { term: string; cursor: string | null },
): Promise<{ models: CatalogueModel[]; nextCursor: string | null }> {
  const args = { term, after: modelPosition(cursor, context), page_size: modelsShown + 1 };
  const found = await callFunction(context, { name: "private.list_catalogue_models", args, schema: modelsSchema });
  const cursorOf = ({ sortsAs }: CatalogueModel) => writeKeyCursor(sortsAs);
  const { records, nextCursor } = pageOf(found, { limit: modelsShown, cursorOf });
  return { models: records, nextCursor };
}

/** @throws Response 404 where there is no such model */
export async function requireModel(context: AppLoadContext, id: string | null): Promise<CatalogueModel> {
  const args = { only_id: id ?? "" };
  const [model] = await callFunction(context, { name: "private.list_catalogue_models", args, schema: modelsSchema });
  if (model) return model;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "There is no such model." });
}

/** Opens a model, or shuts it for everybody. */
export function setModelEnabled(
  context: AppLoadContext,
  { admin, ...change }: { admin: InfrastructureAdmin; model: string; enabled: boolean; reason: string },
): Promise<ConsoleChange> {
  return actInConsole(context, { admin, name: "set_model_enabled", change, refusals });
}

/** Adds a price from a time on. None is ever edited. */
export function addPrice(
  context: AppLoadContext,
  {
    admin,
    ...change
  }: Omit<z.output<typeof priceChangeSchema>, "confirmation" | "of"> & {
    admin: InfrastructureAdmin;
    model: string;
    providerId: string;
    minInputTokens: number;
  },
): Promise<ConsoleChange> {
  return actInConsole(context, { admin, name: "add_model_price", change, refusals });
}

const refusals = {
  not_found: { status: 404, message: "There is no such model." },
  no_route: { status: 400, message: "The model is not reached through this provider." },
  past: { status: 400, message: "A price begins now or later: what runs were charged at stays." },
  taken: { status: 409, message: "Another price begins at that very time. Choose another time." },
} as const;
