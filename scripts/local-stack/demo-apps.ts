import type pg from "pg";
import { hashOf } from "../../remix-app/satellites/opaque-token.ts";
import { demoAppSecret, type Secrets } from "./secrets.ts";

/** The satellite that runs beside the platform. */
export const demoApp = {
  name: "notes",
  displayName: "Notes",
  scopes: ["profile", "workspaces:read", "workspaces:write"],
};

/** Registers the satellite at the origin that it has in this run, with the stack's own secret for it. */
export async function ensureDemoApp(
  client: pg.Client,
  { origin, secrets }: { origin: string; secrets: Secrets },
): Promise<void> {
  const { name, displayName, scopes } = demoApp;
  await client.query(
    "insert into private.apps (name, display_name, kind, scopes) values ($1, $2, 'internal', $3) on conflict do nothing",
    [name, displayName, scopes],
  );
  const app = "(select id from private.apps where name = $1)";
  await client.query(`delete from private.app_origins where app_id = ${app} and origin <> $2`, [name, origin]);
  await client.query(
    `insert into private.app_origins (origin, app_id) values ($2, ${app})
     on conflict (origin) do update set app_id = excluded.app_id`,
    [name, origin],
  );
  await client.query(
    `insert into private.app_secrets (app_id, secret_hash) values (${app}, $2) on conflict do nothing`,
    [name, hashOf(demoAppSecret(secrets, name))],
  );
}
