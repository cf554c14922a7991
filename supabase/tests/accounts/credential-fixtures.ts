import { call, handOver, newHash, openAppSession, registerApp } from "../apps/fixtures.ts";
import {
  bindApproval,
  type Claims,
  currentSecond,
  type Database,
  enrollFactor,
  join,
  one,
  signIn,
} from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { connectWithKey, signInToCommand } from "../keys/agent-fixtures.ts";
import { beginRequest, decide, poll, registerClient } from "../openid/device-fixtures.ts";
import { issueAppToken } from "../satellites/app-token-fixtures.ts";
import { addPasskey, createOwner, linkGoogle } from "./access-fixtures.ts";

/** One row of `private.account_credentials`. */
interface Credential {
  kind: string;
  key: string;
  listed_as: string;
  session_id: string | null;
}

/** Returns an account's credentials that work now. */
export function liveCredentials(db: Database, userId: string): Promise<Credential[]> {
  return db.query<Credential>(
    `select kind, key, listed_as, session_id from private.account_credentials
     where user_id = $1 and is_live order by kind, key`,
    [userId],
  );
}

/** Returns the kinds of an account's credentials that work now. */
export async function liveKinds(db: Database, userId: string): Promise<string[]> {
  return [...new Set((await liveCredentials(db, userId)).map(({ kind }) => kind))];
}

/** Signs a session in to an OpenID client, and returns the hash of the access token. */
export async function signInToClient(db: Database, claims: Claims): Promise<{ app: string; accessHash: Buffer }> {
  const [codeHash, accessHash] = [newHash(), newHash()];
  const client = await issueCode(db, { claims, codeHash });
  const answer = await call(db, "redeem_authorization_code", {
    client_id: client,
    secret_hash: null,
    code_hash: codeHash,
    redirect_uri: redirectUri,
    code_challenge: challenge,
    access_hash: accessHash,
    refresh_hash: newHash(),
  });
  if (answer.refused) throw new Error(`refused: ${answer.refused}`);
  return { app: client, accessHash };
}

const redirectUri = "https://client.example/callback";
const challenge = "c".repeat(43);

async function issueCode(db: Database, { claims, codeHash }: { claims: Claims; codeHash: Buffer }): Promise<string> {
  const { id, name } = await registerClient(db);
  await db.query("update private.openid_clients set redirect_uris = array[$2] where app_id = $1", [id, redirectUri]);
  const answer = await call(db, "issue_authorization_code", {
    claims,
    client_id: name,
    redirect_uri: redirectUri,
    scopes: ["openid", "offline_access"],
    nonce: null,
    code_challenge: challenge,
    code_hash: codeHash,
    consents: true,
  });
  if (answer.refused) throw new Error(`refused: ${answer.refused}`);
  return name;
}

/** Signs a device in, and returns the hash of its access token. */
export async function signInDevice(db: Database, claims: Claims): Promise<{ accessHash: Buffer }> {
  const request = await beginRequest(db);
  const accessHash = newHash();
  await decide(db, { userCode: request.userCode, claims });
  const answer = await poll(db, { ...request, accessHash });
  if (answer.refused) throw new Error(`refused: ${answer.refused}`);
  return { accessHash };
}

/** Returns whether an OpenID access token works. */
export async function isTokenLive(db: Database, accessHash: Buffer): Promise<boolean> {
  return !(await call(db, "read_openid_userinfo", { access_hash: accessHash })).refused;
}

/** Gives an account one credential of each kind. The session of `claims` opens those that need a session. */
export async function openEverything(db: Database) {
  const { userId, email } = await createOwner(db);
  await linkGoogle(db, { userId });
  await addPasskey(db, { userId });
  const factorId = await enrollFactor(db, { userId });
  const claims = await signIn(db, { userId, factorId });
  await db.query("select private.replace_mfa_recovery_codes($1, $2)", [userId, ["00".repeat(32)]]);
  await db.query(
    `with o as (
       insert into private.recovery_overrides (email, reason, created_by) values ($1, 'Lost phone', $2) returning id
     )
     insert into private.recovery_credentials (override_id, email, token_hash, code_salt, code_hash)
     select id, $1, $3, substr($3::bytea, 1, 16), $3 from o`,
    [email, userId, newHash()],
  );
  await bindApproval(db, { claims, factorId, secondFactorAt: await currentSecond(db) });
  const app = await registerApp(db);
  await handOver(db, { claims, app });
  await openAppSession(db, { claims, app });
  await issueAppToken(db, { claims });
  await issueCode(db, { claims, codeHash: newHash() });
  await signInToClient(db, claims);
  const request = await beginRequest(db);
  await decide(db, { userCode: request.userCode, claims });
  await signInDevice(db, claims);
  const tenant = await createTenant(db, { credits: "1" });
  await join(db, { workspaceId: tenant.workspaceId, userId, role: "admin" });
  await connectWithKey(db, { tenant, login: await signInToCommand(db, { userId, claims }) });
  const { kinds } = await one<{ kinds: string[] }>(db, {
    sql: "select array_agg(distinct kind order by kind) as kinds from private.account_credentials where user_id = $1",
    values: [userId],
  });
  return { userId, claims, kinds };
}
