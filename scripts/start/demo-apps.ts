import type pg from "pg";
import { hashToBytea } from "../../remix-app/apps/opaque-tokens.ts";
import { demoAppSecret, type Secrets } from "./secrets.ts";

/** The satellite that runs alongside the platform. */
export const demoApp = {
  name: "notes",
  displayName: "Notes",
  scopes: ["profile", "workspaces:read", "workspaces:write"],
};

/** A third-party app. It calls the gateway for its users, and also with a key that is bound to the app. */
export const demoExternalApp = {
  name: "partner",
  displayName: "Partner",
  scopes: ["workspace:session", "ai:use", "tts:use"],
};

/** Registers the demo satellite at this run's origin, with an app secret derived from the stack's secrets. */
export async function ensureDemoApp(
  client: pg.Client,
  { origin, secrets }: { origin: string; secrets: Secrets },
): Promise<void> {
  const { name } = demoApp;
  await ensureApp(client, { ...demoApp, kind: "internal", secret: demoAppSecret(secrets, name) });
  const app = "(select id from private.apps where name = $1)";
  await client.query(`delete from private.app_origins where app_id = ${app} and origin <> $2`, [name, origin]);
  await client.query(
    `insert into private.app_origins (origin, app_id) values ($2, ${app})
     on conflict (origin) do update set app_id = excluded.app_id`,
    [name, origin],
  );
  await client.query("update private.apps set backchannel_logout_uri = $2 where name = $1", [
    name,
    `${origin}/api/auth/backchannel-logout`,
  ]);
}

/**
 * Registers the external app and links it to the demo workspace, unless someone has removed the link. @returns its id
 */
export async function ensureDemoExternalApp(
  client: pg.Client,
  { workspaceId, secrets }: { workspaceId: string; secrets: Secrets },
): Promise<string> {
  const { name } = demoExternalApp;
  const secret = demoAppSecret(secrets, name);
  const { id, made } = await ensureApp(client, { ...demoExternalApp, kind: "external", secret });
  if (made) {
    await client.query("insert into private.app_workspaces (app_id, workspace_id) values ($1, $2)", [id, workspaceId]);
  }
  return id;
}

type App = { name: string; displayName: string; scopes: string[]; kind: "internal" | "external"; secret: string };

async function ensureApp(client: pg.Client, app: App): Promise<{ id: string; made: boolean }> {
  const inserted = await client.query(
    "insert into private.apps (name, display_name, kind, scopes) values ($1, $2, $3, $4) on conflict do nothing",
    [app.name, app.displayName, app.kind, app.scopes],
  );
  const known = await client.query<{ id: string }>("select id from private.apps where name = $1", [app.name]);
  const id = known.rows[0]?.id ?? "";
  await client.query("insert into private.app_secrets (app_id, secret_hash) values ($1, $2) on conflict do nothing", [
    id,
    hashToBytea(app.secret),
  ]);
  return { id, made: inserted.rowCount === 1 };
}
