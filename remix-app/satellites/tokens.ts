import { CompactSign, compactVerify, decodeProtectedHeader } from "jose";
import { z } from "zod";
import type { KeyRing } from "../crypto/derived-key.ts";
import type { IssuedSession } from "./app-calls.ts";

/** An app session as the database describes it (private.app_session_summary). */
export const sessionSummary = z.object({
  id: z.uuid(),
  /** The handoff that opened the session. Logout tokens name it as the `sid`. */
  handoff: z.uuid(),
  audience: z.enum(["app", "central"]),
  user: z.uuid(),
  factor: z.uuid().nullable(),
  issuedAt: z.string(),
  expiresAt: z.string(),
});

export type SessionSummary = z.infer<typeof sessionSummary>;

const sessionTokenType = "app-session+jwt";
const claimsSchema = z.object({ sub: z.uuid(), sid: z.uuid(), jti: z.string().min(43) });
const toUnixSeconds = (time: string) => Math.floor(Date.parse(time) / 1000);

export interface IssueOptions {
  keys: KeyRing;
  issuer: string;
  app: string;
  /** The token's random part. The database stores the SHA-256 of this part. */
  jti: string;
}

/** Signs a session token, which states the session's user, app, factor and expiry. */
export async function issueSessionToken(session: SessionSummary, options: IssueOptions): Promise<IssuedSession> {
  const { keys, issuer, app, jti } = options;
  const claims = {
    iss: issuer,
    aud: session.audience === "central" ? issuer : app,
    client_id: app,
    sub: session.user,
    sid: session.id,
    factor: session.factor,
    jti,
    iat: toUnixSeconds(session.issuedAt),
    exp: toUnixSeconds(session.expiresAt),
  };
  return {
    token: await signToken(claims, { type: sessionTokenType, keys }),
    expiresAt: new Date(session.expiresAt).toISOString(),
  };
}

/** Returns the random part of a token that we signed, or null for any other text. */
export async function readSessionToken(token: string, keys: KeyRing): Promise<string | null> {
  const claims = claimsSchema.safeParse(await verifyToken(token, { type: sessionTokenType, keys }));
  return claims.success ? claims.data.jti : null;
}

/**
 * Returns whether a bearer token has the type of an app session. Such a token is never checked as a user's access
 * token.
 */
export function isSessionToken(token: string): boolean {
  return typeOf(token) === sessionTokenType;
}

/**
 * A token's purpose. The signature covers the purpose, so that a token of one kind is never accepted as another kind
 * (RFC 8725 §3.11).
 */
export type TokenType = "mfa-proof+jwt" | "app-session+jwt";

/** Signs claims with the ring's current key (JWS, HS256). The same claims give the same token. */
export function signToken(claims: object, { type, keys }: { type: TokenType; keys: KeyRing }): Promise<string> {
  return new CompactSign(new TextEncoder().encode(JSON.stringify(claims)))
    .setProtectedHeader({ alg: "HS256", typ: type, kid: keys.current.id })
    .sign(keys.current.key);
}

/**
 * Returns the claims of a token that a key of the ring signed for this purpose, or null. Does not check expiry or
 * revocation, which the database checks.
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

/** Reads the purpose that a token declares, without verifying the token. */
function typeOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).typ;
  } catch {
    return undefined;
  }
}
