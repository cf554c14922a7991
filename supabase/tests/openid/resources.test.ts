import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type App, call, newHash, openPools, registerApp } from "../apps/fixtures.ts";
import { type Database, one, test } from "../database.ts";

const redirectUri = "https://client.example/callback";
const challenge = "c".repeat(43);
const newName = () => `client-${randomBytes(8).toString("hex")}`;
const newUrl = () => `https://client.example/${randomBytes(8).toString("hex")}.json`;

interface Registration {
  name: string;
  displayName: string;
  redirectUris: string[];
  metadataUrl: string | null;
  freshSeconds: number;
}

async function save(db: Database, more: Partial<Registration> = {}): Promise<void> {
  const client = { name: newName(), displayName: "Editor", redirectUris: [redirectUri], metadataUrl: null, ...more };
  await call(db, "save_self_registered_client", { client: { freshSeconds: 3_600, ...client } });
}

interface Resource extends App {
  url: string;
}

async function createResource(db: Database): Promise<Resource> {
  const app = await registerApp(db, { scopes: ["profile"] });
  const url = `https://tools.example/${app.name}`;
  expect(await call(db, "set_app_resource_url", { app_name: app.name, resource_url: url, reason: "test" })).toBe(true);
  return { ...app, url };
}

type Given = Record<string, unknown>;

/** Issues a code for a resource to a new session, with its person's consent. */
async function issue(db: Database, given: Given & { resource: string | null; client_id: string }) {
  const codeHash = newHash();
  const answer = await call(db, "issue_authorization_code", {
    claims: await createActor(db, {}),
    redirect_uri: redirectUri,
    scopes: ["openid", "profile", "workspaces:read"],
    nonce: null,
    code_challenge: challenge,
    code_hash: codeHash,
    consents: true,
    ...given,
  });
  return { answer, codeHash };
}

function redeem(db: Database, given: Given) {
  return call(db, "redeem_authorization_code", {
    secret_hash: null,
    redirect_uri: redirectUri,
    code_challenge: challenge,
    access_hash: newHash(),
    refresh_hash: newHash(),
    resource: null,
    ...given,
  });
}

/** Connects a new client to a resource. */
async function connect(db: Database, resource: Resource) {
  const name = newName();
  await save(db, { name });
  const { codeHash } = await issue(db, { client_id: name, resource: resource.url });
  const [accessHash, refreshHash] = [newHash(), newHash()];
  const given = { client_id: name, code_hash: codeHash, access_hash: accessHash, refresh_hash: refreshHash };
  return { name, accessHash, refreshHash, tokens: await redeem(db, given) };
}

const expiryOf = (db: Database, name: string) =>
  one<{ days: number }>(db, {
    sql: `select round(extract(epoch from c.expires_at - now()) / 86400)::integer as days
      from private.openid_clients c join private.apps a on a.id = c.app_id where a.name = $1`,
    values: [name],
  });

describe("a client that registers itself", () => {
  test.for([
    ["dynamic", null],
    ["document", newUrl],
  ] as const)("of the kind %s, the newest 1,000 may wait for their first login", async ([kind, url], { db }) => {
    await db.query(
      "delete from private.apps where id in (select app_id from private.openid_clients where registration = $1)",
      [kind],
    );
    // The oldest is the last. The two oldest of all are in use, or disabled.
    await db.query(
      `with app as (
         insert into private.apps (name, display_name, kind, enabled)
         select 'flood-' || n, 'Flood', 'openid', n <> 1001 from generate_series(1, 1001) as n returning id, name
       )
       insert into private.openid_clients (
         app_id, is_public, redirect_uris, registration, metadata_url, metadata_expires_at, expires_at
       )
       select id, true, $2, $1, case when $1 = 'document' then 'https://flood.example/' || name end,
         case when $1 = 'document' then now() end,
         now() + case name when 'flood-1000' then interval '2 days' else interval '1 day' end
           - substr(name, 7)::integer * interval '1 second'
       from app`,
      [kind, [redirectUri]],
    );
    const next = newName();
    const count = async () =>
      one(db, {
        sql: `select count(*)::integer as clients, count(*) filter (where a.name = any ($2))::integer as kept
          from private.openid_clients c join private.apps a on a.id = c.app_id where c.registration = $1`,
        values: [kind, [next, "flood-1", "flood-998", "flood-1000", "flood-1001"]],
      });
    await save(db, { name: next, metadataUrl: url?.() ?? null });
    expect(await count()).toEqual({ clients: 1002, kept: 5 });
    await save(db, { metadataUrl: url?.() ?? null });
    expect(await count()).toEqual({ clients: 1002, kept: 5 });
    expect(await db.query("select name from private.apps where name = 'flood-999'")).toEqual([]);
    // The other kind doesn't count.
    await save(db, { metadataUrl: url ? null : newUrl() });
    expect(await count()).toEqual({ clients: 1002, kept: 5 });
  });

  test("is kept for a day, and for 60 days after a login", async ({ db }) => {
    const resource = await createResource(db);
    const name = newName();
    await save(db, { name });
    expect(await expiryOf(db, name)).toEqual({ days: 1 });
    const connected = await connect(db, resource);
    expect(await expiryOf(db, connected.name)).toEqual({ days: 60 });
  });

  test("does nothing once it has expired, and is deleted by the sweep unless it is disabled", async ({ db }) => {
    const resource = await createResource(db);
    const [expired, disabled] = [await connect(db, resource), await connect(db, resource)];
    await db.query("update private.apps set enabled = false where name = $1", [disabled.name]);
    await db.query(
      "update private.openid_clients set expires_at = now() - interval '1 second' where app_id in (select id from private.apps where name = any ($1))",
      [[expired.name, disabled.name]],
    );
    const renewal = { client_id: expired.name, secret_hash: null, refresh_hash: expired.refreshHash, scopes: null };
    expect(
      await call(db, "refresh_openid_tokens", { ...renewal, access_hash: newHash(), successor_hash: newHash() }),
    ).toEqual({ refused: "unauthenticated" });
    await db.query("select private.sweep_app_credentials()");
    const left = await db.query("select name from private.apps where name = any ($1)", [[expired.name, disabled.name]]);
    expect(left).toEqual([{ name: disabled.name }]);
  });

  test.for([
    ["the same document", {}, 1],
    ["the same redirect URIs in another order", { redirectUris: ["https://client.example/b", redirectUri] }, 1],
    ["another name", { displayName: "Another" }, 0],
    ["another redirect URI", { redirectUris: [redirectUri, "https://client.example/c"] }, 0],
    ["one redirect URI less", { redirectUris: [redirectUri] }, 0],
  ] as const)(
    "of one consent, a document with %s (%j) leaves %i, and logins stay",
    async ([, changes, consents], { db }) => {
      const resource = await createResource(db);
      const before = { metadataUrl: newUrl(), redirectUris: [redirectUri, "https://client.example/b"] };
      await save(db, before);
      const { codeHash } = await issue(db, { client_id: before.metadataUrl, resource: resource.url });
      const tokens = await redeem(db, { client_id: before.metadataUrl, code_hash: codeHash });
      expect(tokens).toMatchObject({ clientId: before.metadataUrl, resource: resource.url });
      await save(db, {
        ...before,
        ...changes,
        redirectUris: [...((changes as Partial<Registration>).redirectUris ?? before.redirectUris)],
      });
      const counts = await one(db, {
        sql: `select (select count(*)::integer from private.openid_consents c where c.app_id = o.app_id) as consents,
          (select count(*)::integer from private.openid_grants g where g.app_id = o.app_id and g.revoked_at is null) as logins
        from private.openid_clients o where o.metadata_url = $1`,
        values: [before.metadataUrl],
      });
      expect(counts).toEqual({ consents, logins: 1 });
    },
  );

  test.for([
    ["without a resource", { resource: null }],
    ["for an unknown resource", { resource: "https://unknown.example" }],
    ["without PKCE", { code_challenge: null }],
    ["for another redirect URI", { redirect_uri: "https://evil.example" }],
  ] as const)("gets no code %s", async ([, given], { db }) => {
    const resource = await createResource(db);
    const name = newName();
    await save(db, { name });
    expect((await issue(db, { client_id: name, resource: resource.url, ...given })).answer).toEqual({
      refused: "client",
    });
  });

  test.for([
    ["http://127.0.0.1/callback", "http://127.0.0.1:4000/callback", true],
    ["http://localhost/callback", "http://localhost:4000/callback", true],
    ["http://localhost/callback", "http://localhost:4000/other", false],
    ["http://localhost/callback", "http://localhost.evil.example/callback", false],
    ["http://localhost/callback", "http://127.0.0.1:4000/callback", false],
    ["http://localhost/callback", "/callback", false],
    ["https://client.example/callback", "https://client.example:444/callback", false],
  ] as const)("with the redirect URI %s, %s is allowed: %s", async ([registered, used, isAllowed], { db }) => {
    const name = newName();
    await save(db, { name, redirectUris: [registered] });
    const opened = await call(db, "open_openid_authorization", { client_id: name, redirect_uri: used, scopes: [] });
    expect(opened.redirectAllowed).toBe(isAllowed);
  });

  test.for([
    ["https://client.example/callback", true],
    ["http://localhost/callback", false],
    ["http://a.localhost/callback", false],
    ["http://127.0.0.1/callback", false],
    ["http://127.0.0.2:8080/callback", false],
    ["http://[::1]/callback", false],
    ["https://127.1.2.3/callback", false],
    ["com.example.app:/callback", false],
    ["cursor://anysphere.cursor-mcp/callback", false],
  ] as const)("with the redirect URI %s, consent is remembered: %s", async ([uri, isRemembered], { db }) => {
    const resource = await createResource(db);
    const name = newName();
    await save(db, { name, redirectUris: [uri] });
    const claims = await createActor(db, {});
    const request = { claims, client_id: name, redirect_uri: uri, resource: resource.url };
    expect((await issue(db, request)).answer).toHaveProperty("scopes");
    const again = { ...request, scopes: ["openid", "profile"] };
    expect(await call(db, "open_openid_authorization", again)).toMatchObject({ session: { consented: isRemembered } });
    expect((await issue(db, { ...request, consents: false })).answer).toEqual(
      isRemembered ? { scopes: ["openid", "profile"] } : { refused: "consent_required" },
    );
  });

  test("an operator's public client may not vary the port of localhost", async ({ db }) => {
    const change = { name: newName(), displayName: "App", isPublic: true, scopes: [], postLogoutRedirectUris: [] };
    const more = {
      redirectUris: ["http://localhost/callback"],
      allowsDeviceGrant: false,
      secretHash: null,
      reason: "x",
    };
    expect(await call(db, "add_openid_client", { change: { ...change, ...more } })).toEqual({});
    const used = { client_id: change.name, redirect_uri: "http://localhost:4000/callback", scopes: [] };
    expect((await call(db, "open_openid_authorization", used)).redirectAllowed).toBe(false);
  });
});

describe("a token for a resource", () => {
  const introspect = (db: Database, app: Pick<App, "name" | "secretHash">, tokenHash: Buffer) =>
    call(db, "introspect_openid_token", { client_id: app.name, secret_hash: app.secretHash, token_hash: tokenHash });

  test("is short and renewable, and has only scopes of its resource", async ({ db }) => {
    const { tokens } = await connect(db, await createResource(db));
    expect(tokens).toMatchObject({ scopes: ["openid", "profile"], refreshable: true });
    expect(Number(tokens.expiresAt) - Number(tokens.issuedAt)).toBe(600);
  });

  test("is known to its resource only, and only as an access token", async ({ db }) => {
    const [resource, other] = [await createResource(db), await createResource(db)];
    const plain = await registerApp(db, { scopes: ["profile"] });
    const { accessHash, refreshHash, name } = await connect(db, resource);
    expect(await introspect(db, resource, accessHash)).toMatchObject({
      active: true,
      clientId: name,
      resource: resource.url,
    });
    expect(await introspect(db, other, accessHash)).toEqual({ active: false });
    expect(await introspect(db, resource, refreshHash)).toEqual({ active: false });
    expect(await introspect(db, plain, accessHash)).toEqual({ refused: "unauthenticated" });
    expect(await introspect(db, { ...resource, secretHash: newHash() }, accessHash)).toEqual({
      refused: "unauthenticated",
    });
    expect(await call(db, "read_openid_userinfo", { access_hash: accessHash })).toEqual({ refused: "token" });
  });

  test.for([
    ["is disabled", "update private.apps set enabled = false where id = $1"],
    ["has no resource URL any more", "update private.apps set resource_url = null where id = $1"],
  ] as const)("can be neither obtained nor renewed once its resource %s", async ([, sql], { db }) => {
    const resource = await createResource(db);
    const { name, refreshHash } = await connect(db, resource);
    const { codeHash } = await issue(db, { client_id: name, resource: resource.url });
    await db.query(sql, [resource.id]);
    expect(await redeem(db, { client_id: name, code_hash: codeHash })).toEqual({ refused: "token" });
    const renewal = { client_id: name, secret_hash: null, refresh_hash: refreshHash, scopes: null };
    expect(
      await call(db, "refresh_openid_tokens", { ...renewal, access_hash: newHash(), successor_hash: newHash() }),
    ).toEqual({ refused: "token" });
  });

  test.for([
    ["moves", "https://tools.example/moved", (resource: Resource) => `${resource.url}/moved`],
    ["is removed and set again", null, (resource: Resource) => resource.url],
  ] as const)("ends for good once its resource's URL %s", async ([, between, last], { db }) => {
    const resource = await createResource(db);
    const { name, accessHash, refreshHash } = await connect(db, resource);
    const { codeHash } = await issue(db, { client_id: name, resource: resource.url });
    for (const url of [between, last(resource)]) {
      await call(db, "set_app_resource_url", { app_name: resource.name, resource_url: url, reason: "test" });
    }
    expect(await introspect(db, resource, accessHash)).toEqual({ active: false });
    expect(await redeem(db, { client_id: name, code_hash: codeHash })).toEqual({ refused: "token" });
    const renewal = { client_id: name, secret_hash: null, refresh_hash: refreshHash, scopes: null };
    expect(
      await call(db, "refresh_openid_tokens", { ...renewal, access_hash: newHash(), successor_hash: newHash() }),
    ).toEqual({ refused: "token" });
  });

  test("survives another change of its resource", async ({ db }) => {
    const resource = await createResource(db);
    const { accessHash } = await connect(db, resource);
    await db.query("update private.apps set display_name = 'Renamed', resource_url = resource_url where id = $1", [
      resource.id,
    ]);
    expect(await introspect(db, resource, accessHash)).toMatchObject({ active: true });
  });

  test("the same URL registered for another app does not revive it", async ({ db }) => {
    const [resource, heir] = [await createResource(db), await createResource(db)];
    const { accessHash } = await connect(db, resource);
    await call(db, "set_app_resource_url", { app_name: resource.name, resource_url: null, reason: "test" });
    await call(db, "set_app_resource_url", { app_name: heir.name, resource_url: resource.url, reason: "test" });
    expect(await introspect(db, heir, accessHash)).toEqual({ active: false });
  });

  test.for([
    "http://tools.example/mcp",
    "https://tools.example/",
    "https://tools.example/mcp?a",
    "https://tools.example/mcp#a",
    "https://user@tools.example/mcp",
    "ftp://tools.example/mcp",
  ])("a resource URL %s is refused", async (url, { db }) => {
    const { name } = await registerApp(db, { scopes: [] });
    await expect(
      call(db, "set_app_resource_url", { app_name: name, resource_url: url, reason: "test" }),
    ).rejects.toThrow("apps_resource_url_check");
  });

  test("only an internal app can be a resource", async ({ db }) => {
    const { name } = await registerApp(db, { kind: "external" });
    const change = { app_name: name, resource_url: "https://tools.example/external", reason: "test" };
    expect(await call(db, "set_app_resource_url", change)).toBe(false);
  });
});

describe("concurrent registrations", () => {
  let pools: ReturnType<typeof openPools>;
  beforeAll(() => {
    pools = openPools(8);
  });
  afterAll(() => pools.close());

  test("of one document make one client", async () => {
    const metadataUrl = newUrl();
    await Promise.all(Array.from({ length: 8 }, () => save(pools.service, { metadataUrl })));
    const sql =
      "delete from private.apps where id in (select app_id from private.openid_clients where metadata_url = $1) returning 1 as n";
    expect(await pools.db.query(sql, [metadataUrl])).toEqual([{ n: 1 }]);
  });
});
