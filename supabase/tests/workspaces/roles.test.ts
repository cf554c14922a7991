import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf, matrix } from "../actors.ts";
import { type Claims, type Database, test } from "../database.ts";

describe("workspace roles", () => {
  test.for(matrix)(
    "only members who satisfy MFA can read workspace roles: $role ($mfa)",
    async ({ role, mfa, satisfied }, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role, mfa });
      const rows = await db.asUser(claims, () =>
        db.query("select from public.workspace_roles where workspace_id = $1", [id]),
      );
      expect(rows.length).toBe(satisfied && role !== "outsider" ? 4 : 0);
    },
  );

  test.for([
    "update public.workspace_roles set is_owner = true",
    "update public.workspace_roles set workspace_id = gen_random_uuid()",
    "insert into public.workspace_roles (workspace_id, name, is_owner) select null, 'X', true",
  ])("an owner can't run this statement on workspace roles: %s", async (sql, { db }) => {
    const { owner } = await createWorkspace(db);
    const error = await failureOf(() => db.asUser(owner, () => db.query(sql)));
    expect(error.code).toBe("42501");
  });

  const define = (db: Database, actor: Claims, role: { workspaceId: string; permissions: string }) =>
    db.asUser(actor, () =>
      db.query("insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'Billing', $2)", [
        role.workspaceId,
        role.permissions,
      ]),
    );
  const rolesNamed = (db: Database, workspaceId: string, name: string) =>
    db.query<{ permissions: string }>(
      "select permissions::text from public.workspace_roles where workspace_id = $1 and name = $2",
      [workspaceId, name],
    );

  test.for(matrix)(
    "roles can be created, changed and removed only with manage_members and satisfied MFA: $role ($mfa)",
    async (actor, { db }) => {
      const { id } = await createWorkspace(db);
      const claims = await createActor(db, { workspaceId: id, role: actor.role, mfa: actor.mfa });
      const allowed = actor.satisfied && actor.permissions.includes("manage_members");
      if (allowed) await define(db, claims, { workspaceId: id, permissions: "{use_ai_studio}" });
      else
        expect((await failureOf(() => define(db, claims, { workspaceId: id, permissions: "{}" }))).code).toBe("42501");
      expect(await rolesNamed(db, id, "Billing")).toHaveLength(allowed ? 1 : 0);

      await db.asUser(claims, () =>
        db.query("update public.workspace_roles set name = 'Reader' where workspace_id = $1 and name = 'viewer'", [id]),
      );
      expect(await rolesNamed(db, id, "Reader")).toHaveLength(allowed ? 1 : 0);
      await db.asUser(claims, () =>
        db.query("delete from public.workspace_roles where workspace_id = $1 and name = 'member'", [id]),
      );
      expect(await rolesNamed(db, id, "member")).toHaveLength(allowed ? 0 : 1);
    },
  );

  test("a member can't give a role permissions that they themselves lack, or remove such permissions from it", async ({
    db,
  }) => {
    const { id, owner } = await createWorkspace(db);
    await define(db, owner, { workspaceId: id, permissions: "{manage_members,use_ai_studio}" });
    const manager = await createActor(db, {});
    await db.query(
      `insert into public.workspace_members (workspace_id, user_id, role_id)
       select $1, $2, id from public.workspace_roles where workspace_id = $1 and name = 'Billing'`,
      [id, manager.sub],
    );
    const attempt = (sql: string) => () => db.asUser(manager, () => db.query(sql, [id]));
    expect(
      (
        await failureOf(
          attempt(
            "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'Keys', '{manage_ai_keys}')",
          ),
        )
      ).code,
    ).toBe("42501");
    expect(
      (
        await failureOf(
          attempt(
            "update public.workspace_roles set permissions = '{manage_ai_keys}' where workspace_id = $1 and name = 'Billing'",
          ),
        )
      ).code,
    ).toBe("42501");
    await attempt(
      "update public.workspace_roles set permissions = '{}' where workspace_id = $1 and name in ('admin', 'owner')",
    )();
    await attempt("delete from public.workspace_roles where workspace_id = $1 and name in ('admin', 'owner')")();
    expect((await rolesNamed(db, id, "admin"))[0]?.permissions).toContain("manage_ai_keys");
    expect(await rolesNamed(db, id, "owner")).toHaveLength(1);
  });

  test("roles of another workspace can't be read or changed", async ({ db }) => {
    const mine = await createWorkspace(db);
    const other = await createWorkspace(db);
    expect((await failureOf(() => define(db, mine.owner, { workspaceId: other.id, permissions: "{}" }))).code).toBe(
      "42501",
    );
    await db.asUser(mine.owner, () =>
      db.query("delete from public.workspace_roles where workspace_id = $1", [other.id]),
    );
    expect(await rolesNamed(db, other.id, "viewer")).toHaveLength(1);
  });

  test("anon can't read workspace roles", async ({ db }) => {
    const error = await failureOf(() => db.asRole("anon", () => db.query("select from public.workspace_roles")));
    expect(error.code).toBe("42501");
  });

  test("each workspace has one owner role", async ({ db }) => {
    const { id } = await createWorkspace(db);
    const error = await failureOf(() =>
      db.query("insert into public.workspace_roles (workspace_id, name, is_owner) values ($1, 'Second', true)", [id]),
    );
    expect(error.code).toBe("23505");
  });

  test.for(["Owner", "OWNER", "Viewer"])(
    "a role can't have a name that could be mistaken for another role's name: %s",
    async (name, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const error = await failureOf(() =>
        db.asUser(owner, () =>
          db.query("insert into public.workspace_roles (workspace_id, name) values ($1, $2)", [id, name]),
        ),
      );
      expect(error.code).toBe("23505");
    },
  );

  test.for([" owner", "owner ", "\u200d", "a\u0007b", "a\nb", "a\u202eb", "", "x".repeat(41)])(
    "a role can't have the unreadable name %j",
    async (name, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const error = await failureOf(() =>
        db.asUser(owner, () =>
          db.query("insert into public.workspace_roles (workspace_id, name) values ($1, $2)", [id, name]),
        ),
      );
      expect(error.code).toBe("23514");
    },
  );

  test("a workspace has at most 100 roles, even with concurrent callers", async ({ db }) => {
    const [{ id, owner }, other] = [await createWorkspace(db), await createWorkspace(db)];
    const founded = (await db.query("select from public.workspace_roles where workspace_id = $1", [id])).length;
    const defineMany = (workspace: { id: string; owner: Claims }, from: number, to: number) =>
      db.asUser(workspace.owner, () =>
        db.query(
          `insert into public.workspace_roles (workspace_id, name)
           select $1, 'Role ' || n from generate_series($2::integer, $3::integer) as n`,
          [workspace.id, from, to],
        ),
      );
    await defineMany({ id, owner }, 1, 100 - founded);
    expect((await failureOf(() => defineMany({ id, owner }, 101, 101))).code).toBe("PT409");
    expect((await failureOf(() => defineMany(other, 1, 1_500))).code).toBe("PT409");
    await defineMany(other, 1, 1);
  });

  test("the log records roles that people create, but not those created with the workspace", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await define(db, owner, { workspaceId: id, permissions: "{use_ai_studio}" });
    const log = await db.query(
      "select actor_id, action, subject, details from public.workspace_audit_log where workspace_id = $1 and action like 'role.%'",
      [id],
    );
    expect(log).toEqual([
      { actor_id: owner.sub, action: "role.created", subject: "Billing", details: { after: ["use_ai_studio"] } },
    ]);
  });

  test("roles can't be deleted while members have them", async ({ db }) => {
    const { id } = await createWorkspace(db);
    const error = await failureOf(() =>
      db.query("delete from public.workspace_roles where workspace_id = $1 and is_owner", [id]),
    );
    expect(error.code).toBe("23503");
  });

  test.for(["{{use_ai_studio}}", "{{manage_members,use_ai_studio}}", "{use_ai_studio,use_ai_studio}"])(
    "refuses nested arrays and duplicates in a role's permissions: %s",
    async (permissions, { db }) => {
      const { id, owner } = await createWorkspace(db);
      const changed = () =>
        db.asUser(owner, () =>
          db.query("update public.workspace_roles set permissions = $2 where workspace_id = $1 and name = 'viewer'", [
            id,
            permissions,
          ]),
        );
      expect((await failureOf(() => define(db, owner, { workspaceId: id, permissions }))).code).toBe("23514");
      expect((await failureOf(changed)).code).toBe("23514");
    },
  );

  test("a role can't contain a null permission", async ({ db }) => {
    const error = await failureOf(() => db.query("update public.workspace_roles set permissions = '{null}'"));
    expect(error.code).toBe("23514");
  });

  test("a role accepts only existing permissions", async ({ db }) => {
    const error = await failureOf(() => db.query("update public.workspace_roles set permissions = '{fly}'"));
    expect(error.code).toBe("22P02");
  });
});
