/** What is told of a run beside its answer: for show alone, the run's page has the last word. */
export interface RunFacts {
  runId?: string | undefined;
  inputTokens?: number | undefined;
  outputTokens?: number | undefined;
  /** Exact decimal texts. */
  costUsd?: string | undefined;
  billedCredits?: string | undefined;
  latencyMs?: number | undefined;
  firstTokenMs?: number | undefined;
  /** Whether a structured answer keeps to its schema; absent where nobody can tell. */
  schemaValid?: boolean | undefined;
}

/** Of an answer's `platform`. */
export function factsOfPlatform(platform: unknown): RunFacts {
  const { run_id, usage, provider_cost_usd, billed_credits, latency_ms, schema_valid } = recordOf(platform);
  const { input_tokens, output_tokens } = recordOf(usage);
  return {
    runId: typeof run_id === "string" ? run_id : undefined,
    inputTokens: numberOf(input_tokens),
    outputTokens: numberOf(output_tokens),
    costUsd: decimalOf(provider_cost_usd),
    billedCredits: decimalOf(billed_credits),
    latencyMs: numberOf(latency_ms),
    schemaValid: typeof schema_valid === "boolean" ? schema_valid : undefined,
  };
}

/** Of an answer that says it in headers. */
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

/** Of a run as the API shows it, once it has ended; null while it runs. */
export function factsOfRun(run: unknown): RunFacts | null {
  const { id, status, inputTokens, outputTokens, costUsd, billedCredits, latencyMs } = recordOf(run);
  if (typeof id !== "string" || status === "running") return null;
  return {
    runId: id,
    inputTokens: numberOf(inputTokens),
    outputTokens: numberOf(outputTokens),
    costUsd: decimalOf(costUsd),
    billedCredits: decimalOf(billedCredits),
    latencyMs: numberOf(latencyMs),
  };
}

function recordOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function numberOf(value: unknown): number | undefined {
  const number = typeof value === "string" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

/** Amounts have at most 12 decimals (api.md, Conventions). */
function decimalOf(value: unknown): string | undefined {
  const number = numberOf(value);
  return number === undefined ? undefined : number.toFixed(12).replace(/\.?0+$/, "");
}
