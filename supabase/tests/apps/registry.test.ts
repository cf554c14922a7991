import { describe, expect } from "vitest";
import { createWorkspace, failureOf } from "../actors.ts";
import { createUser, type Database, one, signIn, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { type App, call, handOver, introspect, newHash, openAppSession, registerApp } from "./fixtures.ts";

const rotate = (db: Database, { app, hash, overlap }: { app: App; hash: Buffer; overlap: number }) =>
  call<string | null>(db, "rotate_app_secret", {
    app_name: app.name,
    secret_hash: hash,
    overlap_seconds: overlap,
    reason: "test",
  });

const isIn = async (db: Database, app: App, secretHash: Buffer) =>
  (await db.query("select from private.authenticate_app($1, $2)", [app.name, secretHash])).length === 1;

describe("an origin of an app", () => {
  const add = async (db: Database, origin: string) => {
    const { id } = await registerApp(db);
    await db.query("insert into private.app_origins (origin, app_id) values ($1, $2)", [origin, id]);
  };

  test.for([
    "https://notes.example.com",
    "https://notes.example.com:8443",
    "http://localhost:3001",
    "http://notes.gatehouse.localhost:3001",
    "http://127.0.0.1:3001",
    "http://[::1]:3001",
  ])("accepts the app origin %s", async (origin, { db }) => {
    await add(db, origin);
  });

  test.for([
    "http://notes.example.com",
    "https://notes.example.com/",
    "https://notes.example.com/app",
    "https://*.example.com",
    "https://Notes.example.com",
    "https://notes.example.com:443",
    "http://localhost:80",
    "https://user@notes.example.com",
    "https://notes.example.com?x",
    "https://notes.example.com#x",
    "http://localhost.example.com",
    "http://evil-localhost",
    "http://127.0.0.1.example.com",
    "https://notes.example.com\n",
    "null",
    "javascript:alert(1)",
    "",
  ])("refuses the app origin %j", async (origin, { db }) => {
    expect((await failureOf(() => add(db, origin))).code).toBe("23514");
  });

  test("an origin can belong to only one app, and must match exactly", async ({ db }) => {
    const origin = `https://${crypto.randomUUID()}.example.com`;
    const app = await registerApp(db, { origins: [origin] });
    expect(await call(db, "find_app_by_origin", { origin })).toEqual({
      name: app.name,
      displayName: "Notes",
      enabled: true,
      scopes: expect.any(Array),
    });
    for (const other of [`${origin}:8443`, `${origin}.evil.example`, origin.replace("https:", "http:"), ""])
      expect(await call(db, "find_app_by_origin", { origin: other })).toBeNull();
    expect((await failureOf(() => registerApp(db, { origins: [origin] }))).code).toBe("23505");
  });
});

describe("an app's registration", () => {
  test.for(["a", "A-b", "1a", "a b", "web", "central", "a".repeat(41), "a:b"])(
    "an app can't be registered with the name %j",
    async (name, { db }) => {
      const change = () =>
        db.query("insert into private.apps (name, display_name, kind) values ($1, 'x', 'internal')", [name]);
      expect((await failureOf(change)).code).toBe("23514");
    },
  );

  test.for([
    ["internal", "ai:use", false],
    ["internal", "workspaces:write", true],
    ["external", "ai:use", true],
    ["external", "admin", false],
  ] as const)("registering an %s app with scope %s is allowed: %s", async ([kind, scope, allowed], { db }) => {
    const work = () => registerApp(db, { kind, scopes: [scope] });
    if (allowed) await work();
    else expect((await failureOf(work)).code).toBe("23514");
  });

  test("logs an app's registration without its secret", async ({ db }) => {
    const app = await registerApp(db);
    const log = await one(db, {
      sql: "select actor_id, action, reason, after from private.admin_audit_log where target = $1",
      values: [`app ${app.name}`],
    });
    expect(log).toMatchObject({ actor_id: null, action: "app.register", reason: "test", after: { name: app.name } });
    expect(JSON.stringify(log)).not.toContain(app.secretHash.toString("hex"));
    const list = await call<{ name: string }[]>(db, "list_apps", {});
    const entry = list.find(({ name }) => name === app.name);
    expect(entry).toMatchObject({ kind: "internal", enabled: true, secrets: 1, origins: [], workspaces: [] });
    expect(JSON.stringify(list)).not.toContain(app.secretHash.toString("hex"));
  });

  test("lists registered apps in pages by name, and finds them by part of the name or display name", async ({ db }) => {
    const apps = [];
    for (let index = 0; index < 5; index++) apps.push(await registerApp(db));
    const names = apps.map(({ name }) => name);
    const tag = `Tag ${names[0]}`;
    await db.query("update private.apps set display_name = $2 where name = any ($1)", [names, tag]);
    const seen: string[] = [];
    for (let after: string | null = null; ; ) {
      const page: { name: string }[] = await call(db, "list_apps", { term: tag.toLowerCase(), after, page_size: 2 });
      seen.push(...page.map(({ name }) => name));
      if (page.length < 2) break;
      after = page.at(-1)?.name ?? null;
    }
    expect(seen).toEqual(names.toSorted());
    expect(await call(db, "list_apps", { term: names[3] })).toMatchObject([{ name: names[3] }]);
    expect(await call(db, "list_apps", { term: "%" })).toEqual([]);
  });

  test("an app can't be deleted while keys are bound to it, because they would become ordinary keys", async ({
    db,
  }) => {
    const app = await registerApp(db, { kind: "external" });
    const tenant = await createTenant(db);
    await db.query("update ai.keys set external_app_id = $1 where id = $2", [app.id, tenant.keyId]);
    const remove = () => db.query("delete from private.apps where id = $1", [app.id]);
    await db.query("savepoint before");
    expect((await failureOf(remove)).code).toBe("23503");
    await db.query("rollback to savepoint before");
    await db.query("delete from ai.keys where id = $1", [tenant.keyId]);
    await remove();
  });

  test("an app can be linked only to an existing workspace", async ({ db }) => {
    const app = await registerApp(db, { kind: "external" });
    const { id } = await createWorkspace(db);
    const set = (workspace_id: string, linked: boolean) =>
      call<boolean>(db, "set_app_workspace", { app_name: app.name, workspace_id, linked, reason: "test" });
    const mayAct = async () =>
      (
        await one<{ may: boolean }>(db, {
          sql: "select ai.app_can_act_in_workspace($1, $2) as may",
          values: [app.id, id],
        })
      ).may;
    expect(await mayAct()).toBe(false);
    expect(await set(id, true)).toBe(true);
    expect(await set(id, true)).toBe(true);
    expect(await mayAct()).toBe(true);
    expect(await set(id, false)).toBe(true);
    expect(await mayAct()).toBe(false);
    expect(await set(crypto.randomUUID(), true)).toBe(false);
    await set(id, true);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [id]);
    expect(await mayAct()).toBe(false);
    expect(await set(id, true)).toBe(false);
  });
});

describe("an app's secret", () => {
  test("an app's secret is accepted only together with that app's name", async ({ db }) => {
    const [app, other] = [await registerApp(db), await registerApp(db)];
    expect(await isIn(db, app, app.secretHash)).toBe(true);
    expect(await isIn(db, app, other.secretHash)).toBe(false);
    expect(await isIn(db, app, newHash())).toBe(false);
    expect(await isIn(db, { ...app, name: "no-such-app" }, app.secretHash)).toBe(false);
  });

  test.for([
    { overlap: 0, oldLives: false },
    { overlap: 1, oldLives: true },
    { overlap: 86400, oldLives: true },
  ])(
    "after an app's secret is rotated with an overlap of $overlap s, the new secret works, and the old secret works until the overlap ends",
    async ({ overlap, oldLives }, { db }) => {
      const app = await registerApp(db);
      const next = newHash();
      expect(await rotate(db, { app, hash: next, overlap })).not.toBeNull();
      expect(await isIn(db, app, next)).toBe(true);
      expect(await isIn(db, app, app.secretHash)).toBe(oldLives);
    },
  );

  test.for([-1, 86401])("refuses to rotate an app's secret with an overlap of %i s", async (overlap, { db }) => {
    const app = await registerApp(db);
    expect((await failureOf(() => rotate(db, { app, hash: newHash(), overlap }))).code).toBe("23514");
  });

  test("rotating an app's secret again does not postpone the expiry of an earlier secret", async ({ db }) => {
    const app = await registerApp(db);
    await rotate(db, { app, hash: newHash(), overlap: 60 });
    await rotate(db, { app, hash: newHash(), overlap: 3600 });
    const row = await one<{ seconds: number }>(db, {
      sql: "select extract(epoch from expires_at - now())::int as seconds from private.app_secrets where secret_hash = $1",
      values: [app.secretHash],
    });
    expect(row.seconds).toBe(60);
  });

  test("an app's secret expires exactly on time", async ({ db }) => {
    const app = await registerApp(db);
    const endAt = (moment: string) =>
      db.query(`update private.app_secrets set expires_at = ${moment} where app_id = $1`, [app.id]);
    await endAt("now() + interval '1 microsecond'");
    expect(await isIn(db, app, app.secretHash)).toBe(true);
    await endAt("now()");
    expect(await isIn(db, app, app.secretHash)).toBe(false);
  });
});

describe("a disabled app", () => {
  const setEnabled = (db: Database, app: App, enabled: boolean) =>
    call<boolean>(db, "set_app_enabled", { app_name: app.name, enabled, reason: "test" });

  test("a disabled app can't use any credential, and enabling it restores none of them", async ({ db }) => {
    const app = await registerApp(db);
    const claims = await signIn(db, { userId: (await createUser(db)).id });
    const session = await openAppSession(db, { claims, app });
    const handoff = await handOver(db, { claims, app });
    expect(await setEnabled(db, app, false)).toBe(true);
    expect(await introspect(db, { app, hash: session.appHash })).toEqual({ refused: "unauthenticated" });
    const facts = await call(db, "required_mfa_proof", { claims, target_app: app.name, lifetime_seconds: 300 });
    expect(facts).toEqual({ refused: "not_found" });

    expect(await setEnabled(db, app, true)).toBe(true);
    expect(await introspect(db, { app, hash: session.appHash })).toEqual({ active: false });
    const again = { app_name: app.name, secret_hash: app.secretHash, token_hash: handoff.tokenHash };
    expect(await call(db, "cross_app_token_proof", again)).toMatchObject({ proof: null });
  });

  test("disabling an unknown app or rotating its secret is refused", async ({ db }) => {
    expect(await setEnabled(db, { id: "", name: "no-such-app", secretHash: newHash() }, false)).toBe(false);
    expect(
      await rotate(db, { app: { id: "", name: "no-such-app", secretHash: newHash() }, hash: newHash(), overlap: 0 }),
    ).toBeNull();
  });
});
