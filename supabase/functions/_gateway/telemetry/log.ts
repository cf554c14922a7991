import { unitPrices } from "../../_shared/money.ts";
import type { EndedRequest, EndedRun } from "./ended-run.ts";

/** Returns one line of JSON that describes how a call was answered. */
export function requestLine({ method, route, requestId, status, code, latencyMs }: EndedRequest): string {
  return JSON.stringify({
    level: status >= 500 ? "error" : "info",
    event: "request",
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
export function needsAttention({ status, attempts, marks = [] }: EndedRun): boolean {
  const failed = attempts.some(({ failure = "skipped" }) => failure !== "skipped" && failure !== "cancelled");
  return status === "failed" || failed || marks.length > 0;
}

/** Returns a run as a line of JSON with the data of its database row. */
export function runLine(run: EndedRun): string {
  const route = run.routes.find(({ position }) => position === run.route);
  const prices = route && unitPrices(route, { inputTokens: run.usage.input_tokens ?? 0, servedTier: run.servedTier });
  return JSON.stringify({
    level: needsAttention(run) ? "warn" : "info",
    event: "run",
    run_id: run.runId,
    request_id: run.requestId,
    workspace_id: run.workspaceId,
    key_name: run.keyName,
    route: run.path,
    feature: run.feature,
    model: run.model,
    streamed: run.streamed,
    status: run.status,
    http_status: run.httpStatus,
    code: run.errorCode,
    usage_source: run.usageSource,
    input_tokens: run.usage.input_tokens ?? 0,
    output_tokens: run.usage.output_tokens ?? 0,
    steps: run.steps.length,
    provider: route?.provider,
    provider_route: run.route,
    attempts: run.attempts,
    served_tier: run.servedTier,
    input_usd_per_million: prices?.input,
    output_usd_per_million: prices?.output,
    marks: run.marks,
    first_byte_ms: run.firstByteMs,
    latency_ms: Math.round(run.endedAt - run.startedAt),
  });
}
