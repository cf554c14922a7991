import { createClaimsVerifier } from "../_shared/claims.ts";
import { createRunStarter } from "./admission/begin-runs.ts";
import { hasSecretKey, readCallerAddress } from "./admission/caller-address.ts";
import { createCredentialReader } from "./admission/credentials.ts";
import { createRefusedCalls } from "./admission/refused-calls.ts";
import type { Gateway } from "./calls/gateway.ts";
import { createDatabase } from "./database/database.ts";
import { createEnvelopeWatch } from "./envelopes/envelope-watch.ts";
import { createWaitingCalls } from "./envelopes/waiting-calls.ts";
import type { GatewayEnvironment } from "./environment.ts";
import { createBodyReader } from "./http/body.ts";
import { getBodyMemory, getWaitingBytes } from "./http/body-memory.ts";
import { linkErrors } from "./http/errors.ts";
import { createCooldowns } from "./providers/cooldowns.ts";
import { createRouteReports } from "./providers/route-reports.ts";
import { createOpenRuns } from "./runs/open-runs.ts";
import { createSettlements } from "./runs/settlements.ts";
import type { GatewayMetrics } from "./telemetry/gateway-metrics.ts";
import { createTelemetry } from "./telemetry/telemetry.ts";

/** The part of the shared resources that one function may use. */
export type Share = {
  /** Maximum number of concurrent statements. */
  connections?: number;
  /** Counts calls for `GET /metrics`. */
  metrics?: GatewayMetrics;
  /** Aborts when the process stops. Hosted functions have none. */
  stopping?: AbortSignal;
};

/**
 * Assembles a gateway from its database, providers, limits and background work.
 * @param write writes a line to the log
 * @returns the gateway, and a function that sends waiting batches immediately
 */
export function assembleGateway(
  environment: GatewayEnvironment,
  {
    waitUntil,
    report,
    write,
    connections,
    metrics,
    stopping = new AbortController().signal,
  }: Pick<Gateway, "waitUntil" | "report"> & { write: (line: string) => void } & Share,
): Gateway & { flush: () => Promise<unknown> } {
  const { databaseUrl, supabaseUrl, tokenIssuer, publishableKey, trustedHops, secretKeys, providers, limits } =
    environment;
  linkErrors(environment.webOrigin);
  const waitingBytes = getWaitingBytes(environment.memoryLimitBytes);
  const database = createDatabase({ url: databaseUrl, connections, waitingBytes });
  const { watch } = createEnvelopeWatch({ read: database.readEnvelopes, waitUntil });
  const settlements = createSettlements({ settle: database.settleRuns, waitUntil, report });
  const refusedCalls = createRefusedCalls({ record: database.recordRefusedCalls, waitUntil, report });
  const telemetry = createTelemetry(environment.telemetry, {
    waitUntil,
    report,
    write,
    epochMs: performance.timeOrigin,
    metrics,
  });
  const now = () => performance.now();
  const routeReports = createRouteReports({ record: database.reportRoutes, now, waitUntil, report });
  const cooldowns = createCooldowns({ now, note: routeReports.note });
  metrics?.watchCooldowns(cooldowns.countCooling);
  return {
    database,
    beginRun: createRunStarter({ database, waitUntil }),
    refusedCalls,
    watchEnvelope: watch,
    stopping,
    waitForEnvelope: createWaitingCalls({ watch, maxBytes: waitingBytes / 2, stopping }),
    providers,
    cooldowns,
    limits,
    readBody: createBodyReader(getBodyMemory(environment.memoryLimitBytes)),
    readCredential: createCredentialReader(createClaimsVerifier({ supabaseUrl, issuer: tokenIssuer }), {
      identityHeaders: publishableKey ? { apikey: publishableKey } : {},
    }),
    addressOf: ({ headers }) => readCallerAddress(headers, { trustedHops, secretKeys }),
    isWebServer: ({ headers }) => hasSecretKey(headers, { secretKeys }),
    settlements,
    openRuns: createOpenRuns({ heartbeat: database.heartbeatRuns, waitUntil }),
    now,
    waitUntil,
    report,
    telemetry,
    flush: () => Promise.all([settlements.flush(), refusedCalls.flush(), routeReports.flush(), telemetry.flush()]),
  };
}
