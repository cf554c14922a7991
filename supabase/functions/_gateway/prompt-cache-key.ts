import { createHash } from "node:crypto";

/** OpenAI's limit in characters. */
const maxCharacters = 64;

/**
 * Returns a prompt cache key for providers that is unique to the tenant, so that tenants never share a cache. A key
 * that is too long with its prefix is hashed, so that equal keys stay equal.
 */
export function tenantCacheKey(workspaceId: string, key: string): string {
  const named = `${workspaceId}:${key}`;
  if (named.length <= maxCharacters) return named;
  return `${workspaceId}:${createHash("sha256").update(key).digest("base64url")}`.slice(0, maxCharacters);
}
