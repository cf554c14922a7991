import { randomBytes, randomUUID } from "node:crypto";
import { readStack } from "../../../scripts/test/stack.ts";
import { createActor, type MfaState } from "../actors.ts";
import { type Claims, type Database, one } from "../database.ts";
import { openPool } from "../pools.ts";

/** A registered app and the SHA-256 of its secret, as stored in the database. */
export type App = { id: string; name: string; secretHash: Buffer };

/** The answer of `private.required_mfa_proof` for a session. */
export type Facts = Record<string, unknown> & { refused?: string; user: string; targetId: string };

/** An outstanding cross-app token: the token that the app sends, and the facts that the web server signed. */
export type Handoff = { tokenHash: Buffer; facts: Facts; proof: string };

/** The JSON answer of a function. */
export type Answer = Record<string, unknown> & { refused?: string };

const centralScopes = ["profile", "workspaces:read", "workspaces:write"];
const gatewayScopes = ["workspace:session", "ai:use"];

/** Returns 32 random bytes, the length of a SHA-256 hash. */
export function newHash(): Buffer {
  return randomBytes(32);
}

/** Opens connections for tests of concurrent callers: `db` of role `postgres`, `service` of the service role. */
export function openPools(connections: number): { db: Database; service: Database; close: () => Promise<void> } {
  const own = openPool(2);
  const url = new URL(readStack().supabase.dbUrl);
  url.searchParams.set("options", "-c role=service_role");
  const pool = openPool(connections, url.href);
  const service: Database = { ...pool.db, asRole: (_, work) => work() };
  return { db: own.db, service, close: async () => void (await Promise.all([own.close(), pool.close()])) };
}

/** Calls a function of schema private as the service role, and returns its JSON answer. */
export async function call<Result = Answer>(
  db: Database,
  name: string,
  args: Record<string, unknown>,
): Promise<Result> {
  const entries = Object.entries(args);
  const list = entries.map(([key], index) => `${key} => $${index + 1}`).join(", ");
  const values = entries.map(([, value]) =>
    value !== null && typeof value === "object" && !Buffer.isBuffer(value) && !Array.isArray(value)
      ? JSON.stringify(value)
      : value,
  );
  const sql = `select private.${name}(${list}) as answer`;
  const row = await db.asRole("service_role", () => one<{ answer: Result }>(db, { sql, values }));
  return row.answer;
}

/** Registers an app with a unique name, so that concurrent tests don't collide. */
export async function registerApp(
  db: Database,
  {
    kind = "internal",
    scopes = kind === "internal" ? centralScopes : gatewayScopes,
    origins = [],
    workspaceId,
  }: { kind?: "internal" | "external"; scopes?: string[]; origins?: string[]; workspaceId?: string } = {},
): Promise<App> {
  const name = `app-${randomBytes(8).toString("hex")}`;
  const secretHash = newHash();
  const id = await call<string>(db, "register_app", {
    app_name: name,
    display_name: "Notes",
    kind,
    origins,
    scopes,
    secret_hash: secretHash,
    reason: "test",
  });
  if (workspaceId !== undefined) {
    const link = { app_name: name, workspace_id: workspaceId, linked: true, reason: "test" };
    await call(db, "set_app_workspace", link);
  }
  return { id, name, secretHash };
}

/** Returns what a session has proved, for a handoff to an app. */
export function prove(db: Database, { claims, app, seconds = 300 }: { claims: Claims; app: App; seconds?: number }) {
  return call<Facts>(db, "required_mfa_proof", { claims, target_app: app.name, lifetime_seconds: seconds });
}

/**
 * Mints a cross-app token as the web server does. The signature can be any text here, because only the web server
 * verifies it.
 */
export async function handOver(
  db: Database,
  { claims, app, seconds }: { claims: Claims; app: App; seconds?: number },
): Promise<Handoff> {
  const facts = await prove(db, { claims, app, ...(seconds === undefined ? {} : { seconds }) });
  if (facts.refused) throw new Error(`refused: ${facts.refused}`);
  const handoff = { tokenHash: newHash(), facts, proof: `signed.${randomUUID()}` };
  const args = { token_hash: handoff.tokenHash, facts, proof: handoff.proof };
  if (!(await call<boolean>(db, "mint_cross_app_token", args))) throw new Error("the app is turned off");
  return handoff;
}

/** Redeems a cross-app token for app sessions. */
export function redeem(
  db: Database,
  {
    app,
    handoff,
    appHash = newHash(),
    centralHash = newHash(),
  }: {
    app: App;
    handoff: Handoff;
    appHash?: Buffer;
    centralHash?: Buffer;
  },
): Promise<Answer> {
  return call(db, "redeem_cross_app_token", {
    app_name: app.name,
    secret_hash: app.secretHash,
    token_hash: handoff.tokenHash,
    proof: handoff.proof,
    facts: handoff.facts,
    app_hash: appHash,
    central_hash: centralHash,
  });
}

/** An open app session with the hashes of its two tokens. */
export type OpenSession = { app: App; claims: Claims; appHash: Buffer; centralHash: Buffer };

/** Hands a session over to an app and redeems the token. */
export async function openAppSession(
  db: Database,
  { claims, app }: { claims: Claims; app: App },
): Promise<OpenSession> {
  const hashes = { appHash: newHash(), centralHash: newHash() };
  const answer = await redeem(db, { app, handoff: await handOver(db, { claims, app }), ...hashes });
  if (answer.refused) throw new Error(`refused: ${answer.refused}`);
  return { app, claims, ...hashes };
}

/** Introspects a token of an app. */
export function introspect(db: Database, { app, hash }: { app: App; hash: Buffer }): Promise<Answer> {
  return call(db, "introspect_app_session", { app_name: app.name, secret_hash: app.secretHash, token_hash: hash });
}

/** Replaces an account's MFA policy. Null removes the policy. */
export async function setPolicy(
  db: Database,
  { userId, policy }: { userId: string; policy: Record<string, unknown> | null },
): Promise<void> {
  const whole = policy && { version: 1, primaryBoundary: null, recovery: "none", ...policy };
  // Uses one statement, because the setting lasts for one transaction and an autocommit connection ends the transaction
  // after each statement.
  await db.query(
    `with writer as (select set_config('gatehouse.required_mfa_writer', 'on', true))
     update auth.users
     set raw_app_meta_data = case when $2::jsonb is null then raw_app_meta_data - 'platform_required_mfa'
       else raw_app_meta_data || jsonb_build_object('platform_required_mfa', $2::jsonb) end
     from writer
     where id = $1`,
    [userId, whole === null ? null : JSON.stringify(whole)],
  );
  await db.query("select set_config('gatehouse.required_mfa_writer', '', true)");
}

/** Replaces an app session's token with its successor. */
export function refreshSession(
  db: Database,
  { app, hash, successor }: { app: App; hash: Buffer; successor: Buffer },
): Promise<Answer> {
  return call(db, "refresh_app_session", {
    app_name: app.name,
    secret_hash: app.secretHash,
    token_hash: hash,
    successor_hash: successor,
  });
}

/** Revokes the app session or gateway token with this hash, and everything from the same handoff. */
export function revoke(db: Database, { app, hash }: { app: App; hash: Buffer }): Promise<boolean> {
  return call(db, "revoke_app_credential", { app_name: app.name, secret_hash: app.secretHash, token_hash: hash });
}

/** Creates an account with a session, and hands the session over to a new app. */
export async function beginAppSession(db: Database, mfa?: MfaState): Promise<OpenSession> {
  return openAppSession(db, { claims: await createActor(db, mfa ? { mfa } : {}), app: await registerApp(db) });
}
