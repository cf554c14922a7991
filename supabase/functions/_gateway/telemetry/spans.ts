import { findUnitPrices } from "../../_shared/money.ts";
import { createTrace, type Span } from "../../_shared/spans.ts";
import type { EndedRun, TracedStep } from "../runs/ended-run.ts";

const operations: Record<string, string> = { embeddings: "embeddings", speech: "generate_content" };

/**
 * Returns a run as a trace by the GenAI semantic conventions (opentelemetry.io, 1.41), with a span for the call and,
 * inside it, a span for each provider call and each tool. The trace has the run's id, which clients get as
 * `platform.trace_id`.
 * @param epochMs when the gateway's clock was 0, in milliseconds since 1970
 */
export function createSpans(ended: EndedRun, epochMs: number): Span[] {
  const trace = createTrace({ traceId: ended.run.run_id.replaceAll("-", ""), epochMs });
  const { startedAt, endedAt } = ended;
  const root = trace.createSpan({ name: `POST ${ended.path}`, startedAt, endedAt, ...serverSpan(ended) });
  const steps = ended.steps.map((step) => {
    const isTool = step.type === "tool";
    const name = isTool ? `execute_tool ${step.name}` : `${getOperationName(ended)} ${ended.run.model}`;
    const facts = isTool ? toolSpan(step) : modelSpan(ended, step);
    return trace.createSpan({ name, startedAt: step.startedAt, endedAt: step.endedAt, ...facts }, root);
  });
  return [root, ...steps];
}

function serverSpan({ path, requestId, feature, run, outcome }: EndedRun) {
  return {
    kind: "server" as const,
    hasFailed: outcome.http_status >= 500,
    attributes: {
      "http.request.method": "POST",
      "http.route": path,
      "http.response.status_code": outcome.http_status,
      "error.type": outcome.error_code,
      "gatehouse.run.id": run.run_id,
      "gatehouse.run.status": outcome.status,
      "gatehouse.request.id": requestId,
      "gatehouse.workspace.id": run.workspace_id,
      "gatehouse.key.name": run.key_name ?? undefined,
      "gatehouse.feature": feature,
      "gatehouse.usage.source": outcome.usage_source,
    },
  };
}

function modelSpan(ended: EndedRun, { attempt, usage, servedTier, status }: TracedStep) {
  const { run, request, outcome } = ended;
  const succeeded = status === "succeeded";
  const route = run.routes.find(({ position }) => position === attempt?.route);
  const prices = route && findUnitPrices(route, { inputTokens: usage?.input_tokens ?? 0, servedTier });
  const failure = attempt?.failure ?? (status === "aborted" ? "cancelled" : (outcome.error_code ?? "provider_error"));
  return {
    kind: "client" as const,
    hasFailed: !succeeded,
    attributes: {
      "gen_ai.operation.name": getOperationName(ended),
      "gen_ai.provider.name": attempt?.provider,
      "gen_ai.request.model": attempt?.model ?? run.model,
      "gen_ai.request.max_tokens": request.outputLimit || undefined,
      "gen_ai.request.choice.count": request.choices === 1 ? undefined : request.choices,
      "gen_ai.request.stream": request.stream || undefined,
      "gen_ai.usage.input_tokens": usage?.input_tokens,
      "gen_ai.usage.output_tokens": usage?.output_tokens,
      "gen_ai.usage.cache_read.input_tokens": usage?.cached_input_tokens || undefined,
      "gen_ai.usage.reasoning.output_tokens": usage?.reasoning_tokens || undefined,
      "openai.response.service_tier": servedTier,
      "http.response.status_code": attempt?.status,
      // Not `gen_ai.response.id`, which identifies the answer rather than the request.
      "gatehouse.upstream.request_id": attempt?.upstream_request_id,
      "gatehouse.route.position": attempt?.route,
      "gatehouse.price.input_usd_per_million": prices?.input,
      "gatehouse.price.output_usd_per_million": prices?.output,
      "error.type": succeeded ? undefined : failure,
    },
  };
}

function toolSpan({ name, status }: TracedStep) {
  const succeeded = status === "succeeded";
  return {
    kind: "internal" as const,
    hasFailed: !succeeded,
    attributes: {
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": name,
      "gen_ai.tool.type": "extension",
      "error.type": succeeded ? undefined : "tool_error",
    },
  };
}

function getOperationName({ path }: EndedRun): string {
  return operations[path.split("/").at(-1) ?? ""] ?? "chat";
}
