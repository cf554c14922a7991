import process from "node:process";
import { assembleGateway } from "../_gateway/assemble-gateway.ts";
import { createConnections } from "../_gateway/database/connections.ts";
import { readEnvironment } from "../_gateway/environment.ts";
import { logError } from "../_gateway/log-error.ts";
import { createGatewayMetrics } from "../_gateway/telemetry/gateway-metrics.ts";
import { logInfo, logWarning, setLogFormat } from "../_shared/log.ts";
import { createBackgroundTasks } from "./background.ts";
import { createFunctionsHandler } from "./functions.ts";
import type { Listen } from "./listen.ts";
import { createMetricsPage } from "./metrics-page.ts";
import { createReadiness } from "./readiness.ts";
import { startServer } from "./server.ts";
import { readServerSettings } from "./settings.ts";

/** As on Supabase, so that requests for a key's limits never keep model calls waiting. */
const keyConnections = 2;

/**
 * Serves all functions in this process with settings from the environment, until SIGTERM or SIGINT. If a setting is
 * missing or wrong, says so and ends the process with code 1.
 */
export function startGateway(env: Record<string, string | undefined>, listen: Listen): void {
  try {
    serve(env, listen);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  }
}

function serve(env: Record<string, string | undefined>, listen: Listen): void {
  const { hostname, port, drainMs, metricsAccess } = readServerSettings(env);
  const environment = readEnvironment(env);
  // Without a proxy, the server states the connection's address where a proxy would.
  const isDirect = environment.trustedHops === 0;
  const background = createBackgroundTasks(logError);
  setLogFormat("json");
  const metrics = metricsAccess && createGatewayMetrics();
  const write = (line: string) => console.log(line);
  const stopping = new AbortController();
  const services = {
    waitUntil: background.waitUntil,
    report: logError,
    write,
    metrics,
    stopping: stopping.signal,
  };
  const gatewaySettings = { ...environment, trustedHops: Math.max(environment.trustedHops, 1) };
  const gateway = assembleGateway(gatewaySettings, services);
  const keyGateway = assembleGateway(gatewaySettings, { ...services, connections: keyConnections });
  process.on("unhandledRejection", (reason) => logError(reason));
  const server = startServer({
    serveFunctions: createFunctionsHandler({ gateway, keyGateway }),
    findReason: createReadiness({
      connections: createConnections({ url: environment.databaseUrl, connections: 1, waitMs: 2_000 }),
      providers: environment.providers,
      now: () => performance.now(),
      report: logError,
    }),
    metricsPage:
      metrics &&
      createMetricsPage({
        access: metricsAccess,
        respond: metrics.respond,
        trustedHops: environment.trustedHops,
      }),
    background,
    flush: () => Promise.all([gateway.flush(), keyGateway.flush()]),
    isDirect,
    listen,
    hostname,
    port,
    onListen: () => logInfo(`listening on ${hostname}:${port}`),
    onFailure(error) {
      const taken = `Port ${port} on ${hostname} is taken: stop its owner or set PORT to another.`;
      console.error(error.code === "EADDRINUSE" ? taken : error.message);
      process.exit(1);
    },
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, async () => {
      if (stopping.signal.aborted) return;
      stopping.abort();
      const remainingTasks = await server.stop(drainMs);
      if (remainingTasks > 0) logWarning(`${remainingTasks} background tasks were not done in time`);
      process.exit(0);
    });
  }
}
