import { createExporter, type ExporterSettings } from "../../_shared/span-exporter.ts";
import type { EndedRequest } from "../http/router.ts";
import type { EndedRun } from "../runs/ended-run.ts";
import type { GatewayMetrics } from "./gateway-metrics.ts";
import { needsAttention, requestLine, runLine } from "./log.ts";
import { createSpans } from "./spans.ts";

/** Receives calls and runs. Environment variables decide which are logged, traced and counted. */
export type Telemetry = {
  runBegan?: (run: { stream: boolean }) => void;
  run?: (run: EndedRun) => void;
  request?: (request: EndedRequest) => void;
};

export type TelemetrySettings = { log: boolean; traces?: ExporterSettings };

/**
 * Creates telemetry that logs each run that needs attention, and writes the other lines and spans that the settings
 * enable.
 */
export function createTelemetry(
  { log, traces }: TelemetrySettings,
  options: {
    waitUntil: (work: Promise<unknown>) => void;
    report: (error: unknown) => void;
    write: (line: string) => void;
    /** When the gateway's clock was 0, in milliseconds since 1970. */
    epochMs: number;
    metrics?: GatewayMetrics;
  },
): Telemetry & { flush: () => Promise<void> } {
  const { metrics } = options;
  const exporter = traces && createExporter(traces, options);
  return {
    request:
      log || metrics
        ? (request) => {
            if (log) options.write(requestLine(request));
            metrics?.request(request);
          }
        : undefined,
    runBegan: metrics?.runBegan,
    run(run) {
      metrics?.run(run);
      if (log || needsAttention(run)) options.write(runLine(run));
      exporter?.add(createSpans(run, options.epochMs));
    },
    flush: async () => exporter?.flush(),
  };
}
