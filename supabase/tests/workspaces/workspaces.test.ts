import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf, matrix } from "../actors.ts";
import { createUser, join, one, test } from "../database.ts";
import { openLine, untilItWaits } from "../race-fixtures.ts";

const permissionDenied = "42501";

describe("workspaces", () => {
  test.for(matrix)(
    "only members who satisfy MFA can read a workspace: $role ($mfa)",
    async ({ role, mfa, satisfied }, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const rows = await db.asUser(claims, () => db.query("select id from public.workspaces where id = $1", [id]));
      expect(rows.length).toBe(satisfied && role !== "outsider" ? 1 : 0);
    },
  );

  test.for(matrix)(
    "workspaces can be renamed only with manage_workspace_settings and satisfied MFA: $role ($mfa)",
    async ({ role, permissions, mfa, satisfied }, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      await db.asUser(claims, () => db.query("update public.workspaces set name = 'Renamed' where id = $1", [id]));
      const row = await one(db, { sql: "select name from public.workspaces where id = $1", values: [id] });
      const allowed = satisfied && permissions.includes("manage_workspace_settings");
      expect(row).toEqual({ name: allowed ? "Renamed" : "Shared" });
    },
  );

  test.for([
    "update public.workspaces set plan_id = 'enterprise'",
    "update public.workspaces set deleted_at = null",
    "update public.workspaces set personal_user_id = null",
    "insert into public.workspaces (name) values ('X')",
    "delete from public.workspaces",
  ])("a workspace can't be changed by its owner's %s", async (sql, { db }) => {
    const { owner } = await createWorkspace(db);
    const error = await failureOf(() => db.asUser(owner, () => db.query(sql)));
    expect(error.code).toBe(permissionDenied);
  });

  test.for([" ", "\u00a0", "\n", "a\r\nb", "a\u0007b", "a\u202eb", "a\u200bb", "", "x".repeat(81)])(
    "a workspace can't have the unreadable name %j",
    async (name, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const renamed = () => db.query("update public.workspaces set name = $2 where id = $1", [id, name]);
      const founded = () => db.query("select public.create_workspace($1)", [name]);
      for (const change of [renamed, founded])
        expect((await failureOf(() => db.asUser(owner, change))).code).toBe("23514");
    },
  );

  test("anon can't read workspaces", async ({ db }) => {
    const error = await failureOf(() => db.asRole("anon", () => db.query("select from public.workspaces")));
    expect(error.code).toBe(permissionDenied);
  });

  test("deleted workspaces are hidden from everyone, while their row remains", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [id]);
    const rows = await db.asUser(owner, () =>
      db.query(
        `select id from public.workspaces where id = $1
         union all select workspace_id from public.workspace_members where workspace_id = $1
         union all select workspace_id from public.workspace_roles where workspace_id = $1`,
        [id],
      ),
    );
    expect(rows).toEqual([]);
    expect(await db.query("select from public.workspaces where id = $1", [id])).toHaveLength(1);
  });

  test("a new workspace has the four standard roles, and its founder is the owner", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const roles = await db.query(
      "select name, is_owner, cardinality(permissions) as size from public.workspace_roles where workspace_id = $1 order by name",
      [id],
    );
    expect(roles).toEqual([
      { name: "admin", is_owner: false, size: 5 },
      { name: "member", is_owner: false, size: 1 },
      { name: "owner", is_owner: true, size: 5 },
      { name: "viewer", is_owner: false, size: 0 },
    ]);
    const members = await db.query(
      `select m.user_id, r.name from public.workspace_members m join public.workspace_roles r on r.id = m.role_id
       where m.workspace_id = $1`,
      [id],
    );
    expect(members).toEqual([{ user_id: owner.sub, name: "owner" }]);
  });

  test("when its last member's account is deleted, a workspace is marked as deleted and renamed", async ({ db }) => {
    const user = await createUser(db, { userMetadata: { full_name: "Ada Lovelace" } });
    await db.query("delete from auth.users where id = $1", [user.id]);
    const row = await one(db, {
      sql: "select name, deleted_at is not null as deleted, created_by from public.workspaces where id = $1",
      values: [user.personalWorkspaceId],
    });
    expect(row).toEqual({ name: "Deleted workspace", deleted: true, created_by: null });
  });

  test("a workspace is deleted when the accounts of its last two members are deleted concurrently", async () => {
    const people = [crypto.randomUUID(), crypto.randomUUID()];
    const [first, second] = [await openLine("postgres"), await openLine("postgres")];
    const erase = (line: typeof first, id = "") => line.db.query("delete from auth.users where id = $1", [id]);
    try {
      for (const id of people)
        await first.db.query(
          "insert into auth.users (id, aud, role, email) values ($1, 'authenticated', 'authenticated', $2)",
          [id, `${id}@race.test`],
        );
      const { id } = await one<{ id: string }>(first.db, {
        sql: "insert into public.workspaces (name, created_by) values ('Contested', $1) returning id",
        values: [people[0]],
      });
      await join(first.db, { workspaceId: id, userId: people[1] as string, role: "owner" });
      await first.client.query("begin");
      await erase(first, people[0]);
      const late = erase(second, people[1]);
      await untilItWaits(first.db, { work: late, blocker: first.pid });
      await first.client.query("commit");
      await late;
      const open = await first.db.query("select from public.workspaces where id = $1 and deleted_at is null", [id]);
      expect(open).toEqual([]);
    } finally {
      await first.client.query("rollback");
      for (const id of people) await erase(first, id);
      await Promise.all([first.client.end(), second.client.end()]);
    }
  });

  test("a workspace remains when an owner's account is deleted, if other members remain", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId: id, role: "admin" });
    await db.query("delete from auth.users where id = $1", [owner.sub]);
    const rows = await db.asUser(claims, () => db.query("select name from public.workspaces where id = $1", [id]));
    expect(rows).toEqual([{ name: "Shared" }]);
  });

  test("when a person's account is deleted, their personal workspace remains only if another member is an owner", async ({
    db,
  }) => {
    for (const [role, kept] of [
      ["owner", true],
      ["admin", false],
    ] as const) {
      const user = await createUser(db);
      await createActor(db, { workspaceId: user.personalWorkspaceId, role });
      await db.query("delete from auth.users where id = $1", [user.id]);
      const { alive } = await one<{ alive: boolean }>(db, {
        sql: "select deleted_at is null as alive from public.workspaces where id = $1",
        values: [user.personalWorkspaceId],
      });
      expect(alive, role).toBe(kept);
    }
  });

  test("a workspace's row can be deleted, together with its roles and members", async ({ db }) => {
    const { id } = await createWorkspace(db);
    await db.query("delete from public.workspaces where id = $1", [id]);
    expect(await db.query("select from public.workspace_roles where workspace_id = $1", [id])).toEqual([]);
  });

  test("a workspace's change time is set by the database, not by the caller", async ({ db }) => {
    const { id } = await createWorkspace(db);
    const row = await one(db, {
      sql: "update public.workspaces set updated_at = 'epoch' where id = $1 returning updated_at = now() as now",
      values: [id],
    });
    expect(row).toEqual({ now: true });
  });
});
