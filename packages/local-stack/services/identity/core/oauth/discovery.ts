import {
  type AuthorizationServer,
  discoveryRequest,
  type JWKSCacheInput,
  processDiscoveryResponse,
} from "oauth4webapi";
import { requestOptions } from "./request-options.ts";

/** How long discovery results are kept, as in Supabase Auth. */
const keptMs = 3_600_000;
const maxKept = 100;

/** A provider's discovery document, and its keys once they have been fetched. */
export type Discovered = { server: AuthorizationServer; keys: JWKSCacheInput };

/** Fetches an issuer's discovery document. @throws Error if that fails or the document names another issuer */
export type Discover = (issuer: string) => Promise<Discovered>;

/**
 * Creates a function that discovers OpenID providers (OpenID Connect Discovery section 4), at most once an hour per
 * issuer.
 */
export function openDiscovery(clock: () => Date): Discover {
  const known = new Map<string, { at: number; found: Promise<Discovered> }>();
  return (issuer) => {
    const now = clock().getTime();
    const entry = known.get(issuer);
    if (entry && now - entry.at < keptMs) return entry.found;
    const found = discover(issuer);
    known.delete(issuer);
    known.set(issuer, { at: now, found });
    found.catch(() => {
      if (known.get(issuer)?.found === found) known.delete(issuer);
    });
    const [oldest] = known.keys();
    if (known.size > maxKept && oldest !== undefined) known.delete(oldest);
    return found;
  };
}

async function discover(issuer: string): Promise<Discovered> {
  const url = new URL(issuer);
  const response = await discoveryRequest(url, requestOptions(issuer));
  return { server: await processDiscoveryResponse(url, response), keys: {} };
}
