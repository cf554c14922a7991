import type { AuthorizationServer } from "oauth4webapi";
import type { Deps } from "../deps.ts";
import { AuthError } from "../errors.ts";
import { insertFlow, parseChallenge } from "../pkce.ts";
import { findInvited } from "./accept-invitation.ts";
import { authorizationServer } from "./exchange.ts";
import type { Provider } from "./provider.ts";
import { requireProvider, unsupported } from "./require-provider.ts";

/** Parameters that only this server sets. If a client sends them, they are not forwarded to the provider. */
const reserved = [
  "provider",
  "scopes",
  "client_id",
  "client_secret",
  "redirect_uri",
  "response_type",
  "state",
  "code_challenge",
  "code_challenge_method",
  "code_verifier",
];

export type Authorization = {
  redirectTo: string;
  /**
   * Query of the request: `provider`, `scopes`, the two PKCE parameters, `invite_token`. If the provider has no
   * `parameters` of its own, it receives every parameter that is not in `reserved`.
   */
  query: Record<string, string>;
  /** The account to which the identity is linked. */
  linkTo?: string;
};

/**
 * Starts a flow that signs in with a provider or links an identity.
 * @returns the provider's URL for the browser (RFC 6749 section 4.1.1), with the flow's id as state
 * @throws AuthError 400 validation_failed; 404 user_not_found for an invalid invitation; 501 not_implemented
 */
export async function beginAuthorization(deps: Deps, { query, redirectTo, linkTo }: Authorization): Promise<string> {
  const { name, config, provider } = requireProvider(deps, query.provider ?? "");
  const server = await discovered(deps, provider);
  const { invite_token: inviteToken = "", scopes = "" } = query;
  if (inviteToken && !(await findInvited(deps.db, inviteToken))) {
    throw new AuthError(404, "user_not_found", "User identified by token not found");
  }
  const state = await insertFlow(deps.db, deps, {
    providerType: name,
    method: "oauth",
    challenge: parseChallenge(query.code_challenge ?? "", query.code_challenge_method ?? ""),
    referrer: redirectTo,
    emailOptional: config.emailOptional,
    ...(inviteToken ? { inviteToken } : {}),
    ...(linkTo ? { linkingTargetId: linkTo } : {}),
  });
  const more = scopes && !provider.parameters ? scopes.split(",") : [];
  const forwardedParameters = Object.entries(query)
    .filter(([key]) => !reserved.includes(key.toLowerCase()))
    .map(([key, value]) => [key === "workos_provider" ? "provider" : key, value] as const);
  const url = new URL(server.authorization_endpoint ?? "");
  const parameters = {
    client_id: config.clientId,
    redirect_uri: config.redirectUri,
    response_type: "code",
    scope: [...provider.scopes, ...more].join(" "),
    state,
    ...(provider.parameters ?? Object.fromEntries(forwardedParameters)),
  };
  for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value);
  return url.toString();
}

async function discovered(deps: Deps, provider: Provider): Promise<AuthorizationServer> {
  try {
    return await authorizationServer(deps, provider);
  } catch (error) {
    deps.log(`identity provider at ${provider.kind === "openid" ? provider.issuer : ""}: ${error}`);
    throw unsupported("it cannot be discovered");
  }
}
