import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf, matrix } from "./actors.ts";
import { one, test } from "./database.ts";

const granted = `select coalesce(array_agg(p::text order by p::text), '{}') as granted
  from unnest(enum_range(null::public.workspace_permission)) as p where public.has_workspace_permission($1, p)`;

describe("has_workspace_permission", () => {
  test.for(matrix)("knows what a $role may ($mfa)", async ({ role, permissions, mfa, satisfied }, { db }) => {
    const { id } = await createWorkspace(db);
    const claims = await createActor(db, { workspaceId: id, role, mfa });
    const row = await db.asUser(claims, () => one<{ granted: string[] }>(db, { sql: granted, values: [id] }));
    expect(row.granted).toEqual(satisfied ? [...permissions].sort() : []);
  });

  test("is no to everything in a deleted workspace", async ({ db }) => {
    const { id, owner } = await createWorkspace(db);
    await db.query("update public.workspaces set deleted_at = now() where id = $1", [id]);
    const row = await db.asUser(owner, () => one(db, { sql: granted, values: [id] }));
    expect(row).toEqual({ granted: [] });
  });

  test("is closed to anon", async ({ db }) => {
    const error = await failureOf(() =>
      db.asRole("anon", () => db.query("select public.has_workspace_permission(gen_random_uuid(), 'use_ai_studio')")),
    );
    expect(error.code).toBe("42501");
  });
});
