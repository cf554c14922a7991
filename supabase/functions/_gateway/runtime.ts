import { createClaimsVerifier } from "../_shared/claims.ts";
import { createBodyReader } from "./body.ts";
import { callerAddress } from "./caller-address.ts";
import { createCredentialReader } from "./credentials.ts";
import { createDatabase } from "./database.ts";
import { readEnvironment } from "./environment.ts";
import type { Gateway } from "./gateway.ts";
import { createOpenRuns } from "./open-runs.ts";
import { defaultTimeLimits } from "./providers/provider.ts";
import { createSettlements } from "./settlements.ts";

/** The part of the edge runtime that functions use. */
const runtime = globalThis as unknown as {
  Deno: {
    env: { toObject: () => Record<string, string> };
    serve: (handler: (request: Request) => Promise<Response>) => unknown;
  };
  EdgeRuntime?: { waitUntil: (work: Promise<unknown>) => void };
};

/** Serves a function's handler with what the environment gives. */
export function serve(createHandler: (gateway: Gateway) => (request: Request) => Promise<Response>): void {
  runtime.Deno.serve(createHandler(gatewayFromEnvironment()));
}

function gatewayFromEnvironment(): Gateway {
  const environment = readEnvironment(runtime.Deno.env.toObject());
  const { databaseUrl, supabaseUrl, publishableKey, trustedHops, secretKey, providers, totalLimitMs } = environment;
  const database = createDatabase({ url: databaseUrl });
  const now = () => performance.now();
  const waitUntil = (work: Promise<unknown>) => runtime.EdgeRuntime?.waitUntil(work);
  const settlements = createSettlements({ settle: database.settleRuns, waitUntil, report });
  const openRuns = createOpenRuns({ touch: database.touchRuns, waitUntil });
  // The isolate is about to end: what waits for its batch goes now.
  globalThis.addEventListener("beforeunload", () => waitUntil(settlements.flush()));
  const limits = { ...defaultTimeLimits, totalMs: totalLimitMs };
  const readBody = createBodyReader();
  const readCredential = createCredentialReader(createClaimsVerifier({ supabaseUrl }), {
    identityHeaders: publishableKey ? { apikey: publishableKey } : {},
  });
  const addressOf = ({ headers }: Request) => callerAddress(headers, { trustedHops, secretKey });
  return {
    database,
    providers,
    limits,
    readBody,
    readCredential,
    addressOf,
    settlements,
    openRuns,
    now,
    waitUntil,
    report,
  };
}

/** One line for each defect or outage: the kind of error and where, never a text that a caller or provider wrote. */
function report(error: unknown, requestId?: string): void {
  const { name, code, stack } = error instanceof Error ? (error as Error & { code?: string }) : { name: typeof error };
  const at = stack?.split("\n").find((line) => line.trimStart().startsWith("at "));
  console.error(JSON.stringify({ level: "error", error: name, code, at: at?.trim(), request_id: requestId }));
}
