import { randomUUID } from "node:crypto";
import { hashSync } from "@node-rs/bcrypt";
import { decodeJwt, SignJWT } from "jose";
import { admin, call, expectOk } from "./http.ts";
import { target } from "./target.ts";

export const password = "correct horse 1";
/** The password's bcrypt hash, at a cost that keeps the suite fast. */
const passwordHash = hashSync(password, { cost: 5 });

export type Account = { id: string; email: string };
// biome-ignore lint/suspicious/noExplicitAny: claims are asserted one by one
export type Session = { accessToken: string; refreshToken: string; claims: any; user: any; id: string };

/** Returns a new, unused email. */
export function newEmail(): string {
  return `${randomUUID()}@example.test`;
}

/** Creates a confirmed account with `password`, unless `fields` override it. */
export async function newAccount(fields: Record<string, unknown> = {}): Promise<Account> {
  const email = newEmail();
  const secret = "password" in fields ? {} : { password_hash: passwordHash };
  const body = expectOk(
    await admin("POST /admin/users", { body: { email, ...secret, email_confirm: true, ...fields } }),
  );
  return { id: body.id, email: body.email };
}

/** Parses a token response. */
// biome-ignore lint/suspicious/noExplicitAny: as the answer's body
export function sessionOf(body: any): Session {
  const claims = decodeJwt(body.access_token);
  return {
    accessToken: body.access_token,
    refreshToken: body.refresh_token,
    claims,
    user: body.user,
    id: String(claims.session_id),
  };
}

export async function signIn(account: { email: string }, secret = password): Promise<Session> {
  const answer = await call("POST /token?grant_type=password", { body: { email: account.email, password: secret } });
  return sessionOf(expectOk(answer));
}

/** Creates an account and signs it in. */
export async function newSession(fields: Record<string, unknown> = {}): Promise<{ account: Account } & Session> {
  const account = await newAccount(fields);
  return { account, ...(await signIn(account)) };
}

export function refresh(refreshToken: string, url?: string) {
  return call("POST /token?grant_type=refresh_token", {
    body: { refresh_token: refreshToken },
    ...(url ? { url } : {}),
  });
}

/** Signs a forged token with the shared secret. */
export function forgeToken(claims: Record<string, unknown>, secret = target.jwtSecret): Promise<string> {
  return new SignJWT(claims).setProtectedHeader({ alg: "HS256", typ: "JWT" }).sign(new TextEncoder().encode(secret));
}

export const inAnHour = () => Math.floor(Date.now() / 1_000) + 3_600;
