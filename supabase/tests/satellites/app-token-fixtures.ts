import { createWorkspace } from "../actors.ts";
import { type Answer, type App, call, type Handoff, handOver, newHash, registerApp } from "../apps/fixtures.ts";
import { type Claims, type Database, join } from "../database.ts";

/** A person with a workspace, an external app linked to the workspace, and an outstanding cross-app token. */
export type Setting = { app: App; claims: Claims; workspaceId: string; handoff: Handoff };

/** Prepares an exchange by a workspace's owner, or by a member if claims are given. */
export async function beginExchange(
  db: Database,
  { service = db, claims, scopes }: { service?: Database; claims?: Claims; scopes?: string[] } = {},
): Promise<Setting> {
  const workspace = await createWorkspace(db);
  const app = await registerApp(service, {
    kind: "external",
    workspaceId: workspace.id,
    ...(scopes ? { scopes } : {}),
  });
  if (claims) await join(db, { workspaceId: workspace.id, userId: claims.sub, role: "member" });
  const caller = claims ?? workspace.owner;
  return {
    app,
    claims: caller,
    workspaceId: workspace.id,
    handoff: await handOver(service, { claims: caller, app }),
  };
}

/** The hashes of an access token and its refresh token. */
export type Pair = { access: Buffer; refresh: Buffer };

/** Returns a pair of random hashes. */
export function newPair(): Pair {
  return { access: newHash(), refresh: newHash() };
}

/** Redeems a cross-app token for an app token. */
export function exchange(
  db: Database,
  { app, handoff, workspaceId, scopes = null, pair = newPair() }: Setting & { scopes?: string[] | null; pair?: Pair },
): Promise<Answer> {
  return call(db, "exchange_cross_app_token", {
    app_name: app.name,
    secret_hash: app.secretHash,
    token_hash: handoff.tokenHash,
    proof: handoff.proof,
    facts: handoff.facts,
    workspace_id: workspaceId,
    scopes,
    access_lookup: "abcdefgh2345",
    access_hash: pair.access,
    refresh_hash: pair.refresh,
  });
}

/** Exchanges a refresh token for a new pair of tokens. */
export function refresh(
  db: Database,
  { app, workspaceId, from, to, scopes = null }: Setting & { from: Buffer; to: Pair; scopes?: string[] | null },
): Promise<Answer> {
  return call(db, "refresh_app_token", {
    app_name: app.name,
    secret_hash: app.secretHash,
    refresh_hash: from,
    workspace_id: workspaceId,
    scopes,
    access_lookup: "abcdefgh2345",
    access_hash: to.access,
    successor_hash: to.refresh,
  });
}

/** Returns what the gateway receives for an access token. */
export async function tokenOf(db: Database, hash: Buffer) {
  const rows = await db.query<{ scopes: string[]; refused: string | null }>(
    "select app_id, user_id, workspace_id, scopes, refused from ai.find_app_token($1)",
    [hash],
  );
  return rows[0];
}

/** Issues an app token. Returns the token pair, and the app, person and workspace for which the pair was issued. */
export async function issueAppToken(
  db: Database,
  options: Parameters<typeof beginExchange>[1] = {},
): Promise<{ setting: Setting; pair: Pair }> {
  const setting = await beginExchange(db, options);
  const pair = newPair();
  await exchange(db, { ...setting, pair });
  return { setting, pair };
}
