import { z } from "zod";
import { attemptFailures } from "#shared/attempt.ts";
import { labelPattern } from "#shared/labels.ts";
import { exactUtcText, offsetTime } from "#shared/utc-time.ts";
import { pageQuery } from "../../http/list-page.ts";
import { amountText as amount } from "../../ui/format-amount.ts";
import { budgetPeriod, budgetScope } from "../budgets/budget-schema.ts";
import { pricingFacts, runPricing } from "./pricing-schema.ts";

const count = z.number().int();

/** A run as shown to its workspace's members. */
export const runFacts = z.object({
  id: z.uuid(),
  requestId: z.string(),
  createdAt: exactUtcText,
  settledAt: exactUtcText.nullable(),
  model: z.string(),
  feature: z.string(),
  entityId: z.string().nullable(),
  credentialSource: z.enum(["key", "app_token", "session"]),
  executionMode: z.enum(["interactive", "background"]),
  keyId: z.uuid().nullable(),
  keyName: z.string().nullable(),
  appId: z.uuid().nullable(),
  appName: z.string().nullable(),
  /** The member who made the request. For a request with a key, the member who created the key. */
  memberId: z.uuid().nullable(),
  memberName: z.string().nullable(),
  /** The member who made the request. Null for requests with a key. */
  userId: z.uuid().nullable(),
  /** Null if the workspace hides provider costs. */
  provider: z.string().nullable(),
  streamed: z.boolean(),
  status: z.enum(["running", "succeeded", "failed", "cancelled"]),
  httpStatus: count.nullable(),
  errorCode: z.string().nullable(),
  usageSource: z.enum(["provider", "provider_partial", "estimated_partial", "unavailable"]).nullable(),
  inputTokens: count,
  cachedInputTokens: count,
  outputTokens: count,
  reasoningTokens: count,
  audioInputTokens: count,
  audioOutputTokens: count,
  cacheWriteTokens: count,
  imageInputTokens: count,
  /** Requests that the provider charges a fee for, such as web searches. */
  feeRequests: count,
  servedTier: z.string().nullable(),
  marks: z.array(
    z.enum([
      "above_context_window",
      "above_output_limit",
      "implausible",
      "unattributed_cache_writes",
      "unmeasured_document",
      "unpriced_tier",
    ]),
  ),
  billedCredits: amount,
  unmeteredCredits: amount,
  costUsd: amount.nullable(),
  firstByteMs: count.nullable(),
  latencyMs: count.nullable(),
});

/** A run with the facts that explain its price, as returned by `ai.run_summary`. */
export const runSummary = runFacts.extend({ priced: pricingFacts });

export type RunSummary = z.infer<typeof runSummary>;

/** A run as returned by the API. */
const apiRun = runFacts.extend({ pricing: runPricing });

/** One step of a run: its kind, result and duration, without content. */
export const runStep = z.object({
  step: count,
  type: z.enum(["model", "tool", "retry"]),
  name: z.string(),
  status: z.enum(["succeeded", "failed", "aborted"]),
  latencyMs: count,
});

/**
 * A request to a provider. `skipped` means that it was not sent, because the route was cooling down after
 * failures or its provider's limits had no room.
 */
export const runAttempt = z.object({
  /** The route's position among the model's routes. */
  route: count,
  provider: z.string(),
  /** The provider's name for the model. */
  model: z.string(),
  /** Where the provider processes calls. Null if its settings state no region. */
  region: z.string().nullable(),
  status: count.nullable(),
  failure: z.enum(attemptFailures).nullable(),
  upstreamRequestId: z.string().nullable(),
  /** Whether the provider may charge for the request although its answer was not used. */
  mayHaveCharged: z.boolean(),
  latencyMs: count,
});

export type RunAttempt = z.infer<typeof runAttempt>;

/**
 * The prices of the route that answered, in USD per million tokens, as of the run's start. They apply from
 * `minInputTokens` input tokens on.
 */
export const runUnitPrice = z.object({ minInputTokens: count, inputUsd: amount, outputUsd: amount });

export type RunUnitPrice = z.infer<typeof runUnitPrice>;

/** A run's change to the ledger: its usage, or an adjustment if its actual counts arrived after an estimate. */
export const runLedgerEntry = z.object({
  kind: z.enum(["usage", "adjustment"]),
  /** The charge. Negative if credits were returned. */
  credits: amount,
  createdAt: exactUtcText,
});

/** A budget that counts a run, with its current limit. */
export const runBudget = z.object({
  scope: z.enum([...budgetScope.options, "envelope"]),
  period: budgetPeriod,
  subjectId: z.uuid().nullable(),
  name: z.string().nullable(),
  /** Whether the subject still has the budget. */
  isSet: z.boolean(),
  /** Null if provider cost is hidden, and for concurrent calls. */
  limitUsd: amount.nullable(),
  maxCalls: count.nullable(),
});

export type RunBudget = z.infer<typeof runBudget>;

/** A page of runs, as returned by the API. */
export const runPage = z.object({ runs: z.array(apiRun), nextCursor: z.string().nullable() });
/** One run, as returned by the API. attempts and unitPrices are null if the workspace hides provider costs. */
export const runWithSteps = apiRun.extend({
  steps: z.array(runStep),
  attempts: z.array(runAttempt).nullable(),
  unitPrices: z.array(runUnitPrice).nullable(),
  ledger: z.array(runLedgerEntry),
  envelopeId: z.uuid().nullable().describe("The envelope that holds the run, if any."),
  budgets: z
    .array(runBudget.pick({ scope: true, period: true, subjectId: true, name: true }))
    .describe("The budgets that count the run."),
});

const day = z.iso.date().refine((text) => !text.startsWith("0000"));
const moment = z.union([offsetTime, day.transform((text) => `${text}T00:00:00Z`)]);
/** A name that the database can store. */
const name = z
  .string()
  .min(1)
  .max(128)
  .refine((text) => !text.includes("\0"));

/** The filters of runs in a query. Ranges are half-open. */
const runFilter = z.object({
  from: moment.optional(),
  to: moment.optional(),
  model: name.optional(),
  feature: name.optional(),
  status: z.enum(["running", "succeeded", "failed", "cancelled"]).optional(),
  keyId: z.uuid().optional(),
  appId: z.uuid().optional(),
  memberId: z.uuid().optional(),
  provider: name.optional(),
  entityId: z.string().regex(labelPattern).optional(),
  requestId: z.string().regex(labelPattern).optional(),
});

/** The orders of a list of runs: newest first, or largest first. */
export const runSort = z.enum(["time", "cost", "tokens", "latency"]);
export type RunSort = z.infer<typeof runSort>;

/** The maximum number of runs that a page scans for a filter without an index, and that it sorts by a value. */
export const maxScannedRuns = 10_000;

export const runQuery = runFilter.extend({ sort: runSort.default("time"), ...pageQuery.shape });

/** The filters of a page of runs, which can also list the refused calls. */
export const runPageFilter = runFilter.extend({
  status: z.enum([...runFilter.shape.status.unwrap().options, "refused"]).optional(),
});

export type RunFilter = z.infer<typeof runPageFilter>;
