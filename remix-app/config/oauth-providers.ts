/** A provider of sign-ins, as people and the identity backend know it. */
interface OAuthProviderFacts {
  /** The brand's own spelling. */
  label: string;
  /** Where its pages are; forms that lead there must be let through. A self-hosted one has none of its own. */
  origin?: string;
  /** What is asked for beyond what the identity backend asks for itself. */
  scopes?: string;
  /** Asks which account to take, where one is to be linked. */
  chooseAccount?: Record<string, string>;
  /** Asks for a proof, where who is signed in has to show that it is still them. */
  proveAgain?: Record<string, string>;
}

const selectAccount = { prompt: "select_account" };

/**
 * Every provider that can be switched on, by the name that the identity backend gives it. The one list behind the
 * buttons, the link route and the linked-accounts card; `OAUTH_PROVIDERS` says which are on, and in which order.
 */
const providers = {
  google: {
    label: "Google",
    origin: "https://accounts.google.com",
    chooseAccount: selectAccount,
    proveAgain: selectAccount,
  },
  github: { label: "GitHub", origin: "https://github.com", chooseAccount: selectAccount, proveAgain: selectAccount },
  apple: { label: "Apple", origin: "https://appleid.apple.com" },
  azure: {
    label: "Microsoft",
    origin: "https://login.microsoftonline.com",
    // Without it the ID token names no address.
    scopes: "email,profile",
    chooseAccount: selectAccount,
    proveAgain: { prompt: "login" },
  },
  keycloak: { label: "Keycloak", scopes: "openid", proveAgain: { prompt: "login" } },
} as const satisfies Record<string, OAuthProviderFacts>;

export type OAuthProviderName = keyof typeof providers;

export interface OAuthProvider extends OAuthProviderFacts {
  name: OAuthProviderName;
}

export const oauthProviderNames = Object.keys(providers) as [OAuthProviderName, ...OAuthProviderName[]];

/** The settings that concern providers. */
export interface OAuthSettings {
  OAUTH_PROVIDERS: readonly OAuthProviderName[];
  OAUTH_FORM_TARGETS: readonly string[];
  SUPABASE_URL: string;
}

/** The providers that are on, in the configured order. */
export function configuredProviders({ OAUTH_PROVIDERS }: OAuthSettings): OAuthProvider[] {
  return OAUTH_PROVIDERS.map((name) => ({ name, ...providers[name] }));
}

/** The provider of this name, where it is on. */
export function findProvider(settings: OAuthSettings, name: string | undefined): OAuthProvider | null {
  return configuredProviders(settings).find((provider) => provider.name === name) ?? null;
}

/** What a provider is called, also one that is off. */
export function providerLabel(name: string): string {
  if (name in providers) return providers[name as OAuthProviderName].label;
  return `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;
}

/**
 * Every origin that the way over a provider leads through, and back: browsers hold a form's redirects against the
 * page's `form-action`.
 */
export function providerOrigins(settings: OAuthSettings): string[] {
  const own = configuredProviders(settings).flatMap(({ origin }) => origin ?? []);
  if (settings.OAUTH_PROVIDERS.length === 0) return [];
  return [...new Set([...own, ...settings.OAUTH_FORM_TARGETS, new URL(settings.SUPABASE_URL).origin])];
}
