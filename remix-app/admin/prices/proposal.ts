import { z } from "zod";
import { limitsSchema, type ProposedLimits, proposeLimits } from "./limits.ts";
import {
  type Offer,
  type PriceClass,
  type PriceSource,
  priceClasses,
  priceLabels,
  type SourceLimits,
  type SourceModel,
  type SourceName,
  type SourceTier,
  serviceTierName,
} from "./price-source.ts";
import { findSourceNames, isTierThresholdInclusive } from "./source-names.ts";

/** An amount that fits a price column, with at most twelve digits and six decimals. */
const amountUsdSchema = z.string().regex(/^\d{1,12}(\.\d{1,6})?$/);
const amounts = z.object(
  Object.fromEntries(priceClasses.map((name) => [name, amountUsdSchema.nullable()])) as Record<
    PriceClass,
    z.ZodNullable<typeof amountUsdSchema>
  >,
);
const offers = z.partialRecord(
  z.enum(priceClasses),
  z.object({ usd: amountUsdSchema.nullable(), note: z.string().optional() }),
);
const tokenCountSchema = z.number().int().min(0).max(2_147_483_647);
const latest = z.union([z.number(), z.string()]).transform(String).nullable();

/** The answer of `private.list_route_prices`: each route with its current prices. */
export const routePricesSchema = z.array(
  z.object({
    model: z.string(),
    displayName: z.string(),
    /** The limits in the catalogue; null for a model that isn't for chats. */
    limits: limitsSchema.nullable(),
    providerId: z.string(),
    providerModel: z.string(),
    prices: z.array(
      amounts.extend({
        serviceTier: z.string(),
        minInputTokens: tokenCountSchema,
        latest,
        /** False for a scheduled price, and for the last price once it has ended. */
        current: z.boolean(),
        from: z.string().nullable(),
        until: z.string().nullable(),
      }),
    ),
  }),
);
export type RoutePrices = z.output<typeof routePricesSchema>[number];

/** A price row of a route: its current price and each source's price, in the order of the sources. */
export const proposedPriceSchema = z.object({
  model: z.string(),
  displayName: z.string(),
  providerId: z.string(),
  serviceTier: z.string().regex(serviceTierName),
  minInputTokens: tokenCountSchema,
  /** Identifies the row's newest price when the page was shown; null if there was none. */
  latest,
  /** The price now; null if there is none. */
  current: amounts.nullable(),
  /** Whether a later price of this row is already scheduled. If so, no price can be chosen. */
  scheduled: z.boolean(),
  offered: z.array(offers).max(2),
});
export type ProposedPrice = z.output<typeof proposedPriceSchema>;

export type Comparison = "same" | "different" | "new" | "sources disagree" | "no usable price";

export type Proposal = {
  sources: SourceName[];
  /** Price rows where a source differs from what we charge. */
  differences: ProposedPrice[];
  /** Price rows that agree with every source. */
  same: ProposedPrice[];
  /** Routes without an entry in any source, with the name that was looked up. */
  missing: { model: string; providerId: string; providerModel: string; name: string }[];
  /** Routes for which a source lists charges that our prices can't express. */
  unpriced: { model: string; providerId: string; source: SourceName; fields: string[] }[];
  /** Models whose limits the catalogue does not have, but a source states. */
  limits: ProposedLimits[];
};

/**
 * Compares the prices of all routes with price files. A model matches only if the provider and the provider's exact
 * name for the model match.
 * @param names maps a provider's id to its name in the sources; a provider without an entry is looked up by its id
 */
export function proposePrices(
  routes: readonly RoutePrices[],
  { sources, names }: { sources: readonly PriceSource[]; names: ReadonlyMap<string, string> },
): Proposal {
  const proposal: Proposal = {
    sources: sources.map(({ name }) => name),
    differences: [],
    same: [],
    missing: [],
    unpriced: [],
    limits: [],
  };
  const stated = new Map<string, SourceLimits[]>();
  const indexes = sources.map(({ name, models }) => ({ name, byModel: Map.groupBy(models, ({ model }) => model) }));
  // Routes of the same model and provider share their prices, even if their provider models differ.
  const groups = Map.groupBy(routes, ({ model, providerId }) => JSON.stringify([model, providerId]));
  for (const [first, ...others] of groups.values()) {
    if (!first) continue;
    const { model, displayName, providerId, providerModel, prices } = first;
    const name = names.get(providerId) ?? providerId;
    const providerModels = [...new Set([first, ...others].map((route) => route.providerModel))];
    const found = indexes.map(({ name: source, byModel }) =>
      providerModels.flatMap((each) =>
        (byModel.get(each) ?? []).filter(({ provider }) => findSourceNames(name)[source].includes(provider)),
      ),
    );
    if (found.every((entries) => entries.length === 0)) {
      proposal.missing.push({ model, providerId, providerModel, name });
      continue;
    }
    for (const [index, entries] of found.entries()) {
      const fields = [...new Set(entries.flatMap(({ unpriced }) => unpriced))];
      const source = sources[index]?.name;
      if (fields.length > 0 && source) proposal.unpriced.push({ model, providerId, source, fields });
    }
    stated.set(model, [...(stated.get(model) ?? []), ...found.flat().flatMap(({ limits }) => limits ?? [])]);
    for (const tier of tiersOf(found)) {
      const currentPrice = findCurrentPrice(prices, tier);
      const firstToken =
        currentPrice?.minInputTokens ??
        (tier.aboveTokens === 0 || isTierThresholdInclusive(name) ? tier.aboveTokens : tier.aboveTokens + 1);
      const price: ProposedPrice = {
        model,
        displayName,
        providerId,
        serviceTier: tier.serviceTier,
        minInputTokens: firstToken,
        latest: prices.find(({ minInputTokens }) => minInputTokens === firstToken)?.latest ?? null,
        current: currentPrice?.current ? amounts.parse(currentPrice) : null,
        scheduled: currentPrice !== undefined && isScheduled(currentPrice),
        offered: found.map((entries) => mergeOffers(entries, tier)),
      };
      const differs = priceClasses.some((name) => isDifference(compareWithSources(price, name)));
      (differs ? proposal.differences : proposal.same).push(price);
    }
  }
  proposal.limits = proposeLimits(routes, stated);
  return proposal;
}

type Tier = Pick<SourceTier, "serviceTier" | "aboveTokens">;

function tiersOf(found: readonly (readonly SourceModel[])[]): Tier[] {
  const tiers = found.flat().flatMap((entry) => entry.tiers);
  const unique = new Map(tiers.map((tier) => [`${tier.serviceTier} ${tier.aboveTokens}`, tier]));
  const sortKey = ({ serviceTier }: Tier) => (serviceTier === "default" ? "" : serviceTier);
  return [...unique.values()].toSorted((one, other) =>
    sortKey(one) < sortKey(other) ? -1 : sortKey(one) > sortKey(other) ? 1 : one.aboveTokens - other.aboveTokens,
  );
}

function isScheduled({ current, from, until }: RoutePrices["prices"][number]): boolean {
  return current ? until !== null : from !== null && Date.parse(from) > Date.now();
}

/**
 * Finds our price that corresponds to a source's tier. Our price begins at the tier's threshold or at the next token.
 */
function findCurrentPrice(prices: RoutePrices["prices"], { serviceTier, aboveTokens }: Tier) {
  const sizes = aboveTokens === 0 ? [0] : [aboveTokens + 1, aboveTokens];
  return sizes
    .map((minInputTokens) =>
      prices.find((price) => price.serviceTier === serviceTier && price.minInputTokens === minInputTokens),
    )
    .find((price) => price !== undefined);
}

/** Merges the entries of one source for the same model. If their prices differ, no price is used. */
function mergeOffers(
  entries: readonly SourceModel[],
  { serviceTier, aboveTokens }: Tier,
): ProposedPrice["offered"][number] {
  const stated = entries.flatMap(({ provider, model, tiers }) =>
    tiers
      .filter((tier) => tier.serviceTier === serviceTier && tier.aboveTokens === aboveTokens)
      .map((tier) => ({ entry: `${provider}/${model}`, offers: tier.offers })),
  );
  const merged: Partial<Record<PriceClass, Offer>> = {};
  for (const name of priceClasses) {
    const each = stated.flatMap(({ entry, offers: { [name]: offer } }) => (offer ? [{ entry, offer }] : []));
    const [first] = each;
    if (!first) continue;
    const isUnanimous = each.every(({ offer }) => offer.usd === first.offer.usd);
    const list = each.map(({ entry, offer }) => `${entry} ${offer.usd ?? "no price"}`).join(", ");
    merged[name] = isUnanimous ? first.offer : { usd: null, note: `Stated twice (${list}), so it can’t be applied` };
  }
  return merged;
}

/** Maps a class without a price to the class whose price applies instead, as in settlement (`usageCostUsd`). */
const fallbacks: Partial<Record<PriceClass, PriceClass>> = {
  cachedInputUsd: "inputUsd",
  cacheWriteUsd: "inputUsd",
  cacheWrite1hUsd: "cacheWriteUsd",
  audioOutputUsd: "outputUsd",
  imageInputUsd: "inputUsd",
};

/** Returns what a class costs now, as decimal text; null if it has no price. */
export function currentUsd(current: ProposedPrice["current"], name: PriceClass): string | null {
  if (!current) return null;
  const fallback = fallbacks[name];
  const own = current[name] ?? (fallback ? currentUsd(current, fallback) : null);
  return own === null && name === "requestFeeUsd" ? "0" : own;
}

/** Describes what applies now if a class has no price of its own; null if it has one. */
export function fallbackText(current: ProposedPrice["current"], name: PriceClass): string | null {
  if (!current || current[name] !== null) return null;
  const fallback = fallbacks[name];
  return fallback ? `${priceLabels[fallback].toLowerCase()} price applies` : "not set";
}

/** Compares what a class costs now with the sources' prices; null if no source has a price. */
export function compareWithSources(
  { current, offered }: Pick<ProposedPrice, "current" | "offered">,
  name: PriceClass,
): Comparison | null {
  const stated = offered.flatMap((each) => each[name] ?? []);
  if (stated.length === 0) return null;
  const statedAmounts = new Set(stated.flatMap(({ usd }) => (usd === null ? [] : [stripTrailingZeros(usd)])));
  if (statedAmounts.size === 0) return "no usable price";
  if (statedAmounts.size > 1) return "sources disagree";
  const now = currentUsd(current, name);
  if (now === null) return "new";
  return statedAmounts.has(stripTrailingZeros(now)) ? "same" : "different";
}

function isDifference(comparison: Comparison | null): boolean {
  return comparison === "different" || comparison === "new" || comparison === "sources disagree";
}

/** Strips trailing zeros: the database writes six decimals. */
export function stripTrailingZeros(usd: string): string {
  return usd.includes(".") ? usd.replace(/\.?0+$/, "") : usd;
}
