import { CompactSign, compactVerify, decodeProtectedHeader } from "jose";
import type { KeyRing } from "../keys/key-ring.ts";

/** What a token of ours is for; it is part of what is signed (RFC 8725 §3.11), so that none passes for another. */
export type TokenType = "mfa-proof+jwt" | "app-session+jwt";

/** Signs claims with the ring's current key (JWS, HS256). The same claims give the same token. */
export function signToken(claims: object, { type, keys }: { type: TokenType; keys: KeyRing }): Promise<string> {
  return new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader({ alg: "HS256", typ: type, kid: keys.current.id })
    .sign(keys.current.key);
}

/**
 * The claims of a token that a key of the ring has signed for this purpose, else null. Its times are not looked at:
 * they are the database's to judge, which knows what has been revoked.
 */
export async function verifyToken(
  token: string,
  { type, keys }: { type: TokenType; keys: KeyRing },
): Promise<unknown | null> {
  try {
    const { payload, protectedHeader } = await compactVerify(
      token,
      ({ kid }) => {
        const key = keys.find(kid ?? "");
        if (!key) throw new Error("no such key");
        return key;
      },
      { algorithms: ["HS256"] },
    );
    return protectedHeader.typ === type ? JSON.parse(new TextDecoder().decode(payload)) : null;
  } catch {
    return null;
  }
}

/** What a token says that it is for, before anybody has checked it. */
export function typeOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).typ;
  } catch {
    return undefined;
  }
}
