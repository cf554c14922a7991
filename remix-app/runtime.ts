import { logWarning, setLogFormat } from "#shared/log.ts";
import { areMetricsOn, createMetricsAccess, type MetricsAccess } from "#shared/metrics-access.ts";
import { readTraceSettings } from "#shared/trace-settings.ts";
import { type Env, parseEnv } from "./config/env.server.ts";
import type { CookieJar } from "./http/cookies.ts";
import { createRequestTraces, type RequestTraces } from "./http/request-trace.ts";
import { createDeploymentMetrics, type DeploymentMetrics } from "./monitoring/deployment-metrics.ts";
import { createGathering, type GatherMetrics } from "./monitoring/gather-metrics.ts";
import { createWebMetrics, type WebMetrics } from "./monitoring/web-metrics.ts";
import { findPasskeyFaults } from "./passkeys/boot-check.ts";
import type { Schedule } from "./schedule/schedule.ts";
import { createServerSchedule } from "./schedule/server-schedule.ts";
import { openSessionServices } from "./session/edge-proxy.ts";
import { openRequestSession, type RequestSession } from "./session/request-session.ts";
import type { WorkspaceQuery } from "./session/session-state.ts";

export interface RequestCredentials {
  authorization: string | null;
  jar: CookieJar;
  isPrefetch?: boolean;
  workspace?: WorkspaceQuery | null;
  origin: string;
  clientAddress: string;
}

export interface Runtime {
  settings: Env;
  openSession(credentials: RequestCredentials): Promise<RequestSession>;
  /** Returns faults of the environment for the log. They don't stop the server. */
  findFaults(): Promise<readonly string[]>;
  schedule: Schedule;
  /** Absent if metrics are off. */
  metrics?: { access: MetricsAccess; process: WebMetrics; gather: GatherMetrics; deployment: DeploymentMetrics };
  /** Absent without a collector of spans. */
  traces?: RequestTraces;
}

/**
 * Opens the runtime that the environment selects.
 * @throws Error with one line per fault, each naming the variable and what to do
 */
export function openRuntime(source: Record<string, string | undefined>): Runtime {
  const env = parseEnv(source);
  setLogFormat(env.LOG_FORMAT);
  const services = openSessionServices(env);
  const collector = readTraceSettings(env, "gatehouse-web");
  const metrics = areMetricsOn(env) ? openMetrics(env) : undefined;
  return {
    metrics,
    schedule: createServerSchedule(env, metrics?.process.task),
    traces: collector && createRequestTraces(collector, () => logWarning("spans could not be sent to the collector")),
    settings: env,
    findFaults: async () => (await findPasskeyFaults(env)) ?? [],
    openSession: async (credentials) => openRequestSession({ env, services: await services, ...credentials }),
  };
}

function openMetrics(env: Env): Runtime["metrics"] {
  const process = createWebMetrics();
  return {
    access: createMetricsAccess(env),
    process,
    gather: createGathering(process.read),
    deployment: createDeploymentMetrics(env),
  };
}
