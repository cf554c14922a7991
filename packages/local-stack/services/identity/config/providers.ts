/** Providers that Supabase Auth supports by name and lists in `GET /settings`. */
export const listedProviders = [
  "apple",
  "azure",
  "bitbucket",
  "discord",
  "facebook",
  "snapchat",
  "figma",
  "fly",
  "github",
  "gitlab",
  "google",
  "keycloak",
  "kakao",
  "linkedin",
  "linkedin_oidc",
  "notion",
  "spotify",
  "slack",
  "slack_oidc",
  "workos",
  "twitch",
  "twitter",
  "zoom",
] as const;

/** Providers that Supabase Auth supports but does not list. */
const unlistedProviders = ["vercel_marketplace", "x"] as const;

export type ProviderConfig = {
  enabled: boolean;
  clientId: string;
  secret: string;
  redirectUri: string;
  /** Base URL of the provider, without a trailing slash. If empty, the provider's public URL is used. */
  url: string;
  emailOptional: boolean;
};

/**
 * Returns whether Supabase Auth supports a provider of this name. Any other name is an OpenID provider from the
 * configuration, which only this server supports.
 */
export function isKnownProvider(name: string): boolean {
  return [...listedProviders, ...unlistedProviders].some((known) => known === name);
}

/** Reads `GOTRUE_EXTERNAL_<PROVIDER>_*`, for every name that has a client id. */
export function readProviders(env: Readonly<Record<string, string | undefined>>): ReadonlyMap<string, ProviderConfig> {
  const configured = Object.keys(env).flatMap((variable) => {
    const [, name] = /^GOTRUE_EXTERNAL_([A-Z0-9_]+)_CLIENT_ID$/.exec(variable) ?? [];
    return name ? [name.toLowerCase()] : [];
  });
  const names = new Set([...listedProviders, ...unlistedProviders, ...configured]);
  return new Map([...names].map((name) => [name, readProvider(env, name)]));
}

function readProvider(env: Readonly<Record<string, string | undefined>>, name: string): ProviderConfig {
  const value = (suffix: string) => env[`GOTRUE_EXTERNAL_${name.toUpperCase()}_${suffix}`]?.trim() ?? "";
  return {
    enabled: value("ENABLED").toLowerCase() === "true",
    clientId: value("CLIENT_ID").split(",")[0] ?? "",
    secret: value("SECRET"),
    redirectUri: value("REDIRECT_URI"),
    url: value("URL").replace(/\/+$/, ""),
    emailOptional: value("EMAIL_OPTIONAL").toLowerCase() === "true",
  };
}
