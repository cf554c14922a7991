import { createHash, randomBytes } from "node:crypto";
import { type Answer, call, newHash } from "../apps/fixtures.ts";
import { type Claims, createUser, type Database, join, one, signIn } from "../database.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";
import { begin, decide, poll, registerClient } from "../openid/device-fixtures.ts";

/** A member's sign-in with the `gatehouse` command, identified by the hash of its access token. */
export interface AgentLogin {
  userId: string;
  claims: Claims;
  clientId: string;
  accessHash: Buffer;
}

/** The envelope of a connection, as its member sees it. Amounts are exact text. */
export interface AgentEnvelope {
  id: string;
  state: string;
  limitUsd: string | null;
  spentUsd: string | null;
  reservedUsd: string | null;
  maxCalls: number | null;
  calls: number;
}

/** A workspace that may create keys, one of its members, and that member's login. */
export interface AgentScene {
  tenant: Tenant;
  login: AgentLogin;
}

const scopes = ["openid", "offline_access", "workspaces:read", "studio:keys"];

/** Signs a member in to the `gatehouse` command. */
export async function signInToCommand(
  db: Database,
  { userId, asked = scopes, claims }: { userId: string; asked?: string[]; claims?: Claims },
): Promise<AgentLogin> {
  const session = claims ?? (await signIn(db, { userId }));
  const client = await registerClient(db, { scopes: ["profile", "workspaces:read", "studio:keys"] });
  const [deviceHash, accessHash] = [newHash(), newHash()];
  const begun = await begin(db, { client, deviceHash, scopes: asked });
  await decide(db, { userCode: String(begun.userCode), claims: session });
  const answer = await poll(db, { client, deviceHash, accessHash });
  if (answer.refused) throw new Error(`refused: ${answer.refused}`);
  return { userId, claims: session, clientId: client.id, accessHash };
}

/** Creates a workspace, and a member with the given role who is signed in to the `gatehouse` command. */
export async function createAgentScene(db: Database, role = "admin"): Promise<AgentScene> {
  const tenant = await createTenant(db, { credits: "100" });
  const { id } = await createUser(db);
  await join(db, { workspaceId: tenant.workspaceId, userId: id, role });
  return { tenant, login: await signInToCommand(db, { userId: id }) };
}

export function connect(
  db: Database,
  { tenant, login }: AgentScene,
  { tool = "claude", host = "ann-laptop", envelope }: { tool?: string; host?: string; envelope?: object } = {},
): Promise<
  Answer & { state?: string; connection?: { id: string; envelope: AgentEnvelope | null }; limit?: { reason: string } }
> {
  const email = { subject: "Request", text: "Review request" };
  const args = {
    token_hash: login.accessHash,
    workspace_id: tenant.workspaceId,
    tool,
    host,
    email,
    // The call of release 0.3.0 has no envelope.
    ...(envelope && { envelope }),
  };
  return call(db, "connect_agent", args);
}

export function listAgents(db: Database, { tenant, login }: AgentScene): Promise<Answer> {
  return call(db, "list_agents", { token_hash: login.accessHash, workspace_id: tenant.workspaceId });
}

/**
 * Creates the next key of a connection.
 * @returns the answer and the hash that the gateway looks the key up by
 */
export async function issueKey(
  db: Database,
  { tenant, login }: AgentScene,
  connectionId: string,
): Promise<Answer & { outcome?: string; hash: string }> {
  const hash = createHash("sha256").update(randomBytes(32)).digest("hex");
  const answer = await call(db, "issue_agent_key", {
    token_hash: login.accessHash,
    workspace_id: tenant.workspaceId,
    connection_id: connectionId,
    lookup: randomBytes(6).toString("hex"),
    secret_hash: hash,
  });
  return { ...answer, hash };
}

export function disconnect(db: Database, { tenant, login }: AgentScene, connectionId: string): Promise<Answer> {
  const args = { token_hash: login.accessHash, workspace_id: tenant.workspaceId, connection_id: connectionId };
  return call(db, "disconnect_agent", args);
}

/** Connects an agent and creates its first key. */
export async function connectWithKey(
  db: Database,
  scene: AgentScene,
  options?: Parameters<typeof connect>[2],
): Promise<{ connectionId: string; hash: string }> {
  const connectionId = String((await connect(db, scene, options)).connection?.id);
  const { outcome, hash } = await issueKey(db, scene, connectionId);
  if (outcome !== "issued") throw new Error(`no key: ${outcome}`);
  return { connectionId, hash };
}

/** Returns how the gateway resolves a key: to its workspace, to a refusal, or to null for an unknown key. */
export async function callerOf(
  db: Database,
  hash: string,
): Promise<{ workspace_id: string; refused: string | null } | null> {
  const [row] = await db.query<{ workspace_id: string; refused: string | null }>(
    "select c.workspace_id, c.refused from ai.find_caller($1) c where c.source is not null",
    [JSON.stringify({ credential: { source: "key", hash } })],
  );
  return row ?? null;
}

/** Calls a function for members who manage keys. The call is made as the service role. */
export async function manage(
  db: Database,
  name: string,
  args: unknown[],
): Promise<Answer & { outcome: string; members?: Record<string, unknown>[]; keys?: Record<string, unknown>[] }> {
  const sql = `select ai.${name}(${args.map((_, index) => `$${index + 1}`).join(", ")}) as answer`;
  const row = await db.asRole("service_role", () =>
    one<{ answer: Answer & { outcome: string } }>(db, { sql, values: args }),
  );
  return row.answer;
}
