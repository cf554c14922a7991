import { z } from "zod";

const isCaller = z.literal(true).optional();
const scopeName = z.string().nullish();

/** The limit that refused a call. Amounts are absent if the caller may not see them. */
const reachedLimit = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("budget"),
    scope: z.enum(["key", "app", "member", "label", "workspace"]),
    /** The name of the key, the app or the label. */
    name: scopeName,
    /** Whether the budget is that of the person who calls. */
    is_caller: isCaller,
    window: z.enum(["day", "week", "month", "total"]),
    /** The IANA time zone in which the window begins and ends. Absent in refusals of releases before 0.4.0. */
    time_zone: z.string().optional(),
    /** Absent for the window `total`, which never resets. */
    resets_at: z.string().optional(),
    limit_usd: z.number().optional(),
    spent_usd: z.number().optional(),
    reserved_usd: z.number().optional(),
    remaining_usd: z.number().optional(),
  }),
  z.object({
    kind: z.literal("balance"),
    payer: z.enum(["workspace", "member"]),
    is_caller: isCaller,
    balance_credits: z.number().optional(),
    reserved_credits: z.number().optional(),
    remaining_credits: z.number().optional(),
  }),
  z.object({
    kind: z.literal("rate"),
    scope: z.enum(["key", "workspace", "plan", "model"]),
    /** The name of the key, or the model's id. */
    name: scopeName,
    unit: z.enum(["requests", "tokens"]),
    window: z.literal("minute"),
    limit: z.number(),
    /** Absent if the call alone exceeds the limit. */
    used: z.number().optional(),
    remaining: z.number().optional(),
    resets_at: z.string().optional(),
    reset_seconds: z.number().optional(),
  }),
  z.object({
    kind: z.literal("concurrent"),
    scope: z.enum(["key", "member", "workspace"]),
    name: scopeName,
    is_caller: isCaller,
    limit: z.number(),
    used: z.number(),
    reset_seconds: z.number().optional(),
  }),
  z.object({
    kind: z.literal("envelope"),
    id: z.string(),
    label: z.string().nullish(),
    /** `ended`: by its owner. */
    state: z.enum(["open", "ended", "expired"]),
    limit_usd: z.number().optional(),
    spent_usd: z.number().optional(),
    reserved_usd: z.number().optional(),
    remaining_usd: z.number().optional(),
    max_calls: z.number().nullish(),
    calls: z.number().optional(),
    remaining_calls: z.number().nullish(),
    ends_at: z.string().optional(),
    workspace_id: z.string().optional(),
    /** The page on which its owner raises or ends it. */
    url: z.string().optional(),
  }),
  z.object({ kind: z.literal("model_output"), limit: z.number() }),
  z.object({ kind: z.literal("context_window"), limit: z.number() }),
  z.object({ kind: z.literal("provider"), reset_seconds: z.number().optional() }),
]);

/** What a caller whose credential is refused lacks. */
const missingRight = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("scope"), scopes: z.array(z.string()) }),
  z.object({ kind: z.literal("permission"), permission: z.string() }),
  z.object({ kind: z.literal("membership") }),
  z.object({ kind: z.literal("app_link") }),
  /** The address that the gateway saw, or null if it saw none. */
  z.object({ kind: z.literal("address"), address: z.string().nullish() }),
]);

/** The members of an error that explain a refusal, in addition to OpenAI's. */
export const refusalDetails = z.object({
  limit: reachedLimit.optional(),
  /**
   * What the call reserves: its maximum cost in dollars or credits, or the tokens that it counts. Of a budget that
   * reserves less, the cost with the usual output, and the tokens of that output.
   */
  need: z
    .object({ usd: z.number(), credits: z.number(), tokens: z.number(), input_tokens: z.number() })
    .partial()
    .optional(),
  /** The highest output limit with which the same call fits; null if none does. */
  fitting_output_limit: z.number().int().nullable().optional(),
  /** Whether a further step of a tool loop or of a stream was refused, after others had been answered. */
  is_step: z.literal(true).optional(),
  missing: missingRight.optional(),
  model: z.string().optional(),
  /** Models that the caller may use and whose ids resemble the requested one. */
  similar_models: z.array(z.string()).optional(),
  /**
   * For a header that names other amounts: those with which the envelope was opened. For too many envelopes: how many
   * are open.
   */
  envelope: z
    .object({
      id: z.string(),
      usd: z.union([z.string(), z.number()]),
      calls: z.number().nullable(),
      ttl_seconds: z.number().nullable(),
      open: z.number(),
    })
    .partial()
    .optional(),
  regions: z.array(z.string()).nullish(),
  allowed_regions: z.array(z.string()).nullish(),
  /** The message of a refused call without other members, as stored. */
  message: z.string().optional(),
});

export type RefusalDetails = z.infer<typeof refusalDetails>;
export type ReachedLimit = NonNullable<RefusalDetails["limit"]>;
/** A limit of one kind. */
export type LimitOf<Kind> = Extract<ReachedLimit, { kind: Kind }>;
