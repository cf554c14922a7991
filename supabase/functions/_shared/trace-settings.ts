import { z } from "zod";
import type { ExporterSettings } from "./span-exporter.ts";

/** The OpenTelemetry variables that define where spans are sent. The web server and the gateway read the same. */
export const traceSettings = {
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z.string().transform(readHeaders).optional(),
  OTEL_SERVICE_NAME: z.string().optional(),
} as const;

/** Returns where to send spans, or undefined without a collector. */
export function readTraceSettings(
  settings: z.infer<z.ZodObject<typeof traceSettings>>,
  defaultServiceName: string,
): ExporterSettings | undefined {
  const base = settings.OTEL_EXPORTER_OTLP_ENDPOINT?.replace(/\/+$/, "");
  const url = settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (base && `${base}/v1/traces`);
  const { OTEL_EXPORTER_OTLP_HEADERS: headers = {}, OTEL_SERVICE_NAME: serviceName = defaultServiceName } = settings;
  return url ? { url, headers, serviceName } : undefined;
}

/** Parses `name=value` pairs separated by commas, with percent-encoded values (OpenTelemetry, Protocol Exporter). */
function readHeaders(text: string, context: z.RefinementCtx): Record<string, string> {
  const pairs = text.split(",").filter((pair) => pair.trim() !== "");
  try {
    return Object.fromEntries(
      pairs.map((pair) => {
        const at = pair.indexOf("=");
        if (at < 1) throw new Error("no name");
        return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())];
      }),
    );
  } catch {
    // The message has no part of the text, because headers are often credentials.
    context.addIssue({ code: "custom", message: "must be name=value pairs with commas between" });
    return z.NEVER;
  }
}
