import { createHash } from "node:crypto";

/** OpenAI's limit for a prompt cache key, in characters. */
const maxCharacters = 64;

/**
 * Returns a prompt cache key that is unique to the workspace, so that tenants never share a provider's cache. If the
 * key is too long with the prefix, a hash replaces it, so that equal keys stay equal.
 */
export function tenantCacheKey(workspaceId: string, key: string): string {
  const named = `${workspaceId}:${key}`;
  if (named.length <= maxCharacters) return named;
  return `${workspaceId}:${createHash("sha256").update(key).digest("base64url")}`.slice(0, maxCharacters);
}
