import type { EndedRequest, EndedRun } from "./ended-run.ts";

/** A call as one line of JSON: how it was answered. */
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

/** A run as one line of JSON: what its row in the database says, too. */
export function runLine(run: EndedRun): string {
  return JSON.stringify({
    level: run.status === "failed" ? "warn" : "info",
    event: "run",
    run_id: run.runId,
    request_id: run.requestId,
    workspace_id: run.workspaceId,
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
    first_byte_ms: run.firstByteMs,
    latency_ms: Math.round(run.endedAt - run.startedAt),
  });
}
