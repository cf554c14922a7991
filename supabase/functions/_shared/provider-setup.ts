import { z } from "zod";
import { attemptFailures } from "./attempt.ts";

/**
 * The providers that the functions are configured for, without addresses and keys, and the kinds that they support.
 * The answer to `GET /v1/providers`.
 */
export const providerListing = z.object({
  /** Sorted by id. */
  providers: z.array(
    z.object({
      id: z.string(),
      kind: z.string(),
      endpoints: z.array(z.string()),
      region: z.string().nullable(),
      billingName: z.string().nullable(),
      /** The provider's account that pays for the key. */
      account: z.string().nullable(),
      hasKey: z.boolean(),
    }),
  ),
  kinds: z.array(
    z.object({
      name: z.string(),
      /** The settings that a provider of this kind needs, by the last parts of their names. */
      needs: z.array(z.string()),
      endpoints: z.array(z.string()),
    }),
  ),
});
export type ProviderListing = z.infer<typeof providerListing>;

/** The endpoints that a route can be tested at. */
export const testedEndpoints = ["chat", "responses", "messages", "embeddings", "speech"] as const;
export type TestedEndpoint = (typeof testedEndpoints)[number];

/** The longest test of a route, in milliseconds. */
export const routeTestMs = 30_000;

/** The body of `POST /v1/providers/test`. `model` is the provider's name of the model. Only speech needs a voice. */
export const routeTestRequest = z.strictObject({
  provider: z.string().min(1).max(64),
  model: z.string().min(1).max(200),
  endpoint: z.enum(testedEndpoints),
  voice: z.string().min(1).max(64).optional(),
});
export type RouteTestRequest = z.infer<typeof routeTestRequest>;

const count = z.number().optional();
const attemptFacts = { latencyMs: z.number(), upstreamRequestId: z.string().nullable() };

/** The answer to `POST /v1/providers/test`. Of the provider's texts, it contains only the request id and the service tier. */
export const routeTestAnswer = z.discriminatedUnion("ok", [
  z.object({
    ok: z.literal(true),
    ...attemptFacts,
    /** The token counts in the form of `TokenCounts`. */
    usage: z.object({
      input_tokens: count,
      cached_input_tokens: count,
      cache_write_tokens: count,
      cache_write_1h_tokens: count,
      audio_input_tokens: count,
      image_input_tokens: count,
      output_tokens: count,
      reasoning_tokens: count,
      audio_output_tokens: count,
      fee_requests: count,
    }),
    /** Whether the provider stated no usage, so that it was estimated. */
    estimated: z.boolean(),
    servedTier: z.string().nullable(),
  }),
  z.object({
    ok: z.literal(false),
    ...attemptFacts,
    /** `rate_limited` without a status means that the platform's own limits of the provider had no room. */
    failure: z.enum(attemptFailures),
    status: z.number().nullable(),
    retryAfterSeconds: z.number().nullable(),
  }),
]);
export type RouteTestAnswer = z.infer<typeof routeTestAnswer>;
