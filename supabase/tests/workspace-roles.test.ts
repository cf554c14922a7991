import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf, matrix } from "./actors.ts";
import { test } from "./database.ts";

describe("workspace roles", () => {
  test.for(matrix)("are read by a $role ($mfa)", async ({ role, mfa, satisfied }, { db }) => {
    const { id } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId: id, role, mfa });
    const rows = await db.asUser(claims, () =>
      db.query("select from public.workspace_roles where workspace_id = $1", [id]),
    );
    expect(rows.length).toBe(satisfied && role !== "outsider" ? 4 : 0);
  });

  test.for([
    "insert into public.workspace_roles (workspace_id, name) select workspace_id, 'X' from public.workspace_members",
    "update public.workspace_roles set permissions = '{manage_members}'",
    "update public.workspace_roles set is_owner = true",
    "delete from public.workspace_roles",
  ])("refuse even an owner's %s", async (sql, { db }) => {
    const { owner } = await createWorkspace(db);
    const error = await failureOf(() => db.asUser(owner, () => db.query(sql)));
    expect(error.code).toBe("42501");
  });

  test("are closed to anon", async ({ db }) => {
    const error = await failureOf(() => db.asRole("anon", () => db.query("select from public.workspace_roles")));
    expect(error.code).toBe("42501");
  });

  test("have one owner's role a workspace", async ({ db }) => {
    const { id } = await createWorkspace(db);
    const error = await failureOf(() =>
      db.query("insert into public.workspace_roles (workspace_id, name, is_owner) values ($1, 'Second', true)", [id]),
    );
    expect(error.code).toBe("23505");
  });

  test("cannot vanish while somebody has them", async ({ db }) => {
    const { id } = await createWorkspace(db);
    const error = await failureOf(() =>
      db.query("delete from public.workspace_roles where workspace_id = $1 and is_owner", [id]),
    );
    expect(error.code).toBe("23503");
  });

  test("know only permissions that exist", async ({ db }) => {
    const error = await failureOf(() => db.query("update public.workspace_roles set permissions = '{fly}'"));
    expect(error.code).toBe("22P02");
  });
});
