import { z } from "zod";
import { JsonNumber } from "#shared/exact-json.ts";
import {
  createExactOffer,
  isRecord,
  isTierSize,
  type PriceClass,
  readLimits,
  type SourceLimits,
  type SourceModel,
  type SourceTier,
  serviceTierName,
} from "./price-source.ts";

// models.dev's api.json: providers with their models, and costs in USD per million tokens. Its README ("Schema
// Reference") and packages/core/src/schema.ts name the fields.

const priceClassFields: readonly (readonly [string, PriceClass])[] = [
  ["input", "inputUsd"],
  ["cache_read", "cachedInputUsd"],
  ["cache_write", "cacheWriteUsd"],
  ["output", "outputUsd"],
  ["input_audio", "audioInputUsd"],
  ["output_audio", "audioOutputUsd"],
];
const knownFields = new Set([
  ...priceClassFields.map(([name]) => name),
  "reasoning",
  "context_over_200k",
  "tiers",
  "tier",
]);

const amounts = z.record(z.string(), z.unknown());
const cost = z.looseObject({
  /**
   * Repeats the prices of the model's only tier, which begins at 200k tokens or more. `tiers` has the exact token
   * count.
   */
  context_over_200k: amounts.optional(),
  tiers: z
    .array(
      z.looseObject({
        tier: z.object({ type: z.literal("context").default("context"), size: z.instanceof(JsonNumber) }),
      }),
    )
    .optional(),
});
const mode = z.object({
  cost: amounts.optional(),
  provider: z.object({ body: z.looseObject({ service_tier: z.string().optional() }).optional() }).optional(),
});
const model = z.looseObject({
  cost: cost.optional(),
  experimental: z.object({ modes: z.record(z.string(), mode).optional() }).optional(),
});
/** Returns the providers of models.dev's api.json, or of its catalog.json. */
export function modelsDevProviders(file: Record<string, unknown>): Record<string, unknown> | undefined {
  return [file.providers, file].filter(isRecord).find((each) => Object.values(each).some(hasModels));
}

/** Reads the wanted models of models.dev's providers. */
export function readModelsDev(providers: Record<string, unknown>, modelNames: ReadonlySet<string>): SourceModel[] {
  return Object.entries(providers).flatMap(([id, value]) =>
    hasModels(value)
      ? Object.entries(value.models)
          .filter(([name]) => modelNames.has(name))
          .map(([name, entry]) => ({ provider: id, model: name, ...readModel(entry), limits: limitsOf(entry) }))
      : [],
  );
}

function hasModels(value: unknown): value is { models: Record<string, unknown> } {
  return isRecord(value) && isRecord(value.models);
}

/** Reads `limit: { context, output }`. */
function limitsOf(entry: unknown): SourceLimits {
  const limit = isRecord(entry) && isRecord(entry.limit) ? entry.limit : {};
  return readLimits({ contextWindow: limit.context, outputLimit: limit.output });
}

function readModel(entry: unknown): Pick<SourceModel, "tiers" | "unpriced"> {
  const { success, data } = model.safeParse(entry);
  if (!success) return { tiers: [], unpriced: ["cost in an unknown form"] };
  if (!data.cost) return { tiers: [], unpriced: [] };
  const { tiers = [], context_over_200k: over200k } = data.cost;
  const sizeOf = ({ tier }: (typeof tiers)[number]) => Number(tier.size.text);
  const sized = tiers.filter((each) => isTierSize(sizeOf(each)));
  const read = [
    readTier(data.cost, { serviceTier: "default", aboveTokens: 0 }),
    ...sized.map((each) => readTier(each, { serviceTier: "default", aboveTokens: sizeOf(each) })),
    ...(over200k && tiers.length === 0 ? [readTier(over200k, { serviceTier: "default", aboveTokens: 200_000 })] : []),
  ];
  const unpriced = sized.length < tiers.length ? ["tiers of unknown size"] : [];
  for (const [name, { cost: modeCost, provider: request }] of Object.entries(data.experimental?.modes ?? {})) {
    const serviceTier = request?.body?.service_tier;
    if (modeCost && serviceTier && serviceTierName.test(serviceTier))
      read.push(readTier(modeCost, { serviceTier, aboveTokens: 0 }));
    else if (modeCost) unpriced.push(`mode ${name}`);
  }
  return {
    tiers: read.map(({ tier }) => tier),
    unpriced: [...new Set([...read.flatMap((each) => each.unpriced), ...unpriced])],
  };
}

function readTier(
  from: Record<string, unknown>,
  { serviceTier, aboveTokens }: Pick<SourceTier, "serviceTier" | "aboveTokens">,
): { tier: SourceTier; unpriced: string[] } {
  const offers: SourceTier["offers"] = {};
  for (const [name, asClass] of priceClassFields) {
    const value = from[name];
    if (value instanceof JsonNumber) offers[asClass] = createExactOffer(value);
  }
  const { reasoning } = from;
  const hasOtherReasoningPrice =
    reasoning instanceof JsonNumber && createExactOffer(reasoning).usd !== offers.outputUsd?.usd;
  const others = Object.keys(from).filter((name) => !knownFields.has(name));
  return {
    tier: { serviceTier, aboveTokens, offers },
    unpriced: [...(hasOtherReasoningPrice ? ["reasoning"] : []), ...others],
  };
}
