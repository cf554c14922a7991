import asyncHooks from "node:async_hooks";
import { createExporter, type ExporterSettings } from "#shared/span-exporter.ts";
import { createTrace, newTraceId, type SpanFacts } from "#shared/spans.ts";

/** The calls of the request that is being answered. Marked as pure, because pages share modules with the server. */
const callsOfRequest = /* @__PURE__ */ new asyncHooks.AsyncLocalStorage<SpanFacts[]>();

export type RequestTraces = {
  /** Runs `handle` as one trace: a span for the request, and inside it one for each call to a backend. */
  trace: (handle: () => Promise<void>, describe: () => RequestFacts) => Promise<void>;
  flush: () => Promise<void>;
};

type RequestFacts = { method: string; route?: string; status: number; requestId: string };

/**
 * Creates the traces of this process's requests. Spans have no path, query, header or body of a request.
 * @param report receives the first of consecutive failures to reach the collector
 */
export function createRequestTraces(settings: ExporterSettings, report: (error: unknown) => void): RequestTraces {
  const exporter = createExporter(settings, { waitUntil: () => {}, report });
  return {
    async trace(handle, describe) {
      const calls: SpanFacts[] = [];
      const startedAt = performance.now();
      try {
        await callsOfRequest.run(calls, handle);
      } finally {
        const { method, route, status, requestId } = describe();
        const trace = createTrace({ traceId: newTraceId(), epochMs: performance.timeOrigin });
        const request = trace.createSpan({
          name: route === undefined ? method : `${method} ${route}`,
          kind: "server",
          hasFailed: status >= 500,
          startedAt,
          endedAt: performance.now(),
          attributes: {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            "gatehouse.request.id": requestId,
          },
        });
        exporter.add([request, ...calls.map((call) => trace.createSpan(call, request))]);
      }
    },
    flush: exporter.flush,
  };
}

const anyId = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi;

/**
 * Adds a call to a backend to the trace of the current request, if requests are traced.
 * @returns a function to call when the call has ended, with the status of the answer, if there was one
 */
export function beginTracedCall(method: string, { pathname, hostname }: URL): ((status?: number) => void) | undefined {
  const calls = callsOfRequest.getStore();
  if (!calls) return undefined;
  const startedAt = performance.now();
  const template = pathname.replace(anyId, "{id}");
  return (status) => {
    const hasFailed = status === undefined || status >= 400;
    calls.push({
      name: `${method} ${template}`,
      kind: "client",
      hasFailed,
      startedAt,
      endedAt: performance.now(),
      attributes: {
        "http.request.method": method,
        "server.address": hostname,
        "url.template": template,
        "http.response.status_code": status,
        "error.type": hasFailed ? String(status ?? "no_answer") : undefined,
      },
    });
  };
}
