import { describe, expect } from "vitest";
import { createActor, createWorkspace, failureOf } from "../actors.ts";
import { createUser, type Database, join, one, test } from "../database.ts";

/** Creates a workspace with the role Finance, whose members start with a budget of 0. */
async function createScene(db: Database) {
  const { id: workspaceId, owner } = await createWorkspace(db);
  await db.asUser(owner, () =>
    db.query(
      `insert into public.workspace_roles (workspace_id, name, permissions, member_budget_usd)
       values ($1, 'Finance', '{use_ai_studio}', 0)`,
      [workspaceId],
    ),
  );
  return { workspaceId, owner, userId: (await createUser(db)).id };
}

type Place = { workspaceId: string; userId: string };

const budgetOf = async (db: Database, { workspaceId, userId }: Place) => {
  const rows = await db.query<{ usd: string | null }>(
    `select trim_scale(limit_usd)::text as usd from ai.budgets
     where scope = 'member' and subject_id = $1 and workspace_id = $2`,
    [userId, workspaceId],
  );
  return rows.map(({ usd }) => usd);
};

const giveRole = (db: Database, { workspaceId, userId, role }: Place & { role: string }) =>
  db.query(
    `update public.workspace_members
     set role_id = (select id from public.workspace_roles where workspace_id = $1 and name = $3)
     where workspace_id = $1 and user_id = $2`,
    [workspaceId, userId, role],
  );

describe("the budget of a role", () => {
  test("a person who joins with the role gets its budget, which is logged", async ({ db }) => {
    const scene = await createScene(db);
    await join(db, { ...scene, role: "Finance" });
    expect(await budgetOf(db, scene)).toEqual(["0"]);
    const entry = await one(db, {
      sql: "select subject_id, details from public.workspace_audit_log where workspace_id = $1 and action = 'budget.changed'",
      values: [scene.workspaceId],
    });
    expect(entry).toEqual({ subject_id: scene.userId, details: { scope: "member", before: null, after: "0" } });
  });

  test("a member who gets the role gets its budget, and keeps it with another role", async ({ db }) => {
    const scene = await createScene(db);
    await join(db, { ...scene, role: "member" });
    expect(await budgetOf(db, scene)).toEqual([]);
    await db.asUser(scene.owner, () => giveRole(db, { ...scene, role: "Finance" }));
    expect(await budgetOf(db, scene)).toEqual(["0"]);
    await db.asUser(scene.owner, () => giveRole(db, { ...scene, role: "member" }));
    expect(await budgetOf(db, scene)).toEqual(["0"]);
  });

  test("a budget that a person already has is never overwritten", async ({ db }) => {
    const scene = await createScene(db);
    await join(db, { ...scene, role: "member" });
    await db.query("select ai.set_budget('member', $1, $2, 25)", [scene.userId, scene.workspaceId]);
    await giveRole(db, { ...scene, role: "Finance" });
    expect(await budgetOf(db, scene)).toEqual(["25"]);
  });

  test("a person with a daily budget also gets the monthly budget of a role", async ({ db }) => {
    const scene = await createScene(db);
    await join(db, { ...scene, role: "member" });
    await db.query("select ai.set_budget('member', $1, $2, 25, period => 'day')", [scene.userId, scene.workspaceId]);
    await giveRole(db, { ...scene, role: "Finance" });
    expect((await budgetOf(db, scene)).sort()).toEqual(["0", "25"]);
  });

  test("a role's budget is an amount that isn't negative, and a member without manage_members can't set it", async ({
    db,
  }) => {
    const { workspaceId, owner } = await createScene(db);
    const set = (usd: number | "NaN") =>
      db.query(
        "update public.workspace_roles set member_budget_usd = $2 where workspace_id = $1 and name = 'Finance'",
        [workspaceId, usd],
      );
    const member = await createActor(db, { workspaceId, role: "member" });
    await db.asUser(member, () => set(5));
    const read =
      "select trim_scale(member_budget_usd)::text as usd from public.workspace_roles where name = 'Finance' and workspace_id = $1";
    expect(await one(db, { sql: read, values: [workspaceId] })).toEqual({ usd: "0" });
    expect((await failureOf(() => db.asUser(owner, () => set(-1)))).code).toBe("23514");
    expect((await failureOf(() => db.asUser(owner, () => set("NaN")))).code).toBe("23514");
  });
});
