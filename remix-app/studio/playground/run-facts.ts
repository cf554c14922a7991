import { formatDecimal, parseDecimal } from "#shared/decimal.ts";
import { readDecimalText } from "#shared/usd-amount.ts";

/** Facts about a run, shown next to its answer. For display only; the run's page is authoritative. */
export interface RunFacts {
  runId?: string | undefined;
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  /** Exact decimal strings. */
  costUsd?: string | undefined;
  billedCredits?: string | undefined;
  latencyMs?: number | undefined;
  firstTokenMs?: number | undefined;
  /** Whether a structured answer matches its schema; absent if unknown. */
  schemaValid?: boolean | undefined;
}

/** A recorded 0 of a run whose usage is unknown means neither no tokens nor no cost. */
const unknownUsage: RunFacts = { inputTokens: undefined, outputTokens: undefined, costUsd: undefined };

/**
 * JSON.parse with a third argument for the reviver, which contains the source text of primitives. TypeScript's types
 * and older browsers lack it.
 */
const parseWithSource = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context?: { source?: string }) => unknown,
) => ReturnType<typeof JSON.parse>;
const amountFields = new Set(["provider_cost_usd", "billed_credits", "costUsd", "billedCredits"]);

/**
 * Parses an answer. A run's amounts become strings, which keep digits that a float would lose.
 * @throws SyntaxError
 */
export function parseAnswer(text: string): ReturnType<typeof JSON.parse> {
  return parseWithSource(text, (key, value, context) =>
    typeof value === "number" && amountFields.has(key) ? (context?.source ?? String(value)) : value,
  );
}

/** Returns the facts in the `platform` field of an answer parsed by {@link parseAnswer}. */
export function factsOfPlatform(platform: unknown): RunFacts {
  const { run_id, usage, usage_source, provider_cost_usd, billed_credits, latency_ms, schema_valid } =
    recordOf(platform);
  const { input_tokens, output_tokens } = recordOf(usage);
  return {
    runId: typeof run_id === "string" ? run_id : undefined,
    inputTokens: numberOf(input_tokens),
    outputTokens: numberOf(output_tokens),
    costUsd: decimalOf(provider_cost_usd),
    billedCredits: decimalOf(billed_credits),
    latencyMs: numberOf(latency_ms),
    schemaValid: typeof schema_valid === "boolean" ? schema_valid : undefined,
    ...(usage_source === "unavailable" ? unknownUsage : {}),
  };
}

export function factsOfHeaders(headers: Headers): RunFacts {
  const value = (name: string) => headers.get(`x-platform-${name}`) ?? undefined;
  return {
    runId: value("run-id"),
    inputTokens: numberOf(value("input-tokens")),
    outputTokens: numberOf(value("output-tokens")),
    costUsd: value("provider-cost-usd"),
    billedCredits: value("billed-credits"),
    latencyMs: numberOf(value("latency-ms")),
  };
}

/** Returns the facts of a completed run from the API, as read by {@link parseAnswer}, or null while it is running. */
export function factsOfRun(run: unknown): RunFacts | null {
  const { id, status, usageSource, inputTokens, outputTokens, costUsd, billedCredits, latencyMs } = recordOf(run);
  if (typeof id !== "string" || status === "running") return null;
  return {
    runId: id,
    inputTokens: numberOf(inputTokens),
    outputTokens: numberOf(outputTokens),
    costUsd: decimalOf(costUsd),
    billedCredits: decimalOf(billedCredits),
    latencyMs: numberOf(latencyMs),
    ...(usageSource === "unavailable" ? unknownUsage : {}),
  };
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function numberOf(value: unknown): number | undefined {
  const number = typeof value === "string" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

/** Formats a number without an exponent or unneeded zeros. */
function decimalOf(value: unknown): string | undefined {
  const exact = typeof value === "string" || typeof value === "number" ? readDecimalText(String(value)) : null;
  return exact === null ? undefined : formatDecimal(parseDecimal(exact));
}
