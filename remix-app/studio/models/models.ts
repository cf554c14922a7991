import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { formatDecimal, multiply, parseDecimal } from "#shared/decimal.ts";
import { JsonNumber, parseExactJson } from "#shared/exact-json.ts";
import { type PriceItem, priceItems } from "#shared/money.ts";
import { readModelListing } from "../playground/list-models.ts";

const count = z.number().nullable();
const exactNumber = z.instanceof(JsonNumber).transform(({ text }) => text);
const memberOf = (item: PriceItem) => (item === "request_fee" ? "request_fee_usd" : `${item}_usd_per_million`);

const tier = z
  .looseObject({ min_input_tokens: z.number(), service_tier: z.string().default("default") })
  .transform(({ min_input_tokens, service_tier, ...amounts }) => ({
    minInputTokens: min_input_tokens,
    serviceTier: service_tier,
    prices: priceItems.flatMap((item) => {
      const amount = exactNumber.safeParse(amounts[memberOf(item)]);
      return amount.success ? { item, usd: amount.data } : [];
    }),
  }));
const route = z
  .object({
    provider: z.string(),
    model: z.string(),
    prices: z.array(tier),
    tier_multipliers: z.record(z.string(), z.number()).default({}),
  })
  .transform(({ tier_multipliers: multipliers, prices: tiers, ...facts }) => ({ ...facts, tiers, multipliers }));
const model = z
  .object({
    id: z.string(),
    /** Absent from a gateway of an earlier release. */
    top_provider: z.object({ max_completion_tokens: count }).default({ max_completion_tokens: null }),
    platform: z.object({
      name: z.string(),
      kind: z.enum(["chat", "embedding", "speech"]),
      endpoints: z.array(z.string()),
      context_window: count,
      output_limit: count,
      /** Absent if the workspace hides what providers charge. */
      routes: z.array(route).default([]),
      credits_per_usd: exactNumber.nullable().default(null),
      default: z.boolean().default(false),
    }),
  })
  .transform(({ id, platform, top_provider: { max_completion_tokens: chatOutputLimit } }) => {
    const {
      context_window: contextWindow,
      output_limit: outputLimit,
      credits_per_usd: creditsPerUsd,
      ...facts
    } = platform;
    return { id, ...facts, contextWindow, outputLimit, chatOutputLimit, creditsPerUsd };
  });
const listing = z.object({ data: z.array(model) });

/** A model that a member can call in a workspace. Without routes if the workspace hides what providers charge. */
export type Model = z.output<typeof model>;
export type ModelRoute = Model["routes"][number];
export type PricedTier = ModelRoute["tiers"][number];

const modelFilter = z.object({
  kind: z.enum(["chat", "embedding", "speech"]).optional().catch(undefined),
  provider: z.string().optional(),
});

export interface ModelQuery {
  term: string;
  kind?: Model["kind"] | undefined;
  provider?: string | undefined;
}

/** The maximum number of models on a page, so that the page fits in 100 KB of HTML. */
const modelsShown = 15;

/**
 * Returns the models that a member can call in a workspace, with their prices, in the gateway's order. They are the
 * models of the gateway's `GET /v1/models`. Returns null if the gateway refused or did not answer.
 */
export async function readModels(
  context: AppLoadContext,
  call: { workspaceId: string; signal: AbortSignal },
): Promise<Model[] | null> {
  const text = await readModelListing(context, call);
  return text === null ? null : parseModels(text);
}

/** Parses the gateway's list of models. Prices keep all their digits. */
export function parseModels(text: string): Model[] {
  return listing.parse(parseExactJson(text, (name) => /_usd(_per_million)?$/.test(name))).data;
}

/** Reads the kind and the provider from a URL. Ignores unknown kinds. */
export function readModelFilter(url: URL): z.infer<typeof modelFilter> {
  return modelFilter.parse(Object.fromEntries([...url.searchParams].filter(([, value]) => value !== "")));
}

/** Returns one page of the models that match a query, and the number of all that match. */
export function findModels(models: readonly Model[], { term, kind, provider, page }: ModelQuery & { page: number }) {
  const sought = term.toLowerCase();
  const found = models.filter(
    (each) =>
      (kind === undefined || each.kind === kind) &&
      (provider === undefined || each.routes.some((route) => route.provider === provider)) &&
      [each.id, each.name].some((text) => text.toLowerCase().includes(sought)),
  );
  const end = (page + 1) * modelsShown;
  return {
    shown: found.slice(page * modelsShown, end),
    count: found.length,
    nextCursor: end < found.length ? String(page + 1) : null,
  };
}

/** Returns the ids of all providers of the models' routes, sorted. */
export function listProviders(models: readonly Model[]): string[] {
  return [...new Set(models.flatMap(({ routes }) => routes.map(({ provider }) => provider)))].sort();
}

/** Returns what a price in USD takes from the balance, in exact credits. */
export function creditsOf(usd: string, creditsPerUsd: string): string {
  return formatDecimal(multiply(parseDecimal(usd), parseDecimal(creditsPerUsd)));
}
