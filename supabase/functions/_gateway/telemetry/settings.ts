import { z } from "zod";
import type { TelemetrySettings } from "./telemetry.ts";

const settings = z.object({
  AI_LOG: z.enum(["off", "json"]).default("off"),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional(),
  OTEL_SERVICE_NAME: z.string().default("gatehouse-gateway"),
});

/**
 * Reads AI_LOG and the OpenTelemetry variables that define where spans are sent.
 * @throws Error that names the invalid setting
 */
export function readTelemetry(env: Record<string, string>): TelemetrySettings {
  const parsed = settings.safeParse(env);
  if (!parsed.success) throw new Error(`The settings of telemetry are wrong: ${z.prettifyError(parsed.error)}`);
  const { AI_LOG, OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_ENDPOINT: base, ...rest } = parsed.data;
  const url = rest.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? (base && `${base.replace(/\/+$/, "")}/v1/traces`);
  const headers = readHeaders(rest.OTEL_EXPORTER_OTLP_HEADERS ?? "");
  return { log: AI_LOG === "json", traces: url ? { url, headers, serviceName: OTEL_SERVICE_NAME } : undefined };
}

/** Parses `name=value` pairs separated by commas, with percent-encoded values (OpenTelemetry, Protocol Exporter). */
function readHeaders(text: string): Record<string, string> {
  const pairs = text.split(",").filter((pair) => pair.trim() !== "");
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at < 1) throw new Error("OTEL_EXPORTER_OTLP_HEADERS must be name=value pairs with commas between.");
      return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())];
    }),
  );
}
