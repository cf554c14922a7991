import { formatJsonLine } from "../../_shared/log.ts";
import { findUnitPrices } from "../../_shared/money.ts";
import type { EndedRequest } from "../http/router.ts";
import type { EndedRun } from "../runs/ended-run.ts";

/** Returns one line of JSON that describes how a call was answered. */
export function requestLine({ method, route, requestId, status, code, latencyMs }: EndedRequest): string {
  return formatJsonLine(status >= 500 ? "error" : "info", "request", {
    method,
    route,
    request_id: requestId,
    status,
    code,
    latency_ms: latencyMs,
  });
}

/**
 * Returns whether an operator should look at a run, because the run or one of its provider calls failed or its usage is
 * unusual. A skipped route and a client that left are not failures.
 */
export function needsAttention({ outcome: { status, marks = [] }, attempts }: EndedRun): boolean {
  const failed = attempts.some(({ failure = "skipped" }) => failure !== "skipped" && failure !== "cancelled");
  return status === "failed" || failed || marks.length > 0;
}

/** Returns a run as a line of JSON with the data of its database row. */
export function runLine(ended: EndedRun): string {
  const { run, outcome } = ended;
  const { input_tokens = 0, output_tokens = 0, served_tier } = outcome;
  const route = run.routes.find(({ position }) => position === outcome.route);
  const prices = route && findUnitPrices(route, { inputTokens: input_tokens, servedTier: served_tier });
  return formatJsonLine(needsAttention(ended) ? "warn" : "info", "run", {
    run_id: run.run_id,
    request_id: ended.requestId,
    workspace_id: run.workspace_id,
    key_name: run.key_name ?? undefined,
    route: ended.path,
    feature: ended.feature,
    model: run.model,
    streamed: ended.request.stream,
    status: outcome.status,
    http_status: outcome.http_status,
    code: outcome.error_code,
    usage_source: outcome.usage_source,
    input_tokens,
    output_tokens,
    steps: ended.steps.length,
    provider: route?.provider,
    provider_route: outcome.route,
    attempts: ended.attempts,
    served_tier,
    input_usd_per_million: prices?.input,
    output_usd_per_million: prices?.output,
    marks: outcome.marks,
    first_byte_ms: outcome.first_byte_ms,
    latency_ms: Math.round(ended.endedAt - ended.startedAt),
  });
}
