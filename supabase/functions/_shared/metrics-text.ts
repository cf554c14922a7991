import { setInterval } from "node:timers";
import { AggregatorRegistry, Counter, collectDefaultMetrics, Registry } from "prom-client";

/** The metrics of one process, which another process can send. */
export type ProcessMetrics = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>;

/**
 * Bounds of duration histograms, in seconds: from a cached answer to the longest wait that clients accept. Each further
 * bound costs every scrape a line for each set of labels.
 */
export const durationBuckets = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60];

const tickMs = 100;

/**
 * Creates a registry with the figures of Node's runtime, and with the time by which timers were late: its rate is the
 * part of the time for which the event loop was busy with a turn. Deno's own measure of the delay is always near 0.
 */
export function createProcessRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const delay = new Counter({
    name: "gatehouse_event_loop_delay_seconds_total",
    help: "Time by which a timer of 100 ms was late.",
    registers: [registry],
  });
  let expectedAt = performance.now() + tickMs;
  setInterval(() => {
    const now = performance.now();
    delay.inc(Math.max(0, now - expectedAt) / 1_000);
    expectedAt = now + tickMs;
  }, tickMs).unref();
  return registry;
}

/**
 * Returns the metrics of a server's processes in the OpenMetrics format. Each value is labelled with its process, so
 * that a replaced process resets only its own counters.
 */
export function formatProcesses(processes: ReadonlyMap<string, ProcessMetrics>): Promise<Response> {
  const labelled = [...processes].map(([process, metrics]) =>
    metrics.map(({ name, values, ...metric }) => ({
      ...metric,
      // The registry appends the suffix of counters itself.
      name: String(metric.type) === "counter" ? name.replace(/_total$/, "") : name,
      aggregator: "first",
      values: values.map((value) => ({ ...value, labels: { ...value.labels, process } })),
    })),
  );
  return formatRegistry(AggregatorRegistry.aggregate(labelled));
}

/** Returns a registry's metrics in the OpenMetrics format. */
export async function formatRegistry(
  registry: { setContentType: (type: never) => void } & Registry,
): Promise<Response> {
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
  return new Response(await registry.metrics(), {
    headers: { "content-type": registry.contentType, "cache-control": "no-store" },
  });
}
