import { z } from "zod";
import { regions } from "../_shared/regions.ts";
import { completionSchema } from "./chat/surface.ts";
import { embeddingList } from "./embeddings/surface.ts";
import { messageAnswer, tokenCount } from "./messages/surface.ts";
import { responseSchema } from "./responses/surface.ts";

/**
 * Schemas of the gateway's answers, for its OpenAPI document and for checking answers. Some parts are JSON text from
 * the database, which keeps the digits of amounts. Fields that only the provider defines pass through unchanged.
 */

const count = z.number().int().min(0);
const amount = z.number();
const moment = z.iso.datetime({ offset: true });

/** The `platform` member of native responses. */
const platform = z.object({
  run_id: z.uuid(),
  trace_id: z.string().regex(/^[0-9a-f]{32}$/),
  steps: z.array(
    z.object({
      step: z.number().int().min(1),
      type: z.enum(["model", "tool", "retry"]),
      name: z.string(),
      status: z.enum(["succeeded", "failed", "aborted"]),
      latency_ms: count,
    }),
  ),
  billed_credits: amount,
  provider_cost_usd: amount.optional(),
  usage: z.object({
    input_tokens: count,
    cached_input_tokens: count,
    cache_write_tokens: count.optional(),
    cache_write_1h_tokens: count.optional(),
    audio_input_tokens: count.optional(),
    image_input_tokens: count.optional(),
    output_tokens: count,
    reasoning_tokens: count,
    audio_output_tokens: count.optional(),
    fee_requests: count.optional(),
  }),
  /** What is left of the envelope that holds the call. Amounts are left out if the workspace hides costs. */
  envelope: z.object({ id: z.uuid(), remaining_usd: amount.optional(), remaining_calls: count.optional() }).optional(),
  usage_source: z.enum(["provider", "provider_partial", "estimated_partial", "unavailable"]),
  schema_valid: z.boolean().optional(),
  /** Members and tools of the request that were left out, by name. */
  ignored: z.array(z.string()).optional(),
  latency_ms: count,
});

/** The answer of `GET /v1/envelopes/{id}`. */
export const envelopeSchema = z.object({
  id: z.uuid(),
  /** The label or session whose calls it holds. Empty if it holds calls without one. */
  label: z.string(),
  /** `ended`: by its owner. */
  state: z.enum(["open", "ended", "expired"]),
  /** Amounts are left out if the workspace hides costs. */
  limit_usd: amount.optional(),
  spent_usd: amount.optional(),
  /** The maximum cost of calls in progress. */
  reserved_usd: amount.optional(),
  remaining_usd: amount.optional(),
  max_calls: count.optional(),
  calls: count,
  remaining_calls: count.optional(),
  ends_at: moment,
});

export const chatAnswer = completionSchema.extend({ platform });
export const responsesAnswer = responseSchema.extend({ platform });
export const messagesAnswer = messageAnswer.extend({ platform });
export const tokensAnswer = tokenCount.extend({ platform });
export const embeddingsAnswer = embeddingList.extend({ platform });

const price = z.number().optional();
/**
 * The prices at a route. If the input reaches the `min_input_tokens` of several entries, the entry with the largest
 * `min_input_tokens` applies.
 */
const prices = z.array(
  z.object({
    /** The service tier that these prices apply to; absent for the default tier. */
    service_tier: z.string().optional(),
    min_input_tokens: count,
    input_usd_per_million: price,
    cached_input_usd_per_million: price,
    cache_write_usd_per_million: price,
    cache_write_1h_usd_per_million: price,
    output_usd_per_million: price,
    audio_input_usd_per_million: price,
    audio_output_usd_per_million: price,
    image_input_usd_per_million: price,
    /** The price of one request that the provider bills in addition to tokens, such as a web search. */
    request_fee_usd: price,
  }),
);
const pricePerToken = z.string().optional();
/** What providers charge for a token at the first route, as in `platform.prices`: OpenRouter's names and exact decimals. */
const pricing = {
  prompt: z.string(),
  completion: z.string(),
  input_cache_read: pricePerToken,
  input_cache_write: pricePerToken,
  input_cache_write_1h: pricePerToken,
  audio: pricePerToken,
  audio_output: pricePerToken,
  image_token: pricePerToken,
};
/** A model in OpenAI's list format, with the fields that OpenRouter's clients read, and with its properties and prices. */
export const modelSchema = z.object({
  id: z.string(),
  object: z.literal("model"),
  created: z.number().int(),
  owned_by: z.string(),
  canonical_slug: z.string(),
  name: z.string(),
  context_length: count.nullable(),
  architecture: z.object({
    /** `text`, and the other media that have a price. Absent if the workspace hides what providers charge. */
    input_modalities: z.array(z.enum(["text", "audio", "image"])).optional(),
    output_modalities: z.array(z.enum(["text", "embeddings", "speech"])),
  }),
  top_provider: z.object({
    context_length: count.nullable(),
    /** The model's output limit, and no more than chat completions accept. */
    max_completion_tokens: count.nullable(),
  }),
  /** The parameters that the gateway passes on. A provider may refuse one. Absent without chat completions. */
  supported_parameters: z.array(z.string()).optional(),
  /** USD for a token. Absent if the workspace hides what providers charge. */
  pricing: z
    .object({
      ...pricing,
      /** USD for one request that the provider bills in addition to tokens, such as a web search. */
      web_search: z.string().optional(),
      /** The prices of larger inputs. */
      overrides: z.array(z.object({ ...pricing, min_prompt_tokens: count })).optional(),
    })
    .optional(),
  platform: z.object({
    name: z.string(),
    kind: z.enum(["chat", "embedding", "speech"]),
    /** The paths that serve the model. */
    endpoints: z.array(z.string()),
    context_window: count.nullable(),
    output_limit: count.nullable(),
    /** The output limit of calls that state none. Null if the platform's defaults apply. */
    default_output_limit: count.nullable(),
    /** Where the model's providers process calls; `unknown` for a provider without a region. */
    regions: z.array(z.enum([...regions, "unknown"])),
    /** Prices of the first route. Empty if the workspace hides what providers charge. */
    prices,
    /**
     * The model's routes, in the order in which they are called. Absent if the workspace hides what providers charge.
     */
    routes: z
      .array(
        z.object({
          provider: z.string(),
          /** The provider's name for the model. */
          model: z.string(),
          prices,
          /** Multiples of the default prices, by service tier. */
          tier_multipliers: z.record(z.string(), z.number()).optional(),
        }),
      )
      .optional(),
    /**
     * The credits that one USD of provider cost takes from the balance, with the plan's markup. Null if calls take none;
     * absent if the workspace hides what providers charge.
     */
    credits_per_usd: amount.nullable().optional(),
    voices: z.array(z.string()).optional(),
    /** True if this model is the default for calls of its kind that name no model; otherwise absent. */
    default: z.literal(true).optional(),
  }),
});
export const modelList = z.object({ object: z.literal("list"), data: z.array(modelSchema) });

/** A model as Anthropic lists it. */
export const anthropicModel = z.object({
  type: z.literal("model"),
  id: z.string(),
  display_name: z.string(),
  created_at: moment,
});
/** A list of models as Anthropic returns it, with all models on one page. */
export const anthropicModelList = z.object({
  data: z.array(anthropicModel),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.literal(false),
});

const rateLimit = z.object({
  requestsPerMinute: count.nullable(),
  remainingRequests: count.nullable(),
  tokensPerMinute: count.nullable(),
  remainingTokens: count.nullable(),
  resetSeconds: count,
});

/** A credential with its limits, this month's spending and what is left. Hidden values are null. */
export const credentialSchema = z.object({
  source: z.enum(["key", "app_token", "session"]),
  workspaceId: z.uuid(),
  userId: z.uuid().nullable(),
  key: z
    .object({
      id: z.uuid(),
      name: z.string(),
      prefix: z.string(),
      environment: z.string(),
      createdAt: moment,
      replaced: z.boolean(),
      allowedModels: z.array(z.string()).nullable(),
      allowedAddresses: z.array(z.string()).nullable(),
      strict: z.boolean(),
      /** The entity label of all the key's runs; null if each call sets its own. */
      entityId: z.string().nullable(),
    })
    .nullable(),
  app: z.object({ id: z.uuid(), name: z.string(), displayName: z.string() }).nullable(),
  scopes: z.array(z.string()).nullable(),
  expiresAt: moment.nullable(),
  exempt: z.boolean(),
  limits: z.array(rateLimit.extend({ scope: z.enum(["key", "workspace"]) })),
  /** The policy's limits of single models. */
  modelLimits: z.array(rateLimit.extend({ model: z.string() })),
  concurrentCalls: z.array(z.object({ scope: z.enum(["key", "member", "workspace"]), limit: count, remaining: count })),
  budgets: z.array(
    z.object({
      scope: z.enum(["key", "app", "member", "label", "workspace"]),
      window: z.enum(["day", "week", "month", "total"]),
      timeZone: z.string(),
      limitUsd: amount,
      spentUsd: amount.nullable(),
      reservedUsd: amount.nullable(),
      remainingUsd: amount.nullable(),
      /** Null if the budget never resets. */
      resetsAt: moment.nullable(),
    }),
  ),
  /** The envelope of calls that have no label of their own; null without one. */
  envelope: envelopeSchema.nullable(),
  spent: z.object({
    since: moment,
    requests: count,
    costUsd: amount.nullable(),
    billedCredits: amount,
    unmeteredCredits: amount,
  }),
  credits: z.object({ payer: z.enum(["workspace", "member"]), remaining: amount }).nullable(),
});

const windowFields = { from: moment, to: moment };
export const usageReport = z.object({
  currency: z.literal("USD"),
  source: z.literal("platform_ai_metering"),
  workspaceId: z.uuid(),
  appId: z.uuid(),
  ...windowFields,
  /** The adjacent earlier window; null if that window and all earlier ones are empty. */
  previous: z.object(windowFields).nullable(),
  rows: z.array(
    z.object({
      day: z.iso.date(),
      model: z.string(),
      feature: z.string(),
      executionMode: z.enum(["interactive", "background"]),
      amountUsd: amount,
      requests: count,
      failed: count,
      inputTokens: count,
      outputTokens: count,
      billedCredits: amount,
      unmeteredCredits: amount,
      /**
       * Calls that were refused before a run began, on the whole day. They are not in `requests`, which may be 0. Their
       * model is `unknown` if the catalogue has no such model.
       */
      refused: count,
    }),
  ),
});
