import { randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, failureOf, type MfaState } from "../actors.ts";
import { newHash } from "../apps/fixtures.ts";
import { type Claims, createUser, type Database, one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { createAdmin as createChangingAdmin } from "./fixtures.ts";

async function createAdmin(db: Database, mfa: MfaState = "a factor, at AAL2"): Promise<Claims> {
  const claims = await createActor(db, { mfa });
  await db.query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [claims.sub]);
  return claims;
}

async function addLine(db: Database): Promise<string> {
  const target = `test ${randomUUID()}`;
  await db.query("insert into private.admin_audit_log (action, target, reason) values ('test.line', $1, 'test')", [
    target,
  ]);
  return target;
}

async function search(db: Database, { reader, filters }: { reader: object; filters: object }) {
  const { lines } = await one<{ lines: { action: string; target: string; targetName: string | null }[] | null }>(db, {
    sql: "select private.search_audit_log($1, $2) as lines",
    values: [JSON.stringify(reader), JSON.stringify(filters)],
  });
  return lines;
}

const read = (db: Database, { reader, target }: { reader: object; target: string }) =>
  search(db, { reader, filters: { target } });

describe("the audit log", () => {
  test("an admin with a second factor can read the audit log", async ({ db }) => {
    const [reader, target] = [await createAdmin(db), await addLine(db)];
    expect(await db.asRole("service_role", () => read(db, { reader, target }))).toMatchObject([{ target }]);
    expect(await db.asRole("service_role", () => read(db, { reader, target: `${target}!` }))).toEqual([]);
  });

  test.for([
    ["the admin role is withdrawn", "delete from private.infrastructure_admins where user_id = $1"],
    ["the session has ended", "delete from auth.sessions where user_id = $1"],
    ["the account is banned", "update auth.users set banned_until = now() + interval '1 day' where id = $1"],
    ["the account is deleted", "update auth.users set deleted_at = now() where id = $1"],
    ["the session's authenticator is removed", "delete from auth.mfa_factors where user_id = $1"],
  ] as const)("an admin can no longer read the audit log once %s", async ([, sql], { db }) => {
    const [reader, target] = [await createAdmin(db), await addLine(db)];
    expect(await read(db, { reader, target })).toHaveLength(1);
    await db.query(sql, [reader.sub]);
    expect(await read(db, { reader, target })).toBeNull();
  });

  test("a service account can read the audit log with the scope for it, until it is disabled", async ({ db }) => {
    const target = await addLine(db);
    const [{ id } = { id: "" }] = await db.query<{ id: string }>(
      `insert into private.service_accounts (name, scopes, expires_at)
        values ($1, '{admin:audit:read}', now() + interval '1 day') returning id`,
      [target],
    );
    const find = async () => {
      const { lines } = await one<{ lines: { target: string }[] | null }>(db, {
        sql: "select private.search_audit_log('{}', $1, service_account => $2) as lines",
        values: [JSON.stringify({ target }), id],
      });
      return lines;
    };
    expect(await db.asRole("service_role", find)).toMatchObject([{ target }]);
    await db.query("update private.service_accounts set scopes = '{admin:books}' where id = $1", [id]);
    expect(await find()).toBeNull();
    await db.query("update private.service_accounts set scopes = '{admin:audit:read}', enabled = false where id = $1", [
      id,
    ]);
    expect(await find()).toBeNull();
  });

  test.for(["a factor, at AAL1", "no policy and no factor", "required, at AAL2 of before the boundary"] as const)(
    "an admin whose MFA state is not satisfied can't read the audit log: %s",
    async (mfa, { db }) => {
      const [reader, target] = [await createAdmin(db, mfa), await addLine(db)];
      expect(await read(db, { reader, target })).toBeNull();
    },
  );

  test("the audit log can't be read by a non-admin, with another person's session, or without a session", async ({
    db,
  }) => {
    const [admin, target] = [await createAdmin(db), await addLine(db)];
    const other = await createActor(db, { mfa: "a factor, at AAL2" });
    for (const reader of [other, { ...admin, session_id: other.session_id }, {}]) {
      expect(await read(db, { reader, target })).toBeNull();
    }
  });

  test("only the service role can call the function that reads the audit log", async ({ db }) => {
    const reader = await createAdmin(db);
    const ask = () => read(db, { reader, target: "x" });
    expect(await failureOf(() => db.asUser(reader, ask))).toMatchObject({ code: "42501" });
    expect(await failureOf(() => db.asRole("gateway", ask))).toMatchObject({ code: "42501" });
  });
});

describe("the targets of the audit log", () => {
  test("an entry keeps the name of a deleted workspace, and is found by it", async ({ db }) => {
    const [reader, admin, tenant] = [await createAdmin(db), await createChangingAdmin(db), await createTenant(db)];
    const name = `Harbour ${randomUUID()}`;
    await db.query("update public.workspaces set name = $2 where id = $1", [tenant.workspaceId, name]);
    expect(await admin.ask("set_key_approval", { workspace: tenant.workspaceId, approved: false })).toEqual({});
    await db.query("update public.workspaces set name = 'Renamed', deleted_at = now() where id = $1", [
      tenant.workspaceId,
    ]);
    const target = `workspace ${tenant.workspaceId}`;
    expect(await read(db, { reader, target: name.toUpperCase() })).toMatchObject([
      { target, targetName: name, targetKind: null, targetId: null },
    ]);
  });

  test("an entry keeps no name of a personal workspace, but has its current one and is found by it", async ({ db }) => {
    const [reader, admin, owner] = [await createAdmin(db), await createChangingAdmin(db), await createUser(db)];
    const name = `Personal ${randomUUID()}`;
    const [workspace] = await db.query<{ id: string }>(
      "update public.workspaces set name = $2 where personal_user_id = $1 returning id",
      [owner.id, name],
    );
    const change = { payer: "workspace", ownerId: workspace?.id, step: "grant", amount: "5", reference: "INV-1" };
    expect(await admin.ask("change_credits", change)).toEqual({});
    expect(await read(db, { reader, target: name })).toMatchObject([{ action: "credits.grant", targetName: name }]);
    await db.query("delete from auth.users where id = $1", [owner.id]);
    expect(await read(db, { reader, target: name })).toEqual([]);
    expect(await read(db, { reader, target: workspace?.id ?? "" })).toMatchObject([{ targetName: null }]);
  });

  test("an entry of a member's credits is found by the email address until the account is deleted", async ({ db }) => {
    const [reader, admin, member] = [await createAdmin(db), await createChangingAdmin(db), await createUser(db)];
    const change = { payer: "member", ownerId: member.id, step: "grant", amount: "5", reference: "INV-1" };
    expect(await admin.ask("change_credits", change)).toEqual({});
    expect(await read(db, { reader, target: member.email })).toMatchObject([
      { targetName: member.email, targetKind: "member", targetId: member.id },
    ]);
    await db.query("delete from auth.users where id = $1", [member.id]);
    expect(await read(db, { reader, target: member.email })).toEqual([]);
  });

  test("an old entry has the current name of its target", async ({ db }) => {
    const [reader, tenant, user] = [await createAdmin(db), await createTenant(db), await createUser(db)];
    const run = randomUUID().slice(0, 8);
    await db.query("insert into private.apps (name, display_name, kind) values ($1, 'Notes', 'internal')", [
      `notes-${run}`,
    ]);
    const [machine] = await db.query<{ id: string }>(
      `insert into private.service_accounts (name, scopes, expires_at)
       values ($1, '{admin:audit:read}', now() + interval '1 day') returning id`,
      [`deploy-${run}`],
    );
    const targets = [
      [`workspace ${tenant.workspaceId}`, "Test", "workspace", tenant.workspaceId],
      [`member ${user.id}`, user.email, "member", user.id],
      [`plan ${tenant.planId}`, "Test", "plan", tenant.planId],
      [`app notes-${run}`, "Notes", "app", `notes-${run}`],
      [`service account ${machine?.id}`, `deploy-${run}`, "service_account", machine?.id],
      [`workspace ${randomUUID()}`, null, null, null],
      ["workspace x", null, null, null],
      [`provider harbour-${run}`, null, "provider", `harbour-${run}`],
      // The id of a deleted account.
      [user.id, null, null, null],
    ] as const;
    for (const [target, targetName, targetKind, targetId] of targets) {
      await db.query("insert into private.admin_audit_log (action, target, reason) values ('test.line', $1, 'test')", [
        target,
      ]);
      const lines = await search(db, { reader, filters: { target, action: "test.line" } });
      expect(lines?.find((line) => line.target === target)).toMatchObject({
        targetName,
        targetKind,
        targetId,
      });
    }
  });

  test("the filter of actions is exact, and a prefix if it ends with a dot", async ({ db }) => {
    const reader = await createAdmin(db);
    const target = `test ${randomUUID()}`;
    await db.query(
      `insert into private.admin_audit_log (action, target, reason)
       values ('model.edit', $1, 'test'), ('model.edit_route', $1, 'test')`,
      [target],
    );
    const found = async (action: string) =>
      (await search(db, { reader, filters: { target, action } }))?.map((line) => line.action).toSorted();
    expect(await found("model.edit")).toEqual(["model.edit"]);
    expect(await found("model.")).toEqual(["model.edit", "model.edit_route"]);
    expect(await found("model.ed")).toEqual([]);
  });

  test("an entry has its amounts as exact text", async ({ db }) => {
    const reader = await createAdmin(db);
    const target = `test ${randomUUID()}`;
    await db.query(
      `insert into private.admin_audit_log (action, target, reason, before, after)
       values ('test.line', $1, 'test', '"malformed"', '{"initial_credits": 123456789012.12345678, "enabled": true}')`,
      [target],
    );
    expect(await read(db, { reader, target })).toMatchObject([
      { before: "malformed", after: { initial_credits: "123456789012.12345678", enabled: true } },
    ]);
  });
});

describe("secrets", () => {
  test("no table whose rows are recorded whole has a column for a secret", async ({ db }) => {
    const recorded = ["ai.models", "ai.plans", "ai.model_prices", "ai.model_routes", "private.apps"];
    const columns = await db.query(
      `select attrelid::regclass::text as table, attname as column
       from pg_catalog.pg_attribute
       where attrelid = any ($1::regclass[]) and attname ~ '(hash|secret|token|password)$'`,
      [[...recorded, "private.recovery_overrides"]],
    );
    expect(columns).toEqual([]);
  });

  test("registering an app and rotating its secret record no hash", async ({ db }) => {
    const admin = await createChangingAdmin(db);
    const name = `app-${randomUUID().slice(0, 8)}`;
    const [first, second] = [newHash().toString("hex"), newHash().toString("hex")];
    const app = { name, displayName: "Notes", kind: "internal", origins: [], scopes: ["profile"] };
    expect(await admin.ask("add_app", { ...app, secretHash: `\\x${first}` })).toEqual({});
    const { version } = await one<{ version: string }>(db, {
      sql: "select private.read_app($1) ->> 'version' as version",
      values: [name],
    });
    const rotation = { name, version, step: "rotate", secretHash: `\\x${second}`, overlapSeconds: 0 };
    expect(await admin.ask("change_app", rotation)).toEqual({});
    const lines = await db.query<{ line: string }>(
      "select to_jsonb(l)::text as line from private.admin_audit_log l where target = $1",
      [`app ${name}`],
    );
    expect(lines).toHaveLength(2);
    for (const { line } of lines) {
      expect(line).toContain('"target_name": "Notes"');
      expect(line).not.toContain(first);
      expect(line).not.toContain(second);
    }
  });
});
