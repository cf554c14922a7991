import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf } from "../actors.ts";
import {
  type App,
  call,
  handOver,
  introspect,
  newHash,
  openAppSession,
  prove,
  redeem,
  refreshSession,
  registerApp,
  revoke,
} from "../apps/fixtures.ts";
import { type Database, one, test } from "../database.ts";
import { begin, chatCall, createTenant } from "../gateway/fixtures.ts";
import { exchange, newPair } from "../satellites/app-token-fixtures.ts";

type Registration = {
  isPublic: boolean;
  redirectUris: string[];
  postLogoutRedirectUris: string[];
  logoutUrl: string | null;
  allowsDeviceGrant: boolean;
  scopes: string[];
  secretHash: string | null;
};

const asText = (hash: Buffer) => `\\x${hash.toString("hex")}`;

/** Returns a registration as the command line sends it, without an actor. */
function registration(more: Partial<Registration> = {}) {
  return {
    name: `client-${randomBytes(8).toString("hex")}`,
    displayName: "Grafana",
    isPublic: false,
    redirectUris: ["https://grafana.example/login"],
    postLogoutRedirectUris: [],
    logoutUrl: null,
    allowsDeviceGrant: false,
    scopes: ["profile"],
    secretHash: more.isPublic ? null : asText(newHash()),
    reason: "test",
    ...more,
  };
}

async function registerClient(db: Database, more: Partial<Registration> = {}): Promise<App> {
  const secretHash = newHash();
  const change = registration({ ...(more.isPublic ? {} : { secretHash: asText(secretHash) }), ...more });
  expect(await call(db, "add_openid_client", { change })).toEqual({});
  const { id } = await one<{ id: string }>(db, {
    sql: "select id from private.apps where name = $1",
    values: [change.name],
  });
  return { id, name: change.name, secretHash };
}

const read = (db: Database, { name }: App) => call(db, "read_openid_client", { client_id: name });
const uris = (count: number) => Array.from({ length: count }, (_, index) => `https://app.example/${index}`);

const isClient = async (db: Database, { name }: App, secretHash: Buffer | null) =>
  (await db.query("select from private.authenticate_openid_client($1, $2)", [name, secretHash])).length === 1;

const lineOf = (db: Database, { client, action }: { client: App; action: string }) =>
  one(db, {
    sql: "select actor_id, reason, after from private.admin_audit_log where target = $1 and action = $2",
    values: [`app ${client.name}`, action],
  });

describe("the registration of an OpenID client", () => {
  test("an OpenID client's registration and audit log line contain its settings but not its secret", async ({ db }) => {
    const client = await registerClient(db, {
      postLogoutRedirectUris: ["https://grafana.example/"],
      logoutUrl: "https://grafana.example/logout",
      allowsDeviceGrant: true,
    });
    const registered = await read(db, client);
    expect(registered).toMatchObject({
      name: client.name,
      displayName: "Grafana",
      enabled: true,
      scopes: ["profile"],
      isPublic: false,
      redirectUris: ["https://grafana.example/login"],
      postLogoutRedirectUris: ["https://grafana.example/"],
      logoutUrl: "https://grafana.example/logout",
      allowsDeviceGrant: true,
      secrets: [{ expiresAt: null }],
      version: expect.any(String),
    });
    const line = await lineOf(db, { client, action: "app.register" });
    expect(line).toMatchObject({
      actor_id: null,
      reason: "test",
      after: { name: client.name, redirectUris: ["https://grafana.example/login"], isPublic: false },
    });
    expect(JSON.stringify([registered, line])).not.toContain(client.secretHash.toString("hex"));
    expect(await isClient(db, client, client.secretHash)).toBe(true);
  });

  test("a public OpenID client has no secret", async ({ db }) => {
    const change = registration({ isPublic: true, secretHash: asText(newHash()) });
    expect((await failureOf(() => call(db, "add_openid_client", { change }))).code).toBe("23514");
  });

  test("a confidential OpenID client without a secret can't authenticate", async ({ db }) => {
    const client = await registerClient(db, { secretHash: null });
    expect(await read(db, client)).toMatchObject({ isPublic: false, secrets: [] });
    expect([await isClient(db, client, null), await isClient(db, client, newHash())]).toEqual([false, false]);
  });

  test("an OpenID client may have at most 20 URIs of each kind", async ({ db }) => {
    await registerClient(db, { redirectUris: uris(20), postLogoutRedirectUris: uris(20) });
    for (const more of [{ redirectUris: uris(21) }, { postLogoutRedirectUris: uris(21) }]) {
      expect(await call(db, "add_openid_client", { change: registration(more) })).toEqual({ refused: "invalid" });
    }
  });

  test.for(["workspace:session", "ai:use", "tts:use", "openid", "admin"])(
    "an OpenID client can't have the scope %s",
    async (scope, { db }) => {
      const change = registration({ scopes: [scope] });
      expect(await call(db, "add_openid_client", { change })).toEqual({ refused: "invalid" });
    },
  );

  test("editing an OpenID client changes only the named fields", async ({ db }) => {
    const client = await registerClient(db, { logoutUrl: "https://grafana.example/logout" });
    const change = (more: object) =>
      call(db, "change_openid_client", { change: { name: client.name, reason: "test", ...more } });
    const before = await read(db, client);
    expect(await change({ redirectUris: uris(2), scopes: [] })).toEqual({});
    const after = await read(db, client);
    expect(after).toEqual({ ...before, redirectUris: uris(2), scopes: [], version: expect.any(String) });
    const line = await lineOf(db, { client, action: "app.edit" });
    expect(line).toMatchObject({ after: { redirectUris: uris(2), scopes: [] } });
    await change({
      displayName: "Charts",
      allowsDeviceGrant: true,
      postLogoutRedirectUris: uris(1),
      logoutUrl: null,
    });
    expect(await read(db, client)).toMatchObject({
      displayName: "Charts",
      redirectUris: uris(2),
      postLogoutRedirectUris: uris(1),
      logoutUrl: null,
      allowsDeviceGrant: true,
    });
  });

  test("editing a satellite or an unknown name as an OpenID client is refused", async ({ db }) => {
    const satellite = await registerApp(db);
    for (const name of [satellite.name, "no-such-client"]) {
      const change = { name, reason: "test", scopes: [] };
      expect(await call(db, "change_openid_client", { change })).toEqual({ refused: "not_found" });
    }
    expect(await read(db, satellite)).toBeNull();
  });

  test("lists OpenID clients in pages by client id, and finds them by part of the client id or display name", async ({
    db,
  }) => {
    const clients = [];
    for (let index = 0; index < 5; index++) clients.push(await registerClient(db));
    const names = clients.map(({ name }) => name);
    const tag = `Tag ${names[0]}`;
    await db.query("update private.apps set display_name = $2 where name = any ($1)", [names, tag]);
    const seen: string[] = [];
    for (let after: string | null = null; ; ) {
      const args = { term: tag.toLowerCase(), after, page_size: 2 };
      const page: { name: string }[] = await call(db, "list_openid_clients", args);
      seen.push(...page.map(({ name }) => name));
      if (page.length < 2) break;
      after = page.at(-1)?.name ?? null;
    }
    expect(seen).toEqual(names.toSorted());
    expect(await call(db, "list_openid_clients", { term: names[3] })).toMatchObject([{ name: names[3] }]);
    expect(await call(db, "list_openid_clients", { term: "%" })).toEqual([]);
    const satellite = await registerApp(db);
    expect(await call(db, "list_openid_clients", { term: satellite.name })).toEqual([]);
  });

  test("an OpenID client can be disabled and enabled like any app", async ({ db }) => {
    const client = await registerClient(db);
    const setEnabled = (enabled: boolean) =>
      call(db, "set_app_enabled", { app_name: client.name, enabled, reason: "test" });
    expect(await setEnabled(false)).toBe(true);
    expect(await isClient(db, client, client.secretHash)).toBe(false);
    expect(await setEnabled(true)).toBe(true);
    expect(await isClient(db, client, client.secretHash)).toBe(true);
  });

  test("the secret of a confidential client can be rotated; a public client has none", async ({ db }) => {
    const rotate = ({ name }: App, secret_hash: Buffer) =>
      call(db, "rotate_app_secret", { app_name: name, secret_hash, overlap_seconds: 0, reason: "test" });
    const [client, next] = [await registerClient(db), newHash()];
    await rotate(client, next);
    expect([await isClient(db, client, client.secretHash), await isClient(db, client, next)]).toEqual([false, true]);
    const spa = await registerClient(db, { isPublic: true });
    expect(await isClient(db, spa, null)).toBe(true);
    expect((await failureOf(() => rotate(spa, newHash()))).code).toBe("23514");
  });
});

describe("changing an OpenID client in the console", () => {
  const begins = async (db: Database) => {
    const { sub: actor } = await createActor(db, {});
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
    const ask = (name: string, change: object) =>
      call(db, name, { change: { actor, reason: "test", requestId: "request-1", ip: "192.0.2.1", ...change } });
    return { actor, ask };
  };
  test("registering an OpenID client refuses a taken name, invalid fields, and a caller who is not an admin", async ({
    db,
  }) => {
    const { ask } = await begins(db);
    const client = registration();
    expect(await ask("add_openid_client", client)).toEqual({});
    expect(await ask("add_openid_client", client)).toEqual({ refused: "taken" });
    const invalid = [{ redirectUris: uris(21) }, { scopes: ["ai:use"] }, { logoutUrl: "http://app.example/logout" }];
    for (const more of invalid) {
      expect(await ask("add_openid_client", { ...registration(), ...more })).toEqual({ refused: "invalid" });
    }
    const { sub: stranger } = await createActor(db, {});
    const forbidden = { ...registration(), actor: stranger };
    expect(await ask("add_openid_client", forbidden)).toEqual({ refused: "forbidden" });
  });

  test("a console edit of an OpenID client succeeds only with the client's current version", async ({ db }) => {
    const { actor, ask } = await begins(db);
    const client = registration();
    await ask("add_openid_client", client);
    const { version } = await call(db, "read_openid_client", { client_id: client.name });
    const edit = { ...client, version, redirectUris: uris(2), logoutUrl: "https://app.example/logout" };
    expect(await ask("change_openid_client", { ...edit, version: randomUUID() })).toMatchObject({
      refused: "conflict",
    });
    expect(await ask("change_openid_client", edit)).toEqual({});
    const line = await one(db, {
      sql: "select actor_id, before, after from private.admin_audit_log where target = $1 and action = 'app.edit'",
      values: [`app ${client.name}`],
    });
    expect(line).toMatchObject({
      actor_id: actor,
      before: { redirectUris: client.redirectUris, logoutUrl: null },
      after: { redirectUris: uris(2), logoutUrl: "https://app.example/logout" },
    });
  });

  test("the console can't rotate a secret of a public OpenID client or link a workspace to it", async ({ db }) => {
    const { ask } = await begins(db);
    const client = registration({ isPublic: true });
    await ask("add_openid_client", client);
    const { version } = await call(db, "read_openid_client", { client_id: client.name });
    const { workspaceId } = await createTenant(db);
    const change = { name: client.name, version };
    const rotate = { ...change, step: "rotate", overlapSeconds: 0, secretHash: asText(newHash()) };
    expect(await ask("change_app", rotate)).toEqual({ refused: "invalid" });
    expect(await ask("change_app", { ...change, step: "link", workspace: workspaceId })).toEqual({
      refused: "not_found",
    });
  });
});

describe("calling the functions for other kinds of apps with an OpenID client", () => {
  test("list_apps and read_app return no OpenID client", async ({ db }) => {
    const client = await registerClient(db);
    expect(await call(db, "list_apps", { term: client.name })).toEqual([]);
    expect(await call(db, "read_app", { app_name: client.name })).toBeNull();
  });

  test("the functions for satellites can't register an OpenID client", async ({ db }) => {
    const { sub: actor } = await createActor(db, {});
    await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [actor]);
    const change = {
      actor,
      reason: "test",
      name: "openid-app",
      displayName: "X",
      origins: [],
      scopes: [],
    };
    await db.query("savepoint before");
    expect((await failureOf(() => call(db, "add_app", { change }))).code).toBe("23502");
    await db.query("rollback to savepoint before");
    const registered = { app_name: "openid-app", display_name: "X", kind: "openid", origins: [], scopes: [] };
    const register = () => call(db, "register_app", { ...registered, secret_hash: newHash(), reason: "test" });
    expect((await failureOf(register)).code).toBe("23514");
  });

  test("an OpenID client can't be looked up by an origin", async ({ db }) => {
    const client = await registerClient(db);
    const origin = `https://${client.name}.example`;
    await db.query("insert into private.app_origins (origin, app_id) values ($1, $2)", [origin, client.id]);
    expect(await call(db, "find_app_by_origin", { origin })).toBeNull();
  });

  test("an OpenID client gets no cross-app token", async ({ db }) => {
    const client = await registerClient(db);
    const claims = await createActor(db, {});
    expect(await prove(db, { claims, app: client })).toEqual({ refused: "not_found" });
  });

  test("an OpenID client's secret is not accepted for the calls of a satellite or external app", async ({ db }) => {
    const client = await registerClient(db, { scopes: ["profile", "workspaces:read"] });
    const { workspaceId } = await createTenant(db);
    const claims = await createActor(db, { workspaceId, role: "owner" });
    const app = await registerApp(db, { kind: "external", workspaceId });
    const handoff = await handOver(db, { claims, app });
    const session = await openAppSession(db, { claims, app: await registerApp(db) });
    const unauthenticated = { refused: "unauthenticated" };
    expect(await redeem(db, { app: client, handoff })).toEqual(unauthenticated);
    expect(await introspect(db, { app: client, hash: session.appHash })).toEqual(unauthenticated);
    const successor = newHash();
    expect(await refreshSession(db, { app: client, hash: session.appHash, successor })).toEqual(unauthenticated);
    expect(await exchange(db, { app: client, claims, workspaceId, handoff, pair: newPair() })).toEqual(unauthenticated);
    expect(await revoke(db, { app: client, hash: session.appHash })).toBe(false);
    const proof = { app_name: client.name, secret_hash: client.secretHash, token_hash: handoff.tokenHash };
    expect(await call(db, "cross_app_token_proof", proof)).not.toHaveProperty("proof");
    expect(await introspect(db, { app: session.app, hash: session.appHash })).toMatchObject({ active: true });
  });

  test("a key bound to an OpenID client is refused at the gateway", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const client = await registerClient(db);
    const link = { app_name: client.name, workspace_id: tenant.workspaceId, linked: true, reason: "test" };
    expect(await call(db, "set_app_workspace", link)).toBe(false);
    await db.query("insert into private.app_workspaces (app_id, workspace_id) values ($1, $2)", [
      client.id,
      tenant.workspaceId,
    ]);
    await db.query("update ai.keys set external_app_id = $2 where id = $1", [tenant.keyId, client.id]);
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "app_not_allowed" });
  });
});
