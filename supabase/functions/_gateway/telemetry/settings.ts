import { z } from "zod";
import { readTraceSettings, traceSettings } from "../../_shared/trace-settings.ts";
import type { TelemetrySettings } from "./telemetry.ts";

const settings = z.object({ AI_LOG: z.enum(["off", "json"]).default("off"), ...traceSettings });

/**
 * Reads AI_LOG and the OpenTelemetry variables that define where spans are sent.
 * @throws Error that names the invalid setting
 */
export function readTelemetry(env: Record<string, string>): TelemetrySettings {
  const parsed = settings.safeParse(env);
  if (!parsed.success) throw new Error(`The settings of telemetry are wrong: ${z.prettifyError(parsed.error)}`);
  return { log: parsed.data.AI_LOG === "json", traces: readTraceSettings(parsed.data, "gatehouse-gateway") };
}
