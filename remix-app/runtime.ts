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
import { rotateSigningKeys } from "./schedule/rotate-signing-keys.ts";
import type { ScheduledTask } from "./schedule/schedule.ts";
import { sendDueMails } from "./schedule/send-due-mails.ts";
import { sendLogoutNotices } from "./schedule/send-logout-notices.ts";
import { createUpkeepTasks, warnOfBudgets, warnOfCredits } from "./schedule/upkeep.ts";
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
  /** Scheduled maintenance while the process runs. */
  tasks: readonly ScheduledTask[];
  /** Returns faults of the environment for the log. They don't stop the server. */
  findFaults(): Promise<readonly string[]>;
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
  return {
    metrics: areMetricsOn(env) ? openMetrics(env) : undefined,
    traces: collector && createRequestTraces(collector, () => logWarning("spans could not be sent to the collector")),
    settings: env,
    tasks: [
      ...createUpkeepTasks(env),
      ...(env.APP_SESSION_SECRET ? [rotateSigningKeys(env), sendLogoutNotices(env)] : []),
      ...(env.SMTP_URL ? [sendDueMails(env), warnOfBudgets(env), warnOfCredits(env)] : []),
    ],
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
