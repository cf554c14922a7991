import { createHash, randomBytes } from "node:crypto";
import { type Database, one } from "../database.ts";

/** The SHA-256 of a new secret or token, in the format that the Data API takes for a bytea. */
export const newHash = (): string => `\\x${createHash("sha256").update(randomBytes(32)).digest("hex")}`;

/** Returns a public key with a new `kid`. The database stores keys but does not use them. */
export const newKey = () => ({ kty: "OKP", crv: "Ed25519", alg: "EdDSA", x: "x", kid: randomBytes(6).toString("hex") });

export interface Machine {
  id: string;
  clientId: string;
  secretHash: string;
  credentialId: string;
}

/** Inserts a service account with one secret: one of the platform, or one of a workspace if its id is given. */
export async function createMachine(
  db: Database,
  options: { workspaceId?: string; scopes?: readonly string[]; allowedAddresses?: readonly string[] } = {},
): Promise<Machine> {
  const { workspaceId = null, allowedAddresses = [] } = options;
  const scopes = options.scopes ?? (workspaceId ? ["use_ai_studio"] : ["admin:audit:read"]);
  const secretHash = newHash();
  const { id, credential } = await one<{ id: string; credential: string }>(db, {
    sql: `with account as (
        insert into private.service_accounts (workspace_id, name, scopes, allowed_addresses, expires_at)
        values ($1, gen_random_uuid()::text, $2, $3, now() + interval '30 days') returning id
      )
      insert into private.service_account_credentials (service_account_id, secret_hash)
      select id, $4 from account
      returning service_account_id as id, id as credential`,
    values: [workspaceId, scopes, allowedAddresses, secretHash],
  });
  return { id, clientId: `svc_${id}`, secretHash, credentialId: credential };
}

/** Adds a public key to a service account. @returns the credential's id */
export async function addKey(db: Database, { id }: Pick<Machine, "id">): Promise<string> {
  const key = newKey();
  const row = await one<{ id: string }>(db, {
    sql: `insert into private.service_account_credentials (service_account_id, public_jwk, kid)
      values ($1, $2, $3) returning id`,
    values: [id, JSON.stringify(key), key.kid],
  });
  return row.id;
}

type TokenAnswer = {
  outcome: "issued" | "invalid_client" | "invalid_scope";
  reason?: string;
  scopes?: string[];
  expiresIn?: number;
  id?: string;
};

/** Calls `private.issue_service_token` as the connection's role. */
export async function requestToken(db: Database, request: object): Promise<TokenAnswer> {
  const row = await one<{ answer: TokenAnswer }>(db, {
    sql: "select private.issue_service_token($1) as answer",
    values: [JSON.stringify({ address: "192.0.2.1", tokenHash: newHash(), scopes: null, ...request })],
  });
  return row.answer;
}

/** Obtains a token with the machine's secret, as our server does. */
export async function signInMachine(
  db: Database,
  { clientId, secretHash, ...request }: Pick<Machine, "clientId" | "secretHash"> & { scopes?: readonly string[] },
): Promise<string> {
  const tokenHash = newHash();
  const { scopes } = request;
  const answer = await db.asRole("service_role", () =>
    requestToken(db, { clientId, secretHash, tokenHash, scopes: scopes ?? null }),
  );
  if (answer.outcome !== "issued") throw new Error(`no token: ${JSON.stringify(answer)}`);
  return tokenHash;
}

type Caller = { id: string; name: string; workspaceId: string | null; scopes: string[] } | null;

/** Calls `private.read_service_caller` as our server does. */
export async function readCaller(
  db: Database,
  { tokenHash, address = "192.0.2.1" }: { tokenHash: string; address?: string | null },
): Promise<Caller> {
  const row = await db.asRole("service_role", () =>
    one<{ caller: Caller }>(db, {
      sql: "select private.read_service_caller($1, $2) as caller",
      values: [tokenHash, address],
    }),
  );
  return row.caller;
}

type ChangeAnswer = {
  refused?: string;
  id?: string;
  clientId?: string;
  credential?: string;
  endsAt?: string | null;
  last?: { actorEmail: string | null } | null;
};

/** Calls a function that changes service accounts, as our server does. */
export async function changeMachine(
  db: Database,
  { name, change }: { name: string; change: Record<string, unknown> },
): Promise<ChangeAnswer> {
  const stamped = { reason: "test", requestId: "request-1", ip: "192.0.2.1", workspace: null, ...change };
  const row = await db.asRole("service_role", () =>
    one<{ answer: ChangeAnswer }>(db, {
      sql: `select private.${name}($1) as answer`,
      values: [JSON.stringify(stamped)],
    }),
  );
  return row.answer;
}

/** Makes a change and takes it back. @returns why it was refused, or "made" */
export async function attempt(
  db: Database,
  options: { name: string; change: Record<string, unknown> },
): Promise<string> {
  await db.query("savepoint change");
  const { refused } = await changeMachine(db, options);
  await db.query("rollback to savepoint change");
  return refused ?? "made";
}

/** The fields of a new service account. */
export const newAccount = (fields: Record<string, unknown> = {}): Record<string, unknown> => ({
  account: null,
  name: randomBytes(6).toString("hex"),
  scopes: ["admin:audit:read"],
  allowedAddresses: [],
  expiresAt: new Date(Date.now() + 30 * 86_400_000).toISOString(),
  enabled: true,
  secretHash: newHash(),
  ...fields,
});

type Described = {
  id: string;
  name: string;
  clientId: string;
  state: string;
  scopes: string[];
  enabled: boolean;
  expiresAt: string;
  createdBy: string | null;
  allowedAddresses: string[];
  credentials: { id: string; kind: string; kid: string | null; createdBy: string | null; expiresAt: string | null }[];
  version: string;
};

/** Calls `private.read_service_account` as our server does. */
export async function describeMachine(
  db: Database,
  { id, workspaceId = null }: { id: string; workspaceId?: string | null },
): Promise<Described | null> {
  const row = await db.asRole("service_role", () =>
    one<{ account: Described | null }>(db, {
      sql: "select private.read_service_account($1, $2) as account",
      values: [workspaceId, id],
    }),
  );
  return row.account;
}
