import { randomBytes } from "node:crypto";
import { findUnitPrices } from "../../_shared/money.ts";
import type { EndedRun, TracedStep } from "../runs/ended-run.ts";

type Value = string | number | boolean | undefined;

/** A span in OTLP/HTTP's JSON format (opentelemetry-proto, trace.proto). */
export type Span = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Attribute[];
  status: { code: number };
};
type Attribute = { key: string; value: Record<string, unknown> };

const kinds = { internal: 1, server: 2, client: 3 } as const;
const statuses = { unset: 0, error: 2 } as const;
const operations: Record<string, string> = { embeddings: "embeddings", speech: "generate_content" };

/**
 * Returns a run as a trace by the GenAI semantic conventions (opentelemetry.io, 1.41), with a span for the call and,
 * inside it, a span for each provider call and each tool. The trace has the run's id, which clients get as
 * `platform.trace_id`.
 * @param epochMs when the gateway's clock was 0, in milliseconds since 1970
 */
export function createSpans(ended: EndedRun, epochMs: number): Span[] {
  const traceId = ended.run.run_id.replaceAll("-", "");
  const root = newSpanId();
  const nano = (at: number) => `${Math.round((epochMs + at) * 1_000)}000`;
  const span = (
    name: string,
    { startedAt, endedAt }: { startedAt: number; endedAt: number },
    rest: Pick<Span, "kind" | "status"> & { attributes: Record<string, Value> },
  ) => ({
    traceId,
    name,
    startTimeUnixNano: nano(startedAt),
    endTimeUnixNano: nano(endedAt),
    ...rest,
    attributes: formatAttributes(rest.attributes),
  });
  const steps = ended.steps.map((step) => ({
    ...(step.type === "tool"
      ? span(`execute_tool ${step.name}`, step, toolSpan(step))
      : span(`${getOperationName(ended)} ${ended.run.model}`, step, modelSpan(ended, step))),
    spanId: newSpanId(),
    parentSpanId: root,
  }));
  return [{ ...span(`POST ${ended.path}`, ended, serverSpan(ended)), spanId: root }, ...steps];
}

function serverSpan({ path, requestId, feature, run, outcome }: EndedRun) {
  return {
    kind: kinds.server,
    status: { code: outcome.http_status >= 500 ? statuses.error : statuses.unset },
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
    kind: kinds.client,
    status: { code: succeeded ? statuses.unset : statuses.error },
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
    kind: kinds.internal,
    status: { code: succeeded ? statuses.unset : statuses.error },
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

function formatAttributes(values: Record<string, Value>): Attribute[] {
  return Object.entries(values).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: anyValue(value) }],
  );
}

function anyValue(value: NonNullable<Value>): Record<string, unknown> {
  if (typeof value === "string") return { stringValue: value };
  return typeof value === "boolean" ? { boolValue: value } : { intValue: String(value) };
}

function newSpanId(): string {
  return randomBytes(8).toString("hex");
}
