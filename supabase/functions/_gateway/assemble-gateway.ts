import { createClaimsVerifier } from "../_shared/claims.ts";
import { createBodyReader } from "./body.ts";
import { callerAddress } from "./caller-address.ts";
import { createCredentialReader } from "./credentials.ts";
import { createDatabase } from "./database.ts";
import type { GatewayEnvironment } from "./environment.ts";
import type { Gateway } from "./gateway.ts";
import { createOpenRuns } from "./open-runs.ts";
import { defaultTimeLimits } from "./providers/provider.ts";
import { createSettlements } from "./settlements.ts";

/** Puts a gateway together: its database, providers, limits, and what goes on behind the answers. */
export function assembleGateway(
  environment: GatewayEnvironment,
  { waitUntil, report }: Pick<Gateway, "waitUntil" | "report">,
): Gateway {
  const { databaseUrl, supabaseUrl, publishableKey, trustedHops, secretKey, providers, totalLimitMs } = environment;
  const database = createDatabase({ url: databaseUrl });
  return {
    database,
    providers,
    limits: { ...defaultTimeLimits, totalMs: totalLimitMs },
    readBody: createBodyReader(),
    readCredential: createCredentialReader(createClaimsVerifier({ supabaseUrl }), {
      identityHeaders: publishableKey ? { apikey: publishableKey } : {},
    }),
    addressOf: ({ headers }) => callerAddress(headers, { trustedHops, secretKey }),
    settlements: createSettlements({ settle: database.settleRuns, waitUntil, report }),
    openRuns: createOpenRuns({ touch: database.touchRuns, waitUntil }),
    now: () => performance.now(),
    waitUntil,
    report,
  };
}
