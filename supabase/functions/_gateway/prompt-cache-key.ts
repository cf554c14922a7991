import { createHash } from "node:crypto";

/** What OpenAI takes of one, in characters. */
const maxCharacters = 64;

/**
 * A prompt cache key as providers get it: one tenant's cache is no other's. One that would be too long with its tenant
 * before it goes by its hash, so that equal keys stay equal.
 */
export function tenantCacheKey(workspaceId: string, key: string): string {
  const named = `${workspaceId}:${key}`;
  if (named.length <= maxCharacters) return named;
  return `${workspaceId}:${createHash("sha256").update(key).digest("base64url")}`.slice(0, maxCharacters);
}
