import process from "node:process";
import { Counter, Gauge, Histogram } from "prom-client";
import { createProcessRegistry, durationBuckets, formatRegistry } from "../../_shared/metrics-text.ts";
import type { EndedRequest } from "../http/router.ts";
import type { EndedRun } from "../runs/ended-run.ts";

/** Counts the calls of this process for `GET /metrics`. */
export type GatewayMetrics = {
  request: (request: EndedRequest) => void;
  runBegan: (run: { stream: boolean }) => void;
  run: (run: EndedRun) => void;
  /** Adds a source of the routes that are set aside now, by provider. */
  watchCooldowns: (countCooling: () => ReadonlyMap<string, number>) => void;
  /** Returns all metrics of the process. */
  respond: () => Promise<Response>;
};

const unreadable = [
  "process_resident_memory_bytes",
  "process_virtual_memory_bytes",
  "process_heap_bytes",
  "process_open_fds",
  "process_max_fds",
];

/**
 * Creates the metrics of this process. All labels have few values: routes, statuses, error codes and configured
 * providers. No label is a workspace, a key, a model or a text from a caller.
 */
export function createGatewayMetrics(): GatewayMetrics {
  const registry = createProcessRegistry();
  const registers = [registry];
  // These need files below /proc, which the process may not read. They would be 0.
  for (const name of unreadable) registry.removeSingleMetric(name);
  new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory size in bytes.",
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
  const requests = new Counter({
    name: "gatehouse_gateway_requests_total",
    help: "Answered requests. The code is empty unless the gateway refused the request or failed.",
    labelNames: ["route", "status", "code"],
    registers,
  });
  const durations = new Histogram({
    name: "gatehouse_gateway_request_duration_seconds",
    help: "Time until the response began.",
    labelNames: ["route"],
    buckets: durationBuckets,
    registers,
  });
  const runs = new Counter({
    name: "gatehouse_gateway_runs_total",
    help: "Ended runs.",
    labelNames: ["status"],
    registers,
  });
  const attempts = new Counter({
    name: "gatehouse_gateway_provider_attempts_total",
    help: "Requests to providers by outcome: answered, a class of failure, or skipped during a cooldown or without room in the provider's limits.",
    labelNames: ["provider", "outcome"],
    registers,
  });
  const openRuns = new Gauge({
    name: "gatehouse_gateway_open_runs",
    help: "Runs in progress.",
    labelNames: ["streamed"],
    registers,
  });
  const sources: (() => ReadonlyMap<string, number>)[] = [];
  new Gauge({
    name: "gatehouse_gateway_cooling_routes",
    help: "Routes that the process has set aside because they keep failing.",
    labelNames: ["provider"],
    registers,
    collect() {
      this.reset();
      for (const [provider, count] of sources.flatMap((countCooling) => [...countCooling()])) {
        this.inc({ provider }, count);
      }
    },
  });

  return {
    request({ route = "", status, code = "", latencyMs }) {
      requests.inc({ route, status, code });
      durations.observe({ route }, latencyMs / 1_000);
    },
    runBegan: ({ stream }) => openRuns.inc({ streamed: String(stream) }),
    run({ request, outcome, attempts: ended }) {
      openRuns.dec({ streamed: String(request.stream) });
      runs.inc({ status: outcome.status });
      for (const { provider, failure = "answered" } of ended) attempts.inc({ provider, outcome: failure });
    },
    watchCooldowns: (countCooling) => void sources.push(countCooling),
    respond: () => formatRegistry(registry),
  };
}
