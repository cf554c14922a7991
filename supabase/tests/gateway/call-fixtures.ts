import { createActor } from "../actors.ts";
import { type App, handOver, registerApp } from "../apps/fixtures.ts";
import type { Claims, Database } from "../database.ts";
import { exchange, newPair } from "../satellites/app-token-fixtures.ts";
import { chatCall, type Tenant } from "./fixtures.ts";

const allScopes = ["workspace:session", "ai:use", "tts:use"];

/** Returns a gateway call with a person's own session as its credential. */
export function sessionCall(tenant: Tenant, claims: Claims, changes: object = {}): object {
  const { sub, session_id, aal, amr } = claims as Claims & { aal: string; amr: unknown };
  const credential = { source: "session", claims: { sub, session_id, aal, amr } };
  return chatCall(tenant, { credential, workspace: tenant.workspaceId, ...changes });
}

/**
 * Registers an app and issues it a token for a person. Returns the app, the person's claims, and a function that
 * creates gateway calls with the token.
 */
export async function appTokenCall(
  db: Database,
  tenant: Tenant,
  { claims, scopes = allScopes }: { claims?: Claims; scopes?: string[] } = {},
) {
  const app = await registerApp(db, { kind: "external", scopes: allScopes, workspaceId: tenant.workspaceId });
  const person = claims ?? (await createActor(db, { workspaceId: tenant.workspaceId, role: "member" }));
  const pair = newPair();
  const handoff = await handOver(db, { claims: person, app });
  const answer = await exchange(db, { app, claims: person, workspaceId: tenant.workspaceId, handoff, scopes, pair });
  if (answer.refused) throw new Error(`refused: ${answer.refused}`);
  const credential = { source: "app_token", hash: pair.access.toString("hex") };
  const callOf = (changes: object = {}) => chatCall(tenant, { credential, workspace: tenant.workspaceId, ...changes });
  return { app, claims: person, callOf };
}

/** Binds the tenant's key to an app that is linked to its workspace. */
export async function bindKey(db: Database, tenant: Tenant): Promise<App> {
  const app = await registerApp(db, { kind: "external", workspaceId: tenant.workspaceId });
  await db.query("update ai.keys set external_app_id = $2 where id = $1", [tenant.keyId, app.id]);
  return app;
}
