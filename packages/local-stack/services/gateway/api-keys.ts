import { createHash, timingSafeEqual } from "node:crypto";

export type KeyKind = "publishable" | "secret";
export type KeyRing = { identify: (key: string) => KeyKind | undefined };

/** The database role that each kind of key represents. */
export const roleOfKey = { publishable: "anon", secret: "service_role" } as const satisfies Record<KeyKind, string>;

const digest = (text: string) => createHash("sha256").update(text).digest();

/**
 * Identifies keys of the project. Compares digests in constant time, so timing does not reveal how much of a guess is
 * correct.
 */
export function createKeyRing(keys: Record<KeyKind, string>): KeyRing {
  const publishable = digest(keys.publishable);
  const secret = digest(keys.secret);
  return {
    identify(key) {
      const candidate = digest(key);
      if (timingSafeEqual(candidate, secret)) return "secret";
      return timingSafeEqual(candidate, publishable) ? "publishable" : undefined;
    },
  };
}

/** Returns whether a credential is an opaque key, not a JSON Web Token. */
export function isOpaqueKey(credential: string): boolean {
  return credential.startsWith("sb_");
}

/** Returns the token of an `Authorization: Bearer` header; undefined for any other scheme. */
export function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^Bearer(?:\s+(.*))?$/i)?.[1]?.trim();
}
