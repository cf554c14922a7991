/** OAuth providers that Supabase Auth knows; `/settings` lists each, in this spelling. */
export const providerNames = [
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

export type ProviderName = (typeof providerNames)[number];
export type ProviderConfig = {
  enabled: boolean;
  clientId: string;
  secret: string;
  redirectUri: string;
  /** Base of a self-hosted provider's addresses, where it takes one. */
  url: string;
  emailOptional: boolean;
};

/** Reads `GOTRUE_EXTERNAL_<PROVIDER>_*`. */
export function readProviders(env: NodeJS.ProcessEnv): Record<ProviderName, ProviderConfig> {
  const entries = providerNames.map((name): [ProviderName, ProviderConfig] => {
    const value = (suffix: string) => env[`GOTRUE_EXTERNAL_${name.toUpperCase()}_${suffix}`]?.trim() ?? "";
    return [
      name,
      {
        enabled: value("ENABLED").toLowerCase() === "true",
        clientId: value("CLIENT_ID").split(",")[0] ?? "",
        secret: value("SECRET"),
        redirectUri: value("REDIRECT_URI"),
        url: value("URL").replace(/\/+$/, ""),
        emailOptional: value("EMAIL_OPTIONAL").toLowerCase() === "true",
      },
    ];
  });
  return Object.fromEntries(entries) as Record<ProviderName, ProviderConfig>;
}
