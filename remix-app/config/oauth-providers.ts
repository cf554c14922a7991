import { z } from "zod";

interface OAuthProviderFacts {
  /** The provider's name as the brand spells it. */
  label: string;
  /**
   * Origin of the provider's pages, to which forms must be allowed to redirect. A self-hosted provider has no fixed
   * origin.
   */
  origin?: string;
  /** Scopes to request in addition to those that the identity backend requests itself. */
  scopes?: string;
  /** Parameters that let the user choose which account to link. */
  chooseAccount?: Record<string, string>;
  /** Parameters that make the provider ask a signed-in user to sign in again. */
  proveAgain?: Record<string, string>;
}

const selectAccount = { prompt: "select_account" };

/**
 * Every provider that can be enabled, by its name at the identity backend. The buttons, the link route and the
 * linked-accounts card all use this list; `OAUTH_PROVIDERS` sets which are enabled, and in which order.
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
    // Without these scopes, the ID token has no email address.
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

export interface OAuthSettings {
  OAUTH_PROVIDERS: readonly OAuthProviderName[];
  OAUTH_FORM_TARGETS: readonly string[];
  SUPABASE_URL: string;
}

/** Returns the enabled providers in the configured order. */
export function configuredProviders({ OAUTH_PROVIDERS }: OAuthSettings): OAuthProvider[] {
  return OAUTH_PROVIDERS.map((name) => ({ name, ...providers[name] }));
}

/** Returns the provider with this name if it is enabled. */
export function findProvider(settings: OAuthSettings, name: string | undefined): OAuthProvider | null {
  return configuredProviders(settings).find((provider) => provider.name === name) ?? null;
}

/** Returns the label of a provider, even if it is disabled. */
export function providerLabel(name: string): string {
  if (name in providers) return providers[name as OAuthProviderName].label;
  return `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`;
}

/**
 * Returns every origin that a sign-in with a provider passes through, including the way back. Browsers check a form's
 * redirects against the page's `form-action`.
 */
export function providerOrigins(settings: OAuthSettings): string[] {
  const own = configuredProviders(settings).flatMap(({ origin }) => origin ?? []);
  if (settings.OAUTH_PROVIDERS.length === 0) return [];
  return [...new Set([...own, ...settings.OAUTH_FORM_TARGETS, new URL(settings.SUPABASE_URL).origin])];
}

/** Timeout for the lookup of a Microsoft tenant. */
const discoveryTimeoutMs = 3_000;

/** Microsoft tenants that accept accounts of more than one organisation; the last is the one for personal accounts. */
const sharedTenants = ["common", "organizations", "consumers", "9188040d-6c67-4c5b-b112-36a304b66dad"];
const tenantId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const domain = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/;

/**
 * One organisation's tenant: its id, or a domain that it has verified. Never a tenant that several organisations share.
 */
export const microsoftTenant = z
  .string()
  .transform((text) => text.trim().toLowerCase())
  .refine((tenant) => (tenantId.test(tenant) || domain.test(tenant)) && !sharedTenants.includes(tenant), {
    error: "must be the id or a verified domain of one tenant, never common, organizations or consumers",
  });

export interface TenantSettings {
  MICROSOFT_TENANT?: string | undefined;
  /** Microsoft's sign-in service. National clouds have their own. */
  MICROSOFT_LOGIN_URL: string;
}

const discovery = z.object({ issuer: z.string() });
const issuers = new Map<string, string>();

/**
 * Returns the issuer in our tenant's tokens. If the tenant is configured by its domain, asks Microsoft for the issuer
 * once per process.
 * @returns null if the issuer cannot be determined; every sign-in is then refused
 */
export async function tenantIssuer(settings: TenantSettings): Promise<string | null> {
  const { MICROSOFT_TENANT, MICROSOFT_LOGIN_URL } = settings;
  if (!MICROSOFT_TENANT) return null;
  const issuer = `${MICROSOFT_LOGIN_URL}/${MICROSOFT_TENANT}/v2.0`;
  if (tenantId.test(MICROSOFT_TENANT)) return issuer;
  const tokenIssuer = issuers.get(issuer) ?? (await lookUpIssuer(issuer));
  const tenant = tokenIssuer && tenantOf(tokenIssuer, settings);
  if (!tenant || !tenantId.test(tenant) || sharedTenants.includes(tenant)) return null;
  issuers.set(issuer, tokenIssuer);
  return tokenIssuer;
}

/** Returns whether a Microsoft URL that the identity backend redirects to belongs to our tenant. */
export async function isTenantAddress(url: string, settings: TenantSettings): Promise<boolean> {
  const tenant = tenantOf(url, settings);
  if (tenant === null) return false;
  if (tenant === settings.MICROSOFT_TENANT) return true;
  const issuer = await tenantIssuer(settings);
  return issuer !== null && tenantOf(issuer, settings) === tenant;
}

/** Returns the tenant segment of a Microsoft URL, or null. */
function tenantOf(url: string, { MICROSOFT_LOGIN_URL }: TenantSettings): string | null {
  if (!url.startsWith(`${MICROSOFT_LOGIN_URL}/`)) return null;
  return (
    url
      .slice(MICROSOFT_LOGIN_URL.length + 1)
      .split(/[/?#]/)[0]
      ?.toLowerCase() ?? null
  );
}

/** Looks up the issuer of a tenant (OpenID Connect Discovery 1.0 §4). */
async function lookUpIssuer(address: string): Promise<string | null> {
  try {
    const response = await fetch(`${address}/.well-known/openid-configuration`, {
      redirect: "error",
      signal: AbortSignal.timeout(discoveryTimeoutMs),
    });
    return discovery.parse(await response.json()).issuer;
  } catch {
    return null;
  }
}
