import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { Pool } from "pg";
import type { Claims, Database } from "../database.ts";

/** Runs statements in a test's transaction or on the connections of a pool. */
type Runner = Pick<Database, "query" | "asRole"> | { query(sql: string, values: unknown[]): Promise<unknown[]> };

/** What a browser knows about the challenge that it began. */
export interface NewChallenge {
  id: string;
  secret: string;
  pairCode: string;
}

export const bytea = (text: string) => `\\x${createHash("sha256").update(text).digest("hex")}`;

/** Calls a function as our server does, with one jsonb argument or a bare value, and returns its answer. */
export async function call<Answer>(db: Runner, name: string, argument: object | string): Promise<Answer> {
  const value = typeof argument === "string" ? argument : JSON.stringify(argument);
  const ask = () => db.query(`select private.${name}($1) as answer`, [value]);
  const rows = "asRole" in db ? await db.asRole("service_role", ask) : await ask();
  return (rows as { answer: Answer }[])[0]?.answer as Answer;
}

/** Runs each statement on a connection of a pool. */
export const runnerOf = (pool: Pool): Runner => ({
  query: async (sql: string, values: unknown[]) => (await pool.query(sql, values)).rows,
});

/** Begins a challenge for the browser whose session has these claims. */
export async function beginChallenge(
  db: Runner,
  { kind, claims }: { kind: "qr" | "mfa_mobile"; claims: Claims },
): Promise<NewChallenge & { answer: { outcome: string; expiresAt?: string; retryAfterSeconds?: number } }> {
  const begun = { id: randomUUID(), secret: randomBytes(32).toString("hex"), pairCode: "042137" };
  const answer = await call<{ outcome: string }>(db, "begin_login_challenge", {
    id: begun.id,
    kind,
    userId: claims.sub,
    sessionId: claims.session_id,
    secretHash: bytea(begun.secret),
    ...(kind === "mfa_mobile" ? { pairCodeHash: bytea(begun.pairCode) } : {}),
    metadata: { device: "Test browser", address: "192.0.2.1" },
  });
  return { ...begun, answer };
}

const device = { name: "Phone", platform: "ios", localAuthentication: "biometric" };

/** Approves or rejects a QR challenge, as a phone does. */
export function decideQr(
  db: Runner,
  {
    begun,
    claims,
    approve = true,
    secret,
  }: { begun: NewChallenge; claims: Claims; approve?: boolean; secret?: string },
): Promise<string> {
  const secretHash = bytea(secret ?? begun.secret);
  return call(db, "decide_qr_challenge", { id: begun.id, secretHash, claims, approve, device });
}

/** Approves or rejects a request for a second factor, as a phone does. */
export function decideMobile(
  db: Runner,
  {
    begun,
    claims,
    approve = true,
    pairCode,
  }: { begun: NewChallenge; claims: Claims; approve?: boolean; pairCode?: string },
): Promise<{ outcome: string; attemptsLeft?: number }> {
  const pairCodeHash = bytea(pairCode ?? begun.pairCode);
  return call(db, "decide_mobile_approval", { id: begun.id, claims, approve, pairCodeHash, device });
}

/** Polls as the requesting browser, which claims or binds an approved challenge. Returns the poll's answer. */
export function poll<Answer>(
  db: Runner,
  name: "claim_qr_challenge" | "bind_mobile_approval",
  { begun, claims, proofKey }: { begun: NewChallenge; claims: Claims; proofKey?: Buffer },
): Promise<Answer> {
  const key = proofKey && { proofKey: `\\x${proofKey.toString("hex")}` };
  return call(db, name, { id: begun.id, secretHash: bytea(begun.secret), claims, ...key });
}

/** Returns a challenge's status for the session with these claims. */
export async function statusOf(
  db: Runner,
  { kind, begun, claims }: { kind: "qr" | "mfa_mobile"; begun: NewChallenge; claims: Claims },
): Promise<string> {
  const secretHash = bytea(begun.secret);
  const answer = await call<{ outcome: string; status?: string }>(db, "read_login_challenge", {
    id: begun.id,
    kind,
    secretHash,
    sessionId: claims.session_id,
  });
  return answer.status ?? answer.outcome;
}

/** Makes a challenge expire. */
export async function expire(db: Runner, { id }: NewChallenge): Promise<void> {
  await db.query(
    `update private.login_challenges set created_at = created_at - (expires_at - now()), expires_at = now()
     where id = $1`,
    [id],
  );
}
