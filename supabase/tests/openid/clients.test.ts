import { describe, expect } from "vitest";
import { failureOf } from "../actors.ts";
import { call, newHash } from "../apps/fixtures.ts";
import { type Database, one, test } from "../database.ts";

const hashText = () => `\\x${newHash().toString("hex")}`;
const newName = () => `client-${crypto.randomUUID().slice(0, 8)}`;
type Answer = { refused?: string };

async function add(db: Database, change: Record<string, unknown> = {}) {
  const name = newName();
  const secretHash = hashText();
  const client = {
    name,
    displayName: "Charts",
    isPublic: false,
    scopes: ["profile"],
    redirectUris: ["https://charts.example/callback"],
    postLogoutRedirectUris: [],
    logoutUrl: null,
    allowsDeviceGrant: false,
    secretHash,
    reason: "test",
    ...change,
  };
  const answer = await call<Answer>(db, "add_openid_client", { change: client });
  return { name, secretHash, answer };
}
const read = (db: Database, name: string) =>
  call<Record<string, unknown> | null>(db, "read_openid_client", { client_id: name });

describe("an OpenID client", () => {
  test("registering an OpenID client and editing some of its fields succeed, and each change is in the audit log", async ({
    db,
  }) => {
    const { name, answer } = await add(db);
    expect(answer).toEqual({});
    const { version } = (await read(db, name)) ?? {};
    const change = {
      name,
      version,
      redirectUris: ["https://charts.example/other"],
      logoutUrl: "https://charts.example/out",
    };
    expect(await call(db, "change_openid_client", { change: { ...change, reason: "moved" } })).toEqual({});
    expect(await read(db, name)).toMatchObject({
      displayName: "Charts",
      scopes: ["profile"],
      redirectUris: ["https://charts.example/other"],
      logoutUrl: "https://charts.example/out",
    });
    expect(
      await call(db, "change_openid_client", { change: { ...change, version: crypto.randomUUID(), reason: "late" } }),
    ).toMatchObject({
      refused: "conflict",
    });
    const lines = await db.query(
      "select action, reason from private.admin_audit_log where target = $1 order by created_at, id",
      [`app ${name}`],
    );
    expect(lines).toHaveLength(2);
    expect(lines).toEqual(
      expect.arrayContaining([
        { action: "app.edit", reason: "moved" },
        { action: "app.register", reason: "test" },
      ]),
    );
  });

  test("an OpenID client must have a secret if it is confidential, and must not have one if it is public", async ({
    db,
  }) => {
    expect((await failureOf(() => add(db, { isPublic: true }))).code).toBe("23514");
  });

  test("the secret of a public OpenID client can't be rotated", async ({ db }) => {
    const { name } = await add(db, { isPublic: true, secretHash: null });
    const rotation = { app_name: name, secret_hash: newHash(), overlap_seconds: 0, reason: "test" };
    expect((await failureOf(() => call(db, "rotate_app_secret", rotation))).code).toBe("23514");
  });

  test.for([
    [{ scopes: ["ai:use"] }, "invalid"],
    [{ scopes: ["unknown"] }, "invalid"],
    [{ logoutUrl: "http://charts.example/out" }, "invalid"],
    [{ redirectUris: Array.from({ length: 21 }, (_, index) => `https://charts.example/${index}`) }, "invalid"],
    [{ actor: crypto.randomUUID() }, "forbidden"],
  ] as const)("registering an OpenID client with %j returns the refusal %s", async ([change, refused], { db }) => {
    expect((await add(db, change)).answer).toEqual({ refused });
  });

  test("an OpenID client has at most 20 redirect URIs", async ({ db }) => {
    const redirectUris = Array.from({ length: 20 }, (_, index) => `https://charts.example/${index}`);
    expect((await add(db, { redirectUris })).answer).toEqual({});
  });

  test("an OpenID client can't be listed, read, authenticated or linked as an app, or be a handoff's target", async ({
    db,
  }) => {
    const { name, secretHash } = await add(db);
    expect(await call(db, "list_apps", { term: name })).toEqual([]);
    expect(await call(db, "read_app", { app_name: name })).toBeNull();
    expect(await db.query("select from private.authenticate_app($1, $2)", [name, secretHash])).toEqual([]);
    const { id } = await one<{ id: string }>(db, {
      sql: "select id from private.apps where name = $1",
      values: [name],
    });
    const facts = { targetId: id, user: crypto.randomUUID(), issuedAt: "2026-01-01", expiresAt: "2026-01-01" };
    expect(await call(db, "mint_cross_app_token", { token_hash: newHash(), facts, proof: "p" })).toBe(false);
    const link = { app_name: name, workspace_id: crypto.randomUUID(), linked: true, reason: "test" };
    expect(await call(db, "set_app_workspace", link)).toBe(false);
    const [listed] = (await call<{ name: string }[]>(db, "list_openid_clients", { term: name })) ?? [];
    expect(listed?.name).toBe(name);
  });

  test("register_app rejects an app of kind openid", async ({ db }) => {
    const app = {
      app_name: newName(),
      display_name: "x",
      kind: "openid",
      origins: [],
      scopes: [],
      secret_hash: newHash(),
    };
    expect((await failureOf(() => call(db, "register_app", { ...app, reason: "test" }))).code).toBe("23514");
  });
});
