import { randomBytes } from "node:crypto";
import type pg from "pg";
import { createAiKey } from "#shared/ai-key.ts";

/** A workspace for load tests, with an app and a key that is bound to the app. */
export type LoadTenant = { workspaceId: string; ownerId: string; appId: string; keyId: string; key: string };

/** Creates a workspace on the plan `team`, owned by the demo user, with its own credits, external app and key. */
export async function createLoadTenant(client: pg.Client): Promise<LoadTenant> {
  const ownerId = await idOf(client, "select id from auth.users where email = 'demo@gatehouse.test'", []);
  const workspaceId = await idOf(
    client,
    "insert into public.workspaces (name, plan_id, created_by) values ('Load', 'team', $1) returning id",
    [ownerId],
  );
  await client.query("select ai.grant_credits('workspace', $1, 1000000000, 'Load')", [workspaceId]);
  const name = `load-${randomBytes(4).toString("hex")}`;
  const appId = await idOf(
    client,
    `select private.register_app(
       app_name => $1, display_name => 'Load', kind => 'external', origins => '{}',
       scopes => '{workspace:session,ai:use}', secret_hash => $2, reason => 'Load'
     ) as id`,
    [name, randomBytes(32)],
  );
  await client.query(
    "select private.set_app_workspace(app_name => $1, workspace_id => $2, linked => true, reason => 'Load')",
    [name, workspaceId],
  );
  await client.query("insert into ai.key_approvals (workspace_id) values ($1)", [workspaceId]);
  const { text: key, lookup, hash } = await createAiKey();
  const keyId = await idOf(client, "select ai.create_key($1, $2, 'Load', $3, $4) as id", [
    workspaceId,
    ownerId,
    lookup,
    Buffer.from(hash),
  ]);
  await client.query("update ai.keys set external_app_id = $2 where id = $1", [keyId, appId]);
  return { workspaceId, ownerId, appId, keyId, key };
}

async function idOf(client: pg.Client, sql: string, values: unknown[]): Promise<string> {
  const { rows } = await client.query<{ id: string }>(sql, values);
  if (!rows[0]) throw new Error("The stack has no demo data: start it once with npm start.");
  return rows[0].id;
}
