import {
  type AuthorizationServer,
  discoveryRequest,
  type JWKSCacheInput,
  processDiscoveryResponse,
} from "oauth4webapi";
import { requestOptions } from "./request-options.ts";

/** How long discovery results are kept, as in Supabase Auth. */
const cacheMs = 3_600_000;
const maxEntries = 100;

/** A provider's discovery document, and its keys once they have been fetched. */
export type Discovered = { server: AuthorizationServer; keys: JWKSCacheInput };

/** Fetches an issuer's discovery document. @throws Error if that fails or the document names another issuer */
export type Discover = (issuer: string) => Promise<Discovered>;

/**
 * Creates a function that discovers OpenID providers (OpenID Connect Discovery section 4), at most once an hour per
 * issuer.
 */
export function openDiscovery(clock: () => Date): Discover {
  const cache = new Map<string, { at: number; found: Promise<Discovered> }>();
  return (issuer) => {
    const now = clock().getTime();
    const entry = cache.get(issuer);
    if (entry && now - entry.at < cacheMs) return entry.found;
    const found = discover(issuer);
    cache.delete(issuer);
    cache.set(issuer, { at: now, found });
    found.catch(() => {
      if (cache.get(issuer)?.found === found) cache.delete(issuer);
    });
    const [oldest] = cache.keys();
    if (cache.size > maxEntries && oldest !== undefined) cache.delete(oldest);
    return found;
  };
}

async function discover(issuer: string): Promise<Discovered> {
  const url = new URL(issuer);
  const response = await discoveryRequest(url, requestOptions(issuer));
  return { server: await processDiscoveryResponse(url, response), keys: {} };
}
