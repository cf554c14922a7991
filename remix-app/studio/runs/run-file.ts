import { z } from "zod";
import { toExactUtc } from "#shared/utc-time.ts";
import { type PricingFacts, pricingFacts } from "./pricing-schema.ts";
import { type RunSummary, runFacts } from "./run-schema.ts";

const textSchema = z.string();
const countSchema = z.number();
const timeSchema = textSchema.transform(toExactUtc);
const { credentialSource, executionMode, status, usageSource, marks } = runFacts.shape;

/** The values of a row, in the order of `ai.list_run_rows`. */
const summaryFields: Record<keyof typeof runFacts.shape, z.ZodType> = {
  id: textSchema,
  requestId: textSchema,
  createdAt: timeSchema,
  settledAt: timeSchema.nullable(),
  model: textSchema,
  feature: textSchema,
  entityId: textSchema.nullable(),
  credentialSource,
  executionMode,
  keyId: textSchema.nullable(),
  keyName: textSchema.nullable(),
  appId: textSchema.nullable(),
  appName: textSchema.nullable(),
  memberId: textSchema.nullable(),
  memberName: textSchema.nullable(),
  userId: textSchema.nullable(),
  provider: textSchema.nullable(),
  streamed: z.boolean(),
  status,
  httpStatus: countSchema.nullable(),
  errorCode: textSchema.nullable(),
  usageSource,
  inputTokens: countSchema,
  cachedInputTokens: countSchema,
  outputTokens: countSchema,
  reasoningTokens: countSchema,
  audioInputTokens: countSchema,
  audioOutputTokens: countSchema,
  cacheWriteTokens: countSchema,
  imageInputTokens: countSchema,
  feeRequests: countSchema,
  servedTier: textSchema.nullable(),
  marks,
  billedCredits: textSchema,
  unmeteredCredits: textSchema,
  costUsd: textSchema.nullable(),
  firstByteMs: countSchema.nullable(),
  latencyMs: countSchema.nullable(),
};

/** The values of a row after those of {@link summaryFields}, in their order. */
const pricingFactFields: Record<Exclude<keyof PricingFacts, "creditsPerUsd">, z.ZodType> = {
  cacheWrite1hTokens: countSchema,
  exempt: z.boolean(),
  swept: z.boolean(),
  idempotent: z.boolean(),
  askedProvider: z.boolean(),
  reservedCredits: textSchema.nullable(),
  markup: textSchema.nullable().transform((markup) => markup ?? undefined),
  route: countSchema.nullable(),
  routes: textSchema.nullable().transform(readRoutes),
  attempts: z.union([z.null().transform(() => []), pricingFacts.shape.attempts]),
};

const summaryNames = Object.keys(summaryFields);
const pricingFactNames = Object.keys(pricingFactFields);
const rowValues = z.tuple(Object.values({ ...summaryFields, ...pricingFactFields }) as [z.ZodType]);

/**
 * A run in a page of a file, as returned by `ai.list_run_rows`: an array, because names and checks of all values would
 * take longer than everything else. Ids, amounts and times are only written to the file, so any text is accepted.
 */
export const runRow = rowValues.transform((row: unknown[]): RunSummary => {
  const priced: Record<string, unknown> = {};
  const run: Record<string, unknown> = {};
  for (let index = 0; index < summaryNames.length; index += 1) run[summaryNames[index] ?? ""] = row[index];
  for (let index = 0; index < pricingFactNames.length; index += 1) {
    priced[pricingFactNames[index] ?? ""] = row[summaryNames.length + index];
  }
  run.priced = priced;
  return run as RunSummary;
});

type Routes = PricingFacts["routes"];

/** Routes by their JSON, because most runs of a workspace have the same few routes. */
const knownRoutes = new Map<string, Routes>();
const maxKnownRoutes = 1_000;

function readRoutes(json: string | null): Routes {
  if (json === null) return [];
  const cached = knownRoutes.get(json);
  if (cached) return cached;
  const routes = pricingFacts.shape.routes.parse(JSON.parse(json));
  if (knownRoutes.size >= maxKnownRoutes) knownRoutes.clear();
  knownRoutes.set(json, routes);
  return routes;
}
