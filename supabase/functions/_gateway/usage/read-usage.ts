import { add, formatDecimal, multiply, parseDecimal } from "../../_shared/decimal.ts";
import { JsonNumber, parseExactJson } from "../../_shared/exact-json.ts";
import { isObject } from "../../_shared/json.ts";
import { readDecimalText } from "../../_shared/usd-amount.ts";
import { attributeWrites } from "./cache-lifetimes.ts";
import { capCost, capToContextWindow } from "./limits.ts";
import { readStatedCounts, type StatedCounts } from "./stated-counts.ts";
import { toTokenCounts } from "./token-counts.ts";
import { addUsageFacts, type StatedUsage, type UsageLimits } from "./usage.ts";

/** Members in which OpenRouter, Perplexity and xAI state amounts. */
const costMember = /^(?:cost|total_cost|upstream_inference_cost|cost_in_usd_ticks)$/;
const costIn = /"(?:cost|total_cost|upstream_inference_cost|cost_in_usd_ticks)"\s*:/;

/**
 * Parses an answer's JSON. Each stated cost becomes a {@link JsonNumber}, which keeps all its digits.
 * @throws SyntaxError
 */
export function parseAnswer(text: string): unknown {
  return costIn.test(text) ? parseExactJson(text, (name) => costMember.test(name)) : JSON.parse(text);
}

/**
 * Reads the usage of a chat completion or a response.
 * @returns undefined if it is too incomplete to charge by
 */
export function readCompletionUsage(value: unknown, limits: UsageLimits): StatedUsage | undefined {
  const stated = readStatedCounts(value);
  const noOutput = limits.outputIsOptional ? 0 : undefined;
  const { total = 0, input = subtractPart(total, stated.output ?? noOutput) } = stated;
  // A missing output count is computed from the total if possible.
  const output = stated.output ?? subtractPart(total, input) ?? noOutput;
  if (!isObject(value) || input === undefined || output === undefined) return undefined;
  return statedUsage(value, { ...stated, input, output }, limits);
}

/**
 * Reads the usage of Anthropic's messages, whose input excludes cache reads and writes
 * (https://platform.claude.com/docs/en/build-with-claude/prompt-caching).
 * @returns undefined if it is too incomplete to charge by
 */
export function readMessageUsage(value: unknown, limits: UsageLimits): StatedUsage | undefined {
  const { input, output, ...stated } = readStatedCounts(value);
  if (!isObject(value) || input === undefined || output === undefined) return undefined;
  return statedUsage(value, { ...stated, input, output }, limits, { cacheIsSeparate: true });
}

/** Returns a total minus one of its two parts, or undefined if nothing remains or the part is unknown. */
function subtractPart(total: number, part: number | undefined): number | undefined {
  return part !== undefined && total > part ? total - part : undefined;
}

/**
 * Reads the usage of embeddings, which have no output. Some providers state only the total.
 * @returns undefined if the usage states neither the input nor the total
 */
export function readEmbeddingUsage(value: unknown, limits: UsageLimits): StatedUsage | undefined {
  const { total, reasoning, audioOutput, ...stated } = readStatedCounts(value);
  const input = stated.input ?? total;
  return isObject(value) && input !== undefined
    ? statedUsage(value, { ...stated, input, output: 0 }, limits)
    : undefined;
}

/**
 * Reads the usage of speech in Gemini's format.
 * @returns undefined if the usage is too incomplete to charge by. `countsSpeech` is false if the usage does not count the
 * speech's tokens
 */
export function readGeminiUsage(
  value: unknown,
  limits: UsageLimits,
): { usage: StatedUsage; countsSpeech: boolean } | undefined {
  const stated = readStatedCounts(value);
  const { input, total = 0 } = stated;
  if (!isObject(value) || input === undefined) return undefined;
  const output = stated.output ?? subtractPart(total, input) ?? 0;
  const { audioOutput = output } = stated;
  return {
    usage: statedUsage(value, { ...stated, input, output, audioOutput }, limits),
    countsSpeech: output > 0,
  };
}

function statedUsage(
  usage: Record<string, unknown>,
  stated: StatedCounts & { input: number; output: number },
  limits: UsageLimits,
  { cacheIsSeparate = isAnthropic(usage) } = {},
): StatedUsage {
  const { stated: attributed, isAssumed } = attributeWrites(stated, limits.hourWrites);
  const counts = toTokenCounts(attributed, {
    cacheIsSeparate,
    reasoningIsSeparate: isPerplexity(usage),
  });
  const capped = capToContextWindow({ ...counts, ...countFees(usage, stated) }, limits);
  const { statedCostUsd, marks } = capCost(readStatedCost(usage));
  const isUncertain = isAssumed && limits.hourWrites === "some";
  const facts = addUsageFacts(capped.counts, {
    statedCostUsd,
    servedTier: readTier(usage),
    marks: [...new Set([...capped.marks, ...marks, ...(isUncertain ? (["unattributed_cache_writes"] as const) : [])])],
  });
  return isAssumed ? { ...facts, assumesLifetimes: true } : facts;
}

/**
 * Returns whether usage is in Anthropic's format, whose input excludes cache reads and writes. Other gateways may pass
 * this format on. https://platform.claude.com/docs/en/build-with-claude/prompt-caching
 */
function isAnthropic(usage: Record<string, unknown>): boolean {
  const counts = ["cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"];
  return "input_tokens" in usage && !("total_tokens" in usage) && counts.some((name) => name in usage);
}

/**
 * Returns whether usage is in Perplexity's format. Perplexity charges for citations and reasoning in addition to the
 * stated total.
 */
function isPerplexity(usage: Record<string, unknown>): boolean {
  return "num_search_queries" in usage || "citation_tokens" in usage || "search_context_size" in usage;
}

/**
 * Returns the number of fees for a call. Perplexity charges one fee per search. If the usage states only
 * search_context_size, there is one fee for the request. xAI charges one fee per source.
 */
function countFees(
  usage: Record<string, unknown>,
  { searches = 0, sources = 0 }: StatedCounts,
): { fee_requests?: number } {
  const fees = searches + sources || Number(typeof usage.search_context_size === "string");
  return fees > 0 ? { fee_requests: fees } : {};
}

/** Reads the `service_tier` of an answer or of its usage. */
export function readTier({ service_tier }: Record<string, unknown>): string | undefined {
  return typeof service_tier === "string" && /^[\w-]{1,64}$/.test(service_tier) ? service_tier : undefined;
}

/** The value of a tick, the unit in which xAI states costs. One US dollar has 10^10 ticks. */
const usdPerTick = { units: 1n, scale: 10 };

/** Reads the cost that a provider states for a call. */
function readStatedCost(usage: Record<string, unknown>): string | undefined {
  const { cost, cost_details, cost_in_usd_ticks, is_byok } = usage;
  const ticks = readAmount(cost_in_usd_ticks);
  if (ticks !== undefined) return formatDecimal(multiply(parseDecimal(ticks), usdPerTick));
  const own = readAmount(isObject(cost) && "total_cost" in cost ? cost.total_cost : cost);
  if (own === undefined || is_byok !== true) return own;
  // If the operator brings their own key, OpenRouter's `cost` is only its own fee.
  const upstream = isObject(cost_details) ? readAmount(cost_details.upstream_inference_cost) : undefined;
  if (upstream === undefined || Number(upstream) === 0) return undefined;
  return formatDecimal(add(parseDecimal(own), parseDecimal(upstream)));
}

/**
 * Maximum length of an amount. Any float or decimal with 12 places is shorter, and longer texts would slow down exact
 * sums.
 */
const maxAmountLength = 100;

/** Returns a non-negative amount as exact decimal text. */
function readAmount(value: unknown): string | undefined {
  const text = value instanceof JsonNumber ? value.text : typeof value === "number" ? String(value) : value;
  const decimal = typeof text === "string" && text.length <= maxAmountLength ? readDecimalText(text) : null;
  return decimal === null || decimal.startsWith("-") ? undefined : decimal;
}
