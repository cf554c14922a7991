import { z } from "zod";

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

/** How long the lookup of a Microsoft tenant may take. */
const discoveryTimeoutMs = 3_000;

/** Addresses at Microsoft that take accounts of more than one organisation; the last is that of private accounts. */
const sharedTenants = ["common", "organizations", "consumers", "9188040d-6c67-4c5b-b112-36a304b66dad"];
const tenantId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const domain = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/;

/** One organisation's directory: its id or a domain that it has verified. Never an address that several share. */
export const microsoftTenant = z
  .string()
  .transform((text) => text.trim().toLowerCase())
  .refine((tenant) => (tenantId.test(tenant) || domain.test(tenant)) && !sharedTenants.includes(tenant), {
    error: "must be the id or a verified domain of one tenant, never common, organizations or consumers",
  });

export interface TenantSettings {
  MICROSOFT_TENANT?: string | undefined;
  /** Microsoft's sign-in service; national clouds have their own. */
  MICROSOFT_LOGIN_URL: string;
}

const discovery = z.object({ issuer: z.string() });
const lookedUp = new Map<string, string>();

/**
 * Returns the issuer in our tenant's tokens. A domain is looked up at Microsoft, once a process.
 * @returns null if it cannot be determined; then every sign-in is refused
 */
export async function tenantIssuer(settings: TenantSettings): Promise<string | null> {
  const { MICROSOFT_TENANT, MICROSOFT_LOGIN_URL } = settings;
  if (!MICROSOFT_TENANT) return null;
  const issuer = `${MICROSOFT_LOGIN_URL}/${MICROSOFT_TENANT}/v2.0`;
  if (tenantId.test(MICROSOFT_TENANT)) return issuer;
  const known = lookedUp.get(issuer) ?? (await lookUpIssuer(issuer));
  const tenant = known && tenantOf(known, settings);
  if (!tenant || !tenantId.test(tenant) || sharedTenants.includes(tenant)) return null;
  lookedUp.set(issuer, known);
  return known;
}

/** Whether a Microsoft address that the identity backend redirects to belongs to our tenant. */
export async function isTenantAddress(url: string, settings: TenantSettings): Promise<boolean> {
  const tenant = tenantOf(url, settings);
  if (tenant === null) return false;
  if (tenant === settings.MICROSOFT_TENANT) return true;
  const issuer = await tenantIssuer(settings);
  return issuer !== null && tenantOf(issuer, settings) === tenant;
}

/** Returns the tenant segment of a Microsoft address, or null. */
function tenantOf(url: string, { MICROSOFT_LOGIN_URL }: TenantSettings): string | null {
  if (!url.startsWith(`${MICROSOFT_LOGIN_URL}/`)) return null;
  return (
    url
      .slice(MICROSOFT_LOGIN_URL.length + 1)
      .split(/[/?#]/)[0]
      ?.toLowerCase() ?? null
  );
}

/** OpenID Connect Discovery 1.0 §4. */
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
