import { type ProviderConfig, type ProviderName, providerNames } from "../../config/providers.ts";
import type { Deps } from "../deps.ts";
import { AuthError, invalid } from "../errors.ts";
import { type Challenge, insertFlow } from "../pkce.ts";
import type { Provider } from "./profile.ts";
import { providers } from "./providers.ts";

/** Parameters that are this server's to set, whatever a client passes on. */
const reserved = [
  "provider",
  "scopes",
  "client_id",
  "client_secret",
  "redirect_uri",
  "response_type",
  "scope",
  "state",
  "code_challenge",
  "code_challenge_method",
  "code_verifier",
];

export type ConfiguredProvider = { name: ProviderName; config: ProviderConfig; provider: Provider };

/**
 * The provider of this name, if it is switched on and has all that it needs.
 * @throws AuthError 400 validation_failed; 501 for one that this server cannot speak with
 */
export function requireProvider({ config }: Deps, given: string): ConfiguredProvider {
  const name = providerNames.find((known) => known === given.toLowerCase());
  const unsupported = (reason: string) => invalid(`Unsupported provider: ${reason}`);
  if (!name) throw unsupported(`Provider ${given} could not be found`);
  const settings = config.providers[name];
  if (!settings.enabled) throw unsupported("provider is not enabled");
  if (!settings.clientId || !settings.secret || !settings.redirectUri) {
    throw unsupported("missing OAuth client ID, secret or redirect URI");
  }
  if (name !== "keycloak" && name !== "github" && name !== "azure") {
    throw new AuthError(501, "not_implemented", `The local identity server cannot speak with ${name}`);
  }
  if (name === "keycloak" && !settings.url) throw unsupported("unable to find URL for the Keycloak provider");
  return { name, config: settings, provider: providers[name](settings) };
}

export type Authorization = {
  provider: string;
  scopes: string;
  challenge: Challenge | undefined;
  redirectTo: string;
  /** Query of the request; what is not reserved is passed on. */
  query: Record<string, string>;
  /** The account that the identity shall be linked to. */
  linkTo?: string;
};

/** Begins a flow. @returns where the browser goes: the provider, RFC 6749 section 4.1.1, with the flow's id as state */
export async function beginAuthorization(deps: Deps, given: Authorization): Promise<string> {
  const { name, config, provider } = requireProvider(deps, given.provider);
  const state = await insertFlow(deps.db, deps, {
    providerType: name,
    method: "oauth",
    challenge: given.challenge,
    referrer: given.redirectTo,
    emailOptional: config.emailOptional,
    ...(given.linkTo ? { linkingTargetId: given.linkTo } : {}),
  });
  const url = new URL(provider.authorizationUrl);
  for (const [key, value] of Object.entries(given.query)) {
    if (!reserved.includes(key.toLowerCase())) url.searchParams.set(key, value);
  }
  const more = given.scopes ? given.scopes.split(",") : [];
  url.searchParams.set("client_id", config.clientId);
  url.searchParams.set("redirect_uri", config.redirectUri);
  url.searchParams.set("response_type", "code");
  url.searchParams.set("scope", [...provider.scopes, ...more].join(" "));
  url.searchParams.set("state", state);
  return url.toString();
}
