import type { Telemetry } from "./ended-run.ts";
import { createExporter, type ExporterSettings } from "./exporter.ts";
import { requestLine, runLine } from "./log.ts";
import { spansOf } from "./spans.ts";

/** What the environment says of telemetry; nothing of it by default. */
export type TelemetrySettings = { log: boolean; traces?: ExporterSettings };

/** Makes what the environment asks for: lines of JSON on standard output, spans to a collector, both, or neither. */
export function createTelemetry(
  { log, traces }: TelemetrySettings,
  options: {
    waitUntil: (work: Promise<unknown>) => void;
    report: (error: unknown) => void;
    write: (line: string) => void;
    /** When the gateway's clock stood at 0, in milliseconds since 1970. */
    epochMs: number;
  },
): Telemetry & { flush: () => Promise<void> } {
  const exporter = traces && createExporter(traces, options);
  const watched = log || exporter;
  return {
    request: log ? (request) => options.write(requestLine(request)) : undefined,
    run: watched
      ? (run) => {
          if (log) options.write(runLine(run));
          exporter?.add(spansOf(run, options.epochMs));
        }
      : undefined,
    flush: async () => exporter?.flush(),
  };
}
