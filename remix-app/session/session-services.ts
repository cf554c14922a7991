import { createClaimsVerifier } from "#shared/claims.ts";
import type { Env } from "../config/env.server.ts";
import { createEdgeProxy } from "./edge-proxy.ts";
import { createSessionRefresher } from "./refresh.ts";
import type { SessionServices } from "./request-session.ts";
import { fetchDeviceSessionState } from "./session-state.ts";
import { openVault } from "./vault.ts";

/** What judges sessions in this process; its refresher lets requests at the same moment share one refresh. */
export async function openSessionServices(env: Env): Promise<SessionServices> {
  const { SUPABASE_URL: supabaseUrl, SUPABASE_PUBLISHABLE_KEY: publishableKey } = env;
  const vault = await openVault(env);
  const refreshSession = createSessionRefresher({ supabaseUrl });
  const proxy = createEdgeProxy({
    verifyClaims: createClaimsVerifier({ supabaseUrl }),
    refreshSession,
    vault,
    fetchState: (accessToken, device) => fetchDeviceSessionState(accessToken, { supabaseUrl, publishableKey, device }),
  });
  return { proxy, refreshSession, vault };
}
