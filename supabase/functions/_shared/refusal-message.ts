import { gatewayErrors } from "./gateway-errors.ts";
import {
  type RefusalDetails as Details,
  type LimitOf as Limit,
  type ReachedLimit,
  refusalDetails,
} from "./refusal-details.ts";
import { count, exact, inProgress, lessAndMore, moment } from "./refusal-words.ts";
import { describeEnvelope, describeEnvelopeHeader } from "./refused-envelope.ts";

/** The fields that determine the size of a call: the input, and the client's output limit in its API's name. */
export type SizeFields = {
  input: string;
  output?: string;
  /** The lowest output limit that the request's other fields allow. */
  minOutput?: number;
};

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
  const { limit, missing, model, allowed_regions, envelope } = described.details;
  if (limit) return describeLimit(limit, described);
  if (envelope) return describeEnvelopeHeader(envelope);
  if (missing) return describeMissing(missing, described.isForCaller, code);
  if (allowed_regions) return describeRegions(described.details);
  if (code === "model_not_found" && model !== undefined) return describeModel(model, described.details);
  return described.details.message;
}

function describeLimit(limit: ReachedLimit, described: Described): string {
  switch (limit.kind) {
    case "budget":
      return describeBudget(limit, described);
    case "balance":
      return describeBalance(limit, described);
    case "rate":
      return describeRate(limit, described);
    case "concurrent":
      return describeConcurrent(limit, described);
    case "envelope":
      return describeEnvelope(limit, {
        need_usd: described.details.need?.usd,
        subject: subject(described),
        fit: describeFit(described),
      });
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

/** How a budget's sentences name its window. */
const windowNames = { day: " today", week: " this week", month: " this month", total: "" } as const;

function describeBudget(limit: Limit<"budget">, described: Described): string {
  const { need = {} } = described.details;
  const owner = budgetOwner(limit, described.isForCaller);
  // A step is refused when it is too late to shorten the input.
  const raise = described.details.is_step ? "Raise" : `${shorten(described)}, or raise`;
  const cure = describeFit(described) ?? `${raise} the budget, which ${resets(limit)}.`;
  const { limit_usd, reserved_usd, remaining_usd } = limit;
  const window = windowNames[limit.window];
  if (limit_usd === 0) return `${owner} is $0.00, which allows no calls. Raise the budget.`;
  if (limit_usd === undefined || remaining_usd === undefined || need.usd === undefined) {
    return `${owner} does not cover the maximum cost of ${subject(described)}${window}. ${cure}`;
  }
  const [left, cost] = lessAndMore(remaining_usd, need.usd);
  const state =
    remaining_usd === 0 ? `has nothing left of $${exact(limit_usd)}${window}` : `has $${left} left${window}`;
  const costs =
    need.tokens === undefined
      ? `may cost up to $${cost}`
      : `costs up to $${cost} with its usual output of ${count(need.tokens)} ${need.tokens === 1 ? "token" : "tokens"}`;
  return `${owner} ${state}${inProgress(reserved_usd, "$")}; ${subject(described)} ${costs}. ${cure}`;
}

function resets({ window, resets_at, time_zone = "UTC" }: Limit<"budget">): string {
  return window === "total" || resets_at === undefined ? "has no reset" : `resets at ${moment(resets_at, time_zone)}`;
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
    return `${owner} ${limit.scope === "model" ? "is used up:" : `has used up ${ofPlan(limit)}`} ${maximum}. ${tryAgain(limit.reset_seconds)}`;
  const counts = need.tokens === undefined ? "" : `${subject(described)} counts ${count(need.tokens)}`;
  if (limit.remaining === undefined) {
    const input = need.input_tokens === undefined ? "" : ` (${count(need.input_tokens)} of input)`;
    const cure = describeFit(described) ?? `${shorten(described)}, or raise the limit.`;
    return `${owner} allows ${limit.scope === "plan" ? "by its plan " : ""}${maximum}; ${counts}${input}. ${cure}`;
  }
  const cure = describeFit(described);
  return `${owner} has ${count(limit.remaining)} left of ${limit.scope === "model" ? "" : `${ofPlan(limit)} `}${maximum}; ${counts}. ${tryAgain(limit.reset_seconds)}${cure ? ` ${cure}` : ""}`;
}

function describeConcurrent(limit: Limit<"concurrent">, { isForCaller }: Described): string {
  const { scope, name, is_caller } = limit;
  const calls = `${count(limit.used)} ${limit.used === 1 ? "call" : "calls"} in progress`;
  const are = { key: name ? `The key “${name}” has` : "The key has", workspace: "The workspace has" };
  const member = is_caller ? (isForCaller ? "You have" : "The caller has") : "The key's creator has";
  const owner = scope === "member" ? member : are[scope];
  return `${owner} ${calls}, ${owner === "You have" ? "your" : scope === "member" ? "their" : "its"} limit. ${tryAgain(limit.reset_seconds)}`;
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
  if (scope === "model") return `The workspace's limit for ${name ? `the model ${name}` : "this model"}`;
  if (scope === "key") return name ? `The key “${name}”` : "The key";
  return "The workspace";
}

function ofPlan({ scope }: Limit<"rate">): string {
  return scope === "plan" ? "its plan's limit of" : "its limit of";
}

function subject({ details }: Described): string {
  return details.is_step ? "the next step of this request" : "this request";
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
