import { createHash, timingSafeEqual } from "node:crypto";

export type KeyKind = "publishable" | "secret";
export type KeyRing = { identify: (key: string) => KeyKind | undefined };

/** The database role that each kind of key stands for. */
export const roleOfKey = { publishable: "anon", secret: "service_role" } as const satisfies Record<KeyKind, string>;

const digest = (text: string) => createHash("sha256").update(text).digest();

/** Tells which of the project's keys a text is, in a time that does not depend on how much of it is right. */
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

/** An opaque key, as opposed to a JSON Web Token. */
export function isOpaqueKey(credential: string): boolean {
  return credential.startsWith("sb_");
}

/** The token of an `Authorization: Bearer` header; undefined where there is none of that scheme. */
export function bearerToken(authorization: string | undefined): string | undefined {
  return authorization?.match(/^Bearer(?:\s+(.*))?$/i)?.[1]?.trim();
}
