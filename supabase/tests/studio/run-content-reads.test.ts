import { describe, expect } from "vitest";
import { createUser, type Database, join, test } from "../database.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";

async function capture(db: Database, { workspaceId }: Tenant, on = true): Promise<void> {
  await db.query(
    `insert into ai.workspace_policies (workspace_id, content_capture, content_retention_days) values ($1, $2, 2)
     on conflict (workspace_id) do update set content_capture = $2`,
    [workspaceId, on],
  );
}

/** Stores the content of a run so that its two-day retention ends after `left`. */
async function storeRunContent(db: Database, { workspaceId }: Tenant, left = "1 hour"): Promise<string> {
  const [row] = await db.query<{ run_id: string }>(
    `insert into ai.run_content (run_created_at, run_id, workspace_id, prompt, answer)
     select m, ai.run_id(m), $1, '{"prompt":"héllo"}', null
     from (select now() - interval '2 days' + $2::interval as m) as moment
     returning run_id`,
    [workspaceId, left],
  );
  return row?.run_id ?? "";
}

async function ask(
  db: Database,
  name: "describe_run_content" | "read_run_content",
  [member, workspace, run]: [string, string, string],
) {
  const [row] = await db.query(`select ai.${name}($1, $2, $3) as answer`, [member, workspace, run]);
  return row?.answer;
}

const readings = (db: Database, { workspaceId }: Tenant) =>
  db.query(
    "select actor_id, subject_id from public.workspace_audit_log where workspace_id = $1 and action = 'run_content.read'",
    [workspaceId],
  );

describe("a run's content", () => {
  test("the description of a run's content contains none of its text, and opening the content is logged", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    await capture(db, tenant);
    const run = await storeRunContent(db, tenant);
    const { ownerId, workspaceId } = tenant;
    const kept = await ask(db, "describe_run_content", [ownerId, workspaceId, run]);
    expect(kept).toEqual({
      outcome: "kept",
      deletedFrom: expect.stringMatching(/Z$/),
    });
    expect(await readings(db, tenant)).toEqual([]);
    const opened = {
      outcome: "opened",
      deletedFrom: kept.deletedFrom,
      prompt: '{"prompt":"héllo"}',
      tools: null,
      answer: null,
    };
    expect(await ask(db, "read_run_content", [ownerId, workspaceId, run])).toEqual(opened);
    expect(await readings(db, tenant)).toEqual([{ actor_id: ownerId, subject_id: run }]);
    await ask(db, "read_run_content", [ownerId, workspaceId, run]);
    expect(await readings(db, tenant)).toHaveLength(2);
  });

  test("a run's content is readable only by members who may manage its workspace's AI policy, and refusals are not logged", async ({
    db,
  }) => {
    const [tenant, other] = [await createTenant(db), await createTenant(db)];
    await capture(db, tenant);
    await capture(db, other);
    const run = await storeRunContent(db, tenant);
    const { workspaceId, ownerId } = tenant;
    const member = await createUser(db);
    await join(db, { workspaceId, userId: member.id, role: "member" });
    for (const name of ["describe_run_content", "read_run_content"] as const) {
      expect(await ask(db, name, [member.id, workspaceId, run])).toEqual({ outcome: "not_allowed" });
      expect(await ask(db, name, [other.ownerId, workspaceId, run])).toEqual({ outcome: "not_allowed" });
      expect(await ask(db, name, [other.ownerId, other.workspaceId, run])).toEqual({ outcome: "none" });
    }
    expect(await readings(db, tenant)).toEqual([]);
    expect(await readings(db, other)).toEqual([]);
    await db.query(
      `update public.workspace_roles set permissions = array['manage_ai_policy']::public.workspace_permission[]
       where workspace_id = $1 and name = 'member'`,
      [workspaceId],
    );
    expect(await ask(db, "read_run_content", [member.id, workspaceId, run])).toMatchObject({ outcome: "opened" });
    expect(await ask(db, "read_run_content", [ownerId, workspaceId, run])).toMatchObject({ outcome: "opened" });
  });

  test("a run's content is readable until the very end of its last day, whether or not the sweep has run", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    await capture(db, tenant);
    const { ownerId, workspaceId } = tenant;
    const [last, over] = [await storeRunContent(db, tenant, "0"), await storeRunContent(db, tenant, "-1 microsecond")];
    expect(await ask(db, "describe_run_content", [ownerId, workspaceId, last])).toMatchObject({ outcome: "kept" });
    expect(await ask(db, "read_run_content", [ownerId, workspaceId, over])).toEqual({ outcome: "none" });
    expect(await ask(db, "describe_run_content", [ownerId, workspaceId, over])).toEqual({ outcome: "none" });
  });

  test("a run's content is hidden as soon as capture is switched off", async ({ db }) => {
    const tenant = await createTenant(db);
    await capture(db, tenant);
    const run = await storeRunContent(db, tenant);
    await capture(db, tenant, false);
    expect(await ask(db, "read_run_content", [tenant.ownerId, tenant.workspaceId, run])).toEqual({ outcome: "none" });
    expect(await readings(db, tenant)).toEqual([]);
  });
});
