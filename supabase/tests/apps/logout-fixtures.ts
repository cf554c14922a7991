import { randomBytes, randomUUID } from "node:crypto";
import { type Claims, type Database, one } from "../database.ts";
import { type App, newHash, openAppSession, registerApp } from "./fixtures.ts";

const logoutUri = "https://app.example/logout";

/** Registers a satellite with a logout URL. */
export async function registerSatellite(db: Database, uri: string | null = logoutUri): Promise<App> {
  const app = await registerApp(db);
  await db.query("update private.apps set backchannel_logout_uri = $2 where id = $1", [app.id, uri]);
  return app;
}

/** Registers an OpenID client with a logout URL. */
export async function registerClient(db: Database, uri: string | null = logoutUri): Promise<App> {
  const app = { name: `client-${randomBytes(8).toString("hex")}`, secretHash: newHash() };
  const { id } = await one<{ id: string }>(db, {
    sql: `with app as (
            insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
            values ($1, 'Grafana', 'openid', '{profile,workspaces:read}', $2) returning id
          ), client as (
            insert into private.openid_clients (app_id, is_public) select id, false from app
          ), secret as (
            insert into private.app_secrets (app_id, secret_hash) select id, $3 from app
          )
          select id from app`,
    values: [app.name, uri, app.secretHash],
  });
  return { ...app, id };
}

/**
 * Opens an app session.
 * @returns its sid
 */
export async function openSatelliteLogin(db: Database, { claims, app }: { claims: Claims; app: App }): Promise<string> {
  const { appHash } = await openAppSession(db, { claims, app });
  const { sid } = await one<{ sid: string }>(db, {
    sql: "select handoff_id as sid from private.app_sessions where token_hash = $1",
    values: [appHash],
  });
  return sid;
}

/**
 * Opens a login of an OpenID client. The login has the session's MFA proof.
 * @returns the login's sid
 */
export async function openClientLogin(
  db: Database,
  {
    claims,
    app,
    fromDevice = false,
    tokenHash = newHash(),
  }: { claims: Claims; app: App; fromDevice?: boolean; tokenHash?: Buffer },
): Promise<string> {
  const { id } = await one<{ id: string }>(db, {
    sql: `with login as (
            insert into private.openid_grants (source_id, app_id, user_id, proof, authentication, scopes, ends_at)
            select $1, $2, $3,
              row($3, case when not $5 then $4::uuid end, s.factor_id,
                case when s.factor_id is not null then extract(epoch from now())::bigint - 1 end,
                extract(epoch from now())::bigint - 2,
                private.required_mfa_generation(u.raw_app_meta_data))::private.mfa_proof,
              row(now(), s.aal::text, array['pwd'])::private.openid_authentication,
              '{openid,profile,workspaces:read}', now() + interval '30 days'
            from auth.sessions s join auth.users u on u.id = s.user_id
            where s.id = $4
            returning id
          ), token as (
            insert into private.openid_tokens (grant_id, scopes, access_hash, access_expires_at, refresh_hash)
            select id, '{openid}', $6, now() + interval '1 hour', $6 from login
          )
          select id from login`,
    values: [randomUUID(), app.id, claims.sub, claims.session_id, fromDevice, tokenHash],
  });
  return id;
}

/** Returns the sids of an account's queued logout notices, one entry per notice. */
export async function queuedLogouts(db: Database, userId: string): Promise<string[]> {
  const rows = await db.query<{ sid: string }>("select sid from private.logout_notices where user_id = $1", [userId]);
  return rows.map(({ sid }) => sid).sort();
}
