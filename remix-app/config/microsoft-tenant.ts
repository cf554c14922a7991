import { z } from "zod";

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
 * The issuer that tokens of our tenant name. A domain is looked up at Microsoft, once a process.
 * @returns null where it cannot be known: then nobody is let in
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

/** Whether an address at Microsoft, as the identity backend leads to it, is our tenant's and nobody else's. */
export async function isTenantAddress(url: string, settings: TenantSettings): Promise<boolean> {
  const tenant = tenantOf(url, settings);
  if (tenant === null) return false;
  if (tenant === settings.MICROSOFT_TENANT) return true;
  const issuer = await tenantIssuer(settings);
  return issuer !== null && tenantOf(issuer, settings) === tenant;
}

/** What stands in the tenant's place of an address at Microsoft; null where it is none. */
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
