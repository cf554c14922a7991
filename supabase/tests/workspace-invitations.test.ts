import { randomBytes } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf, matrix } from "./actors.ts";
import { type Claims, type Database, one, test } from "./database.ts";

type Invitation = { workspaceId: string; role?: string; email?: string };

const invite = (db: Database, { workspaceId, role = "viewer", email = "new@example.test" }: Invitation) =>
  db.query(
    `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
     values ($1, $2, (select id from public.workspace_roles where workspace_id = $1 and name = $3), $4)`,
    [workspaceId, email, role, randomBytes(32)],
  );

const count = async (db: Database, workspaceId: string) =>
  (await db.query("select from public.workspace_invitations where workspace_id = $1", [workspaceId])).length;

const asManager = async (db: Database, claims: Claims, invitation: Invitation) =>
  db.asUser(claims, () => invite(db, invitation));

describe("workspace invitations", () => {
  test.for(matrix)("are made by a $role ($mfa)", async ({ role, permissions, mfa, satisfied }, { db }) => {
    const { id } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId: id, role, mfa });
    const allowed = satisfied && permissions.includes("manage_members");
    if (allowed) await asManager(db, claims, { workspaceId: id });
    else expect((await failureOf(() => asManager(db, claims, { workspaceId: id }))).code).toMatch(/^(42501|23502)$/);
    expect(await count(db, id)).toBe(allowed ? 1 : 0);
  });

  test.for(matrix)(
    "are read and withdrawn by a $role ($mfa)",
    async ({ role, permissions, mfa, satisfied }, { db }) => {
      const { id, owner } = await createWorkspace(db);
      await asManager(db, owner, { workspaceId: id });
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const allowed = satisfied && permissions.includes("manage_members");
      const seen = await db.asUser(claims, () =>
        db.query("select email, invited_by from public.workspace_invitations where workspace_id = $1", [id]),
      );
      expect(seen).toEqual(allowed ? [{ email: "new@example.test", invited_by: owner.sub }] : []);
      await db.asUser(claims, () => db.query("delete from public.workspace_invitations where workspace_id = $1", [id]));
      expect(await count(db, id)).toBe(allowed ? 0 : 1);
    },
  );

  test("are 500 of a workspace at most that nobody has accepted", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const inviteMany = (from: number, to: number) =>
      db.asUser(owner, () =>
        db.query(
          `insert into public.workspace_invitations (workspace_id, email, role_id, token_hash)
           select $1, 'u' || n || '@example.test', r.id, sha256((r.id::text || n)::bytea)
           from generate_series($2::integer, $3::integer) as n, public.workspace_roles r
           where r.workspace_id = $1 and r.name = 'viewer'`,
          [id, from, to],
        ),
      );
    await inviteMany(1, 500);
    expect((await failureOf(() => inviteMany(501, 501))).code).toBe("PT409");
    await db.query(
      "update public.workspace_invitations set accepted_at = now() where workspace_id = $1 and email = 'u1@example.test'",
      [id],
    );
    await inviteMany(501, 501);
  });

  test("offer no role above the inviter's own", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const admin = await createActor(db, { workspaceId: id, role: "admin" });
    expect((await failureOf(() => asManager(db, admin, { workspaceId: id, role: "owner" }))).code).toBe("42501");
    await asManager(db, owner, { workspaceId: id, role: "owner" });
    expect(await count(db, id)).toBe(1);
  });

  test.for([
    "select token_hash from public.workspace_invitations",
    "update public.workspace_invitations set accepted_at = now()",
    "insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, invited_by) select null, null, null, null, null",
    "insert into public.workspace_invitations (workspace_id, email, role_id, token_hash, expires_at) select null, null, null, null, null",
  ])("refuse even an owner's %s", async (sql, { db }) => {
    const { owner } = await createWorkspace(db);
    expect((await failureOf(() => db.asUser(owner, () => db.query(sql)))).code).toBe("42501");
  });

  test("are closed to anon", async ({ db }) => {
    const read = () => db.asRole("anon", () => db.query("select id from public.workspace_invitations"));
    expect((await failureOf(read)).code).toBe("42501");
  });

  test("stand open once an address, and again after they were accepted", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await asManager(db, owner, { workspaceId: id });
    expect((await failureOf(() => asManager(db, owner, { workspaceId: id }))).code).toBe("23505");
    await db.query("update public.workspace_invitations set accepted_at = now() where workspace_id = $1", [id]);
    await asManager(db, owner, { workspaceId: id });
    expect(await count(db, id)).toBe(2);
  });

  test.for(["Upper@example.test", "no-at-sign", `${"a".repeat(250)}@x.test`])(
    "refuse the address %s",
    async (email, { db }) => {
      const { id, owner } = await createWorkspace(db);
      expect((await failureOf(() => asManager(db, owner, { workspaceId: id, email }))).code).toBe("23514");
    },
  );

  test("last seven days", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await asManager(db, owner, { workspaceId: id });
    const row = await one(db, {
      sql: "select expires_at = now() + interval '7 days' as week from public.workspace_invitations where workspace_id = $1",
      values: [id],
    });
    expect(row).toEqual({ week: true });
  });
});
