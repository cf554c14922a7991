import type { Config } from "../../config/config.ts";
import { isKnownProvider, type ProviderConfig } from "../../config/providers.ts";
import { AuthError, invalid } from "../errors.ts";
import { github, gitlab, keycloak, slackOidc } from "./api-providers.ts";
import { apple, azure, google, linkedinOidc, openId } from "./openid-providers.ts";
import type { Provider } from "./provider.ts";

/** The Supabase Auth providers that this server supports. */
const builtInProviders = new Map<string, (config: ProviderConfig) => Provider>([
  ["apple", apple],
  ["azure", azure],
  ["github", github],
  ["gitlab", gitlab],
  ["google", google],
  ["keycloak", keycloak],
  ["linkedin_oidc", linkedinOidc],
  ["slack_oidc", slackOidc],
]);

export type ConfiguredProvider = { name: string; config: ProviderConfig; provider: Provider };

/** Creates the error for an unusable provider. Clients see the reason. */
export function unsupported(reason: string): AuthError {
  return invalid(`Unsupported provider: ${reason}`);
}

/**
 * Returns the provider with this name, if it is enabled and complete.
 * @throws AuthError 400 validation_failed; 501 for a provider that this server does not support
 */
export function requireProvider(
  { config }: { config: Pick<Config, "providers"> },
  providerName: string,
): ConfiguredProvider {
  const name = providerName.toLowerCase();
  const settings = config.providers.get(name);
  if (!settings) throw unsupported(`Provider ${providerName} could not be found`);
  if (!settings.enabled) throw unsupported("provider is not enabled");
  if (!settings.clientId || !settings.secret || !settings.redirectUri) {
    throw unsupported("missing OAuth client ID, secret or redirect URI");
  }
  const shape = builtInProviders.get(name) ?? (isKnownProvider(name) ? undefined : openId);
  if (!shape) {
    throw new AuthError(501, "not_implemented", `The local identity server cannot speak with ${name}`);
  }
  if (!settings.url && (name === "keycloak" || shape === openId)) {
    throw unsupported(`unable to find URL for the provider ${name}`);
  }
  return { name, config: settings, provider: shape(settings) };
}
