import { one, transaction } from "../db.ts";
import type { Caller, Deps } from "./deps.ts";
import { AuthError, invalid } from "./errors.ts";
import { type FlowState, isFlowExpired, requireVerifier } from "./pkce.ts";
import { type SignedIn, signIn } from "./tokens.ts";
import { getUserById } from "./users.ts";

/**
 * Exchanges a flow's code, which is valid once. A wrong verifier does not use up the code. Ignores bans, as Supabase
 * Auth does.
 * @throws AuthError 404 flow_state_not_found; 422 flow_state_expired; 400 bad_code_verifier, validation_failed
 */
export async function exchangeCode(
  deps: Deps,
  { code, verifier, caller }: { code: string; verifier: string; caller: Caller },
): Promise<SignedIn> {
  if (!code || !verifier) {
    throw invalid("invalid request: both auth code and code verifier should be non-empty");
  }
  return transaction(deps.db, async (tx) => {
    const flow = await one<FlowState>(tx, "select * from auth.flow_state where auth_code = $1 for update", [code]);
    if (!flow?.user_id) {
      throw new AuthError(404, "flow_state_not_found", "invalid flow state, no valid flow state found");
    }
    if (isFlowExpired(flow, deps)) {
      throw new AuthError(422, "flow_state_expired", "invalid flow state, flow state has expired");
    }
    const user = await getUserById(tx, { id: flow.user_id });
    requireVerifier(flow, verifier);
    const signedIn = await signIn(tx, { deps, user, method: flow.authentication_method, caller });
    await tx.query("delete from auth.flow_state where id = $1", [flow.id]);
    const { provider_access_token: token, provider_refresh_token: refreshToken } = flow;
    return {
      ...signedIn,
      body: {
        ...signedIn.body,
        ...(token ? { provider_token: token } : {}),
        ...(refreshToken ? { provider_refresh_token: refreshToken } : {}),
      },
    };
  });
}
