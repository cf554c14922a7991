import { one, type Sql, transaction } from "../../db.ts";
import { isUuid } from "../admin-users.ts";
import type { Caller, Deps } from "../deps.ts";
import { AuthError, OAuthError, unexpected } from "../errors.ts";
import { type FlowState, isFlowExpired } from "../pkce.ts";
import { type SignedIn, signIn } from "../tokens.ts";
import { findUserById, type User } from "../users.ts";
import { acceptInvitation } from "./accept-invitation.ts";
import { withAppleName } from "./apple-user.ts";
import { ExchangeError, type Redeemed, redeemCode } from "./exchange.ts";
import { linkIdentity } from "./link-identity.ts";
import type { Profile, ProviderTokens } from "./profile.ts";
import { requireProvider } from "./require-provider.ts";
import { resolveAccount } from "./resolve-account.ts";

/**
 * Returns the flow named by a callback's state.
 * @throws AuthError 400 bad_oauth_callback, bad_oauth_state, flow_state_already_used; 422 user_not_found
 */
export async function requireFlow(deps: Deps, state: string): Promise<FlowState> {
  if (!state) throw new AuthError(400, "bad_oauth_callback", "OAuth state parameter missing");
  if (!isUuid(state)) throw new AuthError(400, "bad_oauth_state", "OAuth state parameter is invalid");
  const flow = await one<FlowState>(deps.db, "select * from auth.flow_state where id = $1", [state]);
  if (!flow) throw new AuthError(400, "bad_oauth_state", "OAuth state not found or expired");
  if (isFlowExpired(flow, deps)) throw new AuthError(400, "bad_oauth_state", "OAuth state has expired");
  if (flow.code_challenge && flow.user_id) {
    throw new AuthError(400, "flow_state_already_used", "State has already been used");
  }
  const { linking_target_id: id } = flow;
  if (id && !(await findUserById(deps.db, { id }))) {
    throw new AuthError(422, "user_not_found", "Linking target user not found");
  }
  return flow;
}

export type CallbackOutcome =
  | { kind: "code"; code: string }
  | { kind: "signed-in"; signedIn: SignedIn; tokens: ProviderTokens };

type Callback = { flow: FlowState; answer: Record<string, string>; aud: string; redirectTo: string; caller: Caller };

/**
 * Completes a flow with the provider's response (RFC 6749 section 4.1.2).
 * @throws OAuthError with the provider's own error; AuthError as thrown by `resolveAccount` and `linkIdentity`
 */
export async function completeFlow(deps: Deps, callback: Callback): Promise<CallbackOutcome> {
  const { flow, answer, caller } = callback;
  if (answer.error) throw new OAuthError(answer.error, answer.error_description ?? "");
  if (!answer.code) {
    throw new AuthError(400, "bad_oauth_callback", "OAuth callback with missing authorization code missing");
  }
  const { tokens, profile } = await askProvider(deps, callback);
  if (profile.emails.length === 0 && !flow.email_optional) {
    throw unexpected("Error getting user email from external provider");
  }
  return transaction(deps.db, async (tx) => {
    const locked = await one<FlowState>(tx, "select * from auth.flow_state where id = $1 for update", [flow.id]);
    if (!locked || locked.user_id) {
      throw new AuthError(400, "flow_state_already_used", "State has already been used");
    }
    const user = await settleAccount(tx, { deps, callback, profile });
    if (locked.auth_code) {
      await tx.query(
        `update auth.flow_state set user_id = $2, provider_access_token = $3, provider_refresh_token = $4,
           auth_code_issued_at = $5, updated_at = $5 where id = $1`,
        [flow.id, user.id, tokens.accessToken, tokens.refreshToken, deps.clock()],
      );
      return { kind: "code", code: locked.auth_code };
    }
    await tx.query("delete from auth.flow_state where id = $1", [flow.id]);
    return { kind: "signed-in", tokens, signedIn: await signIn(tx, { deps, user, method: "oauth", caller }) };
  });
}

async function askProvider(deps: Deps, { flow, answer }: Callback): Promise<Redeemed> {
  const { code = "", user } = answer;
  const configured = requireProvider(deps, flow.provider_type);
  try {
    const redeemed = await redeemCode(deps, configured, { code, state: flow.id, issuer: answer.iss });
    if (configured.name !== "apple" || !user) return redeemed;
    return { ...redeemed, profile: withAppleName(redeemed.profile, user) };
  } catch (error) {
    if (error instanceof ExchangeError) {
      throw unexpected(`Unable to exchange external code: ${code.slice(0, 4)}`, error);
    }
    throw unexpected("Error getting user profile from external provider", error);
  }
}

function settleAccount(
  tx: Sql,
  { deps, callback, profile }: { deps: Deps; callback: Callback; profile: Profile },
): Promise<User> {
  const { flow, aud, redirectTo } = callback;
  const common = {
    deps,
    provider: flow.provider_type,
    profile,
    aud,
    redirectTo,
    emailOptional: flow.email_optional,
  };
  const { linking_target_id: userId, invite_token: token } = flow;
  if (userId) return linkIdentity(tx, { ...common, userId });
  return token ? acceptInvitation(tx, { ...common, token }) : resolveAccount(tx, common);
}
