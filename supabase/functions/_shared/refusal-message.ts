import { z } from "zod";
import { gatewayErrors } from "./gateway-errors.ts";

/** The fields that determine the size of a call: the input, and the client's output limit in its API's name. */
export type SizeFields = {
  input: string;
  output?: string;
  /** The lowest output limit that the request's other fields allow. */
  minOutput?: number;
};

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
    window: z.literal("month"),
    resets_at: z.string(),
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
    scope: z.enum(["key", "workspace", "plan"]),
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
  /** What the call reserves: its maximum cost in dollars or credits, or the tokens that it counts. */
  need: z
    .object({ usd: z.number(), credits: z.number(), tokens: z.number(), input_tokens: z.number() })
    .partial()
    .optional(),
  /** The highest output limit with which the same call fits; null if none does. */
  fitting_output_limit: z.number().int().nullable().optional(),
  /** Whether a further step of a tool loop was refused, after others had been answered. */
  is_step: z.literal(true).optional(),
  missing: missingRight.optional(),
  model: z.string().optional(),
  /** Models that the caller may use and whose ids resemble the requested one. */
  similar_models: z.array(z.string()).optional(),
  regions: z.array(z.string()).nullish(),
  allowed_regions: z.array(z.string()).nullish(),
  /** The message of a refused call without other members, as stored. */
  message: z.string().optional(),
});

type Details = z.infer<typeof refusalDetails>;
type Limit<Kind> = Extract<NonNullable<Details["limit"]>, { kind: Kind }>;
type Described = { details: Details; sizeFields?: SizeFields; isForCaller: boolean };

/**
 * Returns the sentences that explain a refused call: which limit it reached, what it needs, what is left, and what would
 * fit. States no amount that the details don't have.
 * @param refusal.details the error's own members, as sent or as stored
 * @param refusal.isForCaller whether the reader made the call; false addresses anyone else
 */
export function describeRefusal(refusal: {
  code: string;
  details?: unknown;
  sizeFields?: SizeFields;
  isForCaller?: boolean;
}): string {
  const { code, sizeFields, isForCaller = true } = refusal;
  const parsed = refusalDetails.safeParse(refusal.details ?? {});
  const details = parsed.success ? parsed.data : {};
  const text = describeDetails(code, { details, sizeFields, isForCaller });
  const general = Object.hasOwn(gatewayErrors, code) ? gatewayErrors[code as keyof typeof gatewayErrors][2] : "";
  return text ?? general;
}

function describeDetails(code: string, described: Described): string | undefined {
  const { limit, missing, model, allowed_regions } = described.details;
  if (limit) return describeLimit(limit, described);
  if (missing) return describeMissing(missing, described.isForCaller, code);
  if (allowed_regions) return describeRegions(described.details);
  if (code === "model_not_found" && model !== undefined) return describeModel(model, described.details);
  return described.details.message;
}

function describeLimit(limit: NonNullable<Details["limit"]>, described: Described): string {
  switch (limit.kind) {
    case "budget":
      return describeBudget(limit, described);
    case "balance":
      return describeBalance(limit, described);
    case "rate":
      return describeRate(limit, described);
    case "model_output": {
      const { tokens } = described.details.need ?? {};
      const requested = tokens === undefined ? "." : `; this request allows ${count(tokens)}.`;
      return `The model's output limit is ${count(limit.limit)} tokens${requested} ${describeFit(described)}`;
    }
    case "context_window": {
      const { tokens = 0, input_tokens = tokens } = described.details.need ?? {};
      const output = tokens > input_tokens ? ` and ${count(tokens - input_tokens)} of output` : "";
      const cure = output ? `${shorten(described)}, or lower the output limit` : shorten(described);
      return `The request has ${count(input_tokens)} tokens of input${output}, more than the model's context window of ${count(limit.limit)}. ${cure}.`;
    }
    case "provider":
      return `The model's provider is at its own rate limit. ${tryAgain(limit.reset_seconds)}`;
  }
}

function describeBudget(limit: Limit<"budget">, described: Described): string {
  const { need = {} } = described.details;
  const owner = budgetOwner(limit, described.isForCaller);
  const cure =
    describeFit(described) ?? `${shorten(described)}, or raise the budget, which resets on ${day(limit.resets_at)}.`;
  const { limit_usd, reserved_usd, remaining_usd } = limit;
  if (limit_usd === 0) return `${owner} is $0.00, which allows no calls. Raise the budget.`;
  if (limit_usd === undefined || remaining_usd === undefined || need.usd === undefined) {
    return `${owner} does not cover the maximum cost of ${subject(described)} this month. ${cure}`;
  }
  const [left, cost] = lessAndMore(remaining_usd, need.usd);
  const state =
    remaining_usd === 0 ? `has nothing left of $${exact(limit_usd)} this month` : `has $${left} left this month`;
  return `${owner} ${state}${inProgress(reserved_usd, "$")}; ${subject(described)} may cost up to $${cost}. ${cure}`;
}

function describeBalance(limit: Limit<"balance">, described: Described): string {
  const { need = {} } = described.details;
  const owner = balanceOwner(limit, described.isForCaller);
  const cure = describeFit(described) ?? `${shorten(described)}, or add credits.`;
  const { reserved_credits, remaining_credits } = limit;
  if (remaining_credits === undefined || need.credits === undefined) {
    return `${owner} does not cover the maximum cost of ${subject(described)}. ${cure}`;
  }
  const [left, cost] = lessAndMore(remaining_credits, need.credits);
  const held = inProgress(reserved_credits, "");
  return `${owner} has ${remaining_credits === 0 ? "no" : left} credits left${held}; ${subject(described)} may cost up to ${cost} credits. ${cure}`;
}

function describeRate(limit: Limit<"rate">, described: Described): string {
  const { need = {} } = described.details;
  const owner = rateOwner(limit);
  const unit = limit.limit === 1 ? limit.unit.slice(0, -1) : limit.unit;
  const maximum = `${count(limit.limit)} ${unit} per minute`;
  if (limit.unit === "requests")
    return `${owner} has used up ${ofPlan(limit)} ${maximum}. ${tryAgain(limit.reset_seconds)}`;
  const counts = need.tokens === undefined ? "" : `${subject(described)} counts ${count(need.tokens)}`;
  if (limit.remaining === undefined) {
    const input = need.input_tokens === undefined ? "" : ` (${count(need.input_tokens)} of input)`;
    const cure = describeFit(described) ?? `${shorten(described)}, or raise the limit.`;
    return `${owner} allows ${limit.scope === "plan" ? "by its plan " : ""}${maximum}; ${counts}${input}. ${cure}`;
  }
  const cure = describeFit(described);
  return `${owner} has ${count(limit.remaining)} left of ${ofPlan(limit)} ${maximum}; ${counts}. ${tryAgain(limit.reset_seconds)}${cure ? ` ${cure}` : ""}`;
}

function budgetOwner({ scope, name, is_caller }: Limit<"budget">, isForCaller: boolean): string {
  switch (scope) {
    case "key":
      return name ? `The budget of the key “${name}”` : "The key's budget";
    case "app":
      return name ? `The budget of the app “${name}”` : "The app's budget";
    case "label":
      return name ? `The budget of the label “${name}”` : "The label's budget";
    case "member":
      if (is_caller) return isForCaller ? "Your member budget" : "The caller's member budget";
      return "The member budget of the key's creator";
    case "workspace":
      return "The workspace's budget";
  }
}

function balanceOwner({ payer, is_caller }: Limit<"balance">, isForCaller: boolean): string {
  if (payer === "workspace") return "The workspace's credit balance";
  if (is_caller) return isForCaller ? "Your credit balance" : "The caller's credit balance";
  return "The credit balance of the key's creator";
}

function rateOwner({ scope, name }: Limit<"rate">): string {
  if (scope === "key") return name ? `The key “${name}”` : "The key";
  return "The workspace";
}

function ofPlan({ scope }: Limit<"rate">): string {
  return scope === "plan" ? "its plan's limit of" : "its limit of";
}

function subject({ details }: Described): string {
  return details.is_step ? "the next step of this request" : "this request";
}

function inProgress(reserved: number | undefined, sign: string): string {
  return reserved ? `, and calls in progress hold ${sign}${amount(reserved, "floor")}` : "";
}

/** Returns what to send instead; undefined if no output limit fits, or if the API has none. */
function describeFit({ details, sizeFields }: Described): string | undefined {
  const { fitting_output_limit: tokens, is_step } = details;
  if (tokens == null || (sizeFields && !sizeFields.output)) return undefined;
  const limit = sizeFields?.output
    ? `\`${sizeFields.output}\` ${count(tokens)}`
    : `an output limit of ${count(tokens)} tokens`;
  return `With ${limit} it ${is_step ? "would have fit" : "fits"}.`;
}

function shorten({ sizeFields }: Described): string {
  return `Shorten ${sizeFields ? `\`${sizeFields.input}\`` : "the input"}`;
}

function tryAgain(seconds: number | undefined): string {
  if (seconds === undefined) return "Try again later.";
  return `Try again in ${seconds} ${seconds === 1 ? "second" : "seconds"}.`;
}

function describeMissing(missing: NonNullable<Details["missing"]>, isForCaller: boolean, code: string): string {
  switch (missing.kind) {
    case "scope":
      return `This credential lacks the ${missing.scopes.length === 1 ? "scope" : "scopes"} ${missing.scopes.join(" and ")}. The app's registration and its token both need ${missing.scopes.length === 1 ? "it" : "them"}.`;
    case "permission":
      return `${isForCaller ? "You lack" : "The caller lacks"} the permission ${missing.permission} in this workspace. An owner or admin can give it.`;
    case "membership":
      return code === "app_not_allowed"
        ? "The person of this token is not a member of the workspace, or joined after it was issued. Sign in to the app again."
        : "The person who pays for this credential's calls is no longer a member of the workspace.";
    case "app_link":
      return "The app of this credential is disabled or not linked to this workspace. An admin can enable and link it in the console.";
    case "address":
      return missing.address == null
        ? "This key may only be used from certain addresses, and the gateway does not know the caller's."
        : `This key may not be used from the address ${missing.address}. Add it to the key's allowed addresses, or call from one of them.`;
  }
}

function describeRegions({ regions, allowed_regions }: Details): string {
  const allowed = allowed_regions?.length ? `only ${list(allowed_regions, "and")}` : "no region";
  const used = regions?.length ? ` This model's providers are in: ${list(regions, "and")}.` : "";
  return `The workspace's AI policy allows ${allowed}.${used} GET /v1/models lists the models that it allows.`;
}

function describeModel(model: string, { similar_models = [] }: Details): string {
  const hint = similar_models.length > 0 ? ` Did you mean ${list(similar_models, "or")}?` : "";
  return `The model “${model}” does not exist or is not available to this credential.${hint} GET /v1/models lists the models that it may use.`;
}

function list(items: readonly string[], word: "and" | "or"): string {
  return items.length < 3 ? items.join(` ${word} `) : `${items.slice(0, -1).join(", ")} ${word} ${items.at(-1)}`;
}

function count(tokens: number): string {
  return tokens.toLocaleString("en");
}

function day(time: string): string {
  const date = new Date(time);
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" })} (UTC)`;
}

/** Returns two amounts of which the first is less, so that their texts differ too: rounded apart, or exact. */
function lessAndMore(less: number, more: number): [string, string] {
  const rounded: [string, string] = [amount(less, "floor"), amount(more, "ceil")];
  return rounded[0] === rounded[1] ? [exact(less), exact(more)] : rounded;
}

/** Formats an amount with up to four decimals, and small ones with four digits. */
function amount(value: number, roundingMode: "floor" | "ceil"): string {
  const digits = value >= 0.1 || value === 0 ? { maximumFractionDigits: 4 } : { maximumSignificantDigits: 4 };
  return new Intl.NumberFormat("en", {
    minimumFractionDigits: value >= 0.1 || value === 0 ? 2 : undefined,
    ...digits,
    roundingMode,
  }).format(value);
}

function exact(value: number): string {
  return new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 12 }).format(value);
}
