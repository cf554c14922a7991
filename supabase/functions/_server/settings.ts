import { z } from "zod";
import { maxCallSeconds } from "../_shared/longest-call.ts";
import { areMetricsOn, createMetricsAccess, type MetricsAccess, metricsSettings } from "../_shared/metrics-access.ts";

const settings = z.object({
  HOST: z.string().default("127.0.0.1"),
  PORT: z.coerce.number().int().min(0).max(65_535).default(8080),
  AI_DRAIN_SECONDS: z.coerce.number().int().min(0).max(maxCallSeconds).default(300),
  ...metricsSettings,
});

/** The settings of the process that serves all functions, in addition to those of the functions. */
export type ServerSettings = {
  hostname: string;
  port: number;
  /** How long calls may continue after the process was asked to stop. */
  drainMs: number;
  /** Decides who may read `GET /metrics`. Undefined if metrics are off. */
  metricsAccess: MetricsAccess | undefined;
};

/** @throws Error that names the wrong setting */
export function readServerSettings(env: Record<string, string | undefined>): ServerSettings {
  const present = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  const parsed = settings.safeParse(present);
  if (!parsed.success) throw new Error(`The environment is not complete: ${z.prettifyError(parsed.error)}`);
  const { HOST, PORT, AI_DRAIN_SECONDS } = parsed.data;
  const metricsAccess = areMetricsOn(parsed.data) ? createMetricsAccess(parsed.data) : undefined;
  return { hostname: HOST, port: PORT, drainMs: AI_DRAIN_SECONDS * 1_000, metricsAccess };
}
