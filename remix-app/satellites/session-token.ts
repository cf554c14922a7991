import { z } from "zod";
import type { KeyRing } from "../keys/key-ring.ts";
import type { IssuedSession } from "./app-calls.ts";
import { signToken, typeOf, verifyToken } from "./signed-token.ts";

/** An app session as the database describes it (private.app_session_summary). */
export const sessionSummary = z.object({
  id: z.uuid(),
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
