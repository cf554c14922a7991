import { describe, expect } from "vitest";
import { createActor, createWorkspace, matrix, mfaStates } from "../actors.ts";
import { type Claims, type Database, one, test } from "../database.ts";

const readAs = (
  db: Database,
  claims: Claims,
  { workspaceId, withFrame = true }: { workspaceId: string; withFrame?: boolean },
) =>
  db.asUser(claims, async () => {
    const sql = "select public.read_workspace($1, $2) as read";
    return (await one<{ read: object | null }>(db, { sql, values: [workspaceId, withFrame] })).read;
  });

const stateAs = (db: Database, claims: Claims, workspaceId: string) =>
  db.asUser(claims, async () => {
    const sql = "select public.workspace_session_state($1, true) as state";
    return (await one<{ state: object }>(db, { sql, values: [workspaceId] })).state;
  });

describe("read_workspace", () => {
  test("returns the workspace, the member's role, and the frame only if asked", async ({ db }) => {
    const { id: workspaceId } = await createWorkspace(db);
    const member = await createActor(db, { workspaceId, role: "member" });
    const workspace = {
      id: workspaceId,
      personal: false,
      role: "member",
      isOwner: false,
      permissions: ["use_ai_studio"],
    };
    expect(await readAs(db, member, { workspaceId, withFrame: false })).toEqual({
      workspace: expect.objectContaining(workspace),
    });
    const whole = await readAs(db, member, { workspaceId });
    expect(whole).toMatchObject({ workspace, others: [{ id: expect.any(String), name: expect.any(String) }] });
    expect(whole).toMatchObject({ usesCostBook: false });
    expect(whole).toHaveProperty("creditNotice");
  });

  test("lists at most eight other workspaces, the personal one first", async ({ db }) => {
    const { id: workspaceId, owner } = await createWorkspace(db);
    await db.query(
      "insert into public.workspaces (name, created_by) select 'Space ' || n, $1 from generate_series(1, 9) n",
      [owner.sub],
    );
    const { others } = (await readAs(db, owner, { workspaceId })) as { others: { id: string; name: string }[] };
    expect(others.map(({ name }) => name).slice(1)).toEqual([1, 2, 3, 4, 5, 6, 7].map((n) => `Space ${n}`));
    expect(others.map(({ id }) => id)).not.toContain(workspaceId);
  });

  test("returns null to people who are not members", async ({ db }) => {
    const { id: workspaceId } = await createWorkspace(db);
    const stranger = await createActor(db, {});
    expect(await readAs(db, stranger, { workspaceId })).toBeNull();
    expect(await stateAs(db, stranger, workspaceId)).toMatchObject({ alive: true, workspaceRead: null });
  });

  test.for(mfaStates)(
    "follows the MFA rule with the session's state ($mfa: $satisfied)",
    async ({ mfa, satisfied }, { db }) => {
      const { id: workspaceId } = await createWorkspace(db);
      const actor = await createActor(db, { workspaceId, role: "owner", mfa });
      const read = satisfied
        ? expect.objectContaining({ workspace: expect.objectContaining({ id: workspaceId }) })
        : null;
      expect(await stateAs(db, actor, workspaceId)).toMatchObject({
        alive: mfa !== "session over",
        workspaceRead: read,
      });
      await db.query(
        `with plan as (
           insert into ai.plans (id, name, payer, initial_credits) values ($1, 'Empty', 'workspace', 0) returning id
         )
         update public.workspaces w set plan_id = plan.id from plan where w.id = $2`,
        [`empty_${workspaceId.slice(0, 8)}`, workspaceId],
      );
      const own = { sql: "select ai.read_credit_notice($1, $2) as notice", values: [actor.sub, workspaceId] };
      const { notice } = await one(db, own);
      expect(notice).not.toBeNull();
      const shown = { sql: "select public.read_credit_notice($1) as notice", values: [workspaceId] };
      expect(await db.asUser(actor, () => one(db, shown))).toEqual({ notice: satisfied ? notice : null });
    },
  );
});

describe("uses_cost_book", () => {
  const entries = {
    "a linked app": `insert into private.app_workspaces (app_id, workspace_id)
    select a.id, $1 from private.apps a where a.name = 'bookkeeper'`,
    "a cost": `insert into ai.external_provider_costs (
      workspace_id, app_id, provider, account_id, external_run_id, granularity, amount_usd, occurred_at, observed_at
    )
    values ($1, gen_random_uuid(), 'p', 'a', 'r', 'account_day', 1, '2026-01-01Z', now())`,
    "an invoice": `insert into ai.external_provider_invoices (
      workspace_id, app_id, provider, reference, amount_usd, issued_on, reviewed_at
    )
    values ($1, gen_random_uuid(), 'p', 'r', 1, '2026-01-01', now())`,
  };
  type Entry = keyof typeof entries;

  const usesBook = async (db: Database, claims: Claims, workspaceId: string) => {
    const values = [workspaceId];
    return db.asUser(
      claims,
      async () => (await one(db, { sql: "select public.uses_cost_book($1) as used", values })).used,
    );
  };
  const createBook = async (db: Database, entry: Entry) => {
    const workspace = await createWorkspace(db);
    await db.query("insert into private.apps (name, display_name, kind) values ('bookkeeper', 'B', 'external')");
    await db.query(entries[entry], [workspace.id]);
    return workspace;
  };

  test.for(Object.keys(entries) as Entry[])(
    "is true for a workspace with %s, and only for that workspace",
    async (entry, { db }) => {
      const { id, owner } = await createBook(db, entry);
      const { id: otherId, owner: otherOwner } = await createWorkspace(db);
      expect(await usesBook(db, owner, id)).toBe(true);
      expect(await usesBook(db, otherOwner, otherId)).toBe(false);
      expect(await readAs(db, owner, { workspaceId: id })).toMatchObject({ usesCostBook: true });
    },
  );

  test.for(matrix.filter(({ role, mfa }) => role === "member" || mfa === "no policy and no factor"))(
    "tells only members with use_ai_studio and the required MFA ($role, $mfa)",
    async ({ role, permissions, mfa, satisfied }, { db }) => {
      const { id: workspaceId } = await createBook(db, "a cost");
      const actor = await createActor(db, { workspaceId, role, mfa });
      const expected = satisfied && permissions.includes("use_ai_studio");
      expect(await usesBook(db, actor, workspaceId)).toBe(expected);
    },
  );
});
