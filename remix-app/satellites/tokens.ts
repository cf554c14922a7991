import { createHash, createHmac, randomBytes } from "node:crypto";
import { CompactSign, compactVerify, decodeProtectedHeader } from "jose";
import { z } from "zod";
import type { KeyRing } from "../keys/derived-key.ts";
import type { IssuedSession } from "./app-calls.ts";

const secretBytes = 32;

/** A new opaque text of 256 random bits behind a prefix. */
export function newOpaqueToken(prefix: string): string {
  return prefix + randomBytes(secretBytes).toString("base64url");
}

/** SHA-256 of a text as the Data API takes a bytea. Texts of 256 random bits need no slow hash. */
export function hashOf(text: string): string {
  return `\\x${createHash("sha256").update(text).digest("hex")}`;
}

/**
 * Derives a token's successor with a secret key. Servers that refresh one token at the same time derive the same successor,
 * and the database accepts it once.
 */
export function successorBytes(token: string, { key, part }: { key: Uint8Array; part: string }): Buffer {
  return createHmac("sha256", key).update(`${part} ${token}`).digest();
}

/**
 * Refreshes by the successor that follows from the current key; where the token leads nowhere by it, by those of earlier
 * secrets. The database makes none of these new: it knows one only where the token was refreshed before our secret was
 * changed, and within that refresh's grace.
 */
export async function refreshByAnyKey<Refreshed extends { answer: object }>(
  { current, earlier }: KeyRing,
  refresh: (key: Uint8Array) => Promise<Refreshed>,
): Promise<Refreshed> {
  let refreshed = await refresh(current.key);
  for (const { key } of earlier) {
    if (!("refused" in refreshed.answer) || refreshed.answer.refused !== "token") break;
    refreshed = await refresh(key);
  }
  return refreshed;
}

/** An app session as the database describes it (private.app_session_summary). */
export const sessionSummary = z.object({
  id: z.uuid(),
  /** The handoff that opened it: the `sid` by which the platform tells the app that its sessions have ended. */
  handoff: z.uuid(),
  audience: z.enum(["app", "central"]),
  user: z.uuid(),
  factor: z.uuid().nullable(),
  issuedAt: z.string(),
  expiresAt: z.string(),
});

export type SessionSummary = z.infer<typeof sessionSummary>;

const type = "app-session+jwt";
const claimsSchema = z.object({ sub: z.uuid(), sid: z.uuid(), jti: z.string().min(43) });
const seconds = (time: string) => Math.floor(Date.parse(time) / 1000);

export interface IssueOptions {
  keys: KeyRing;
  issuer: string;
  app: string;
  /** The token's own random part; the database has its SHA-256. */
  jti: string;
}

/** Makes the token of a session: who, in which app, by which factor, until when, signed. */
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
    iat: seconds(session.issuedAt),
    exp: seconds(session.expiresAt),
  };
  return { token: await signToken(claims, { type, keys }), expiresAt: new Date(session.expiresAt).toISOString() };
}

/** The random part of a token that we signed; null for any other text. */
export async function readSessionToken(token: string, keys: KeyRing): Promise<string | null> {
  const claims = claimsSchema.safeParse(await verifyToken(token, { type, keys }));
  return claims.success ? claims.data.jti : null;
}

/** Whether a bearer names itself an app session, so that it is judged as one and as nothing else. */
export function isSessionToken(token: string): boolean {
  return typeOf(token) === type;
}

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
function typeOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).typ;
  } catch {
    return undefined;
  }
}
