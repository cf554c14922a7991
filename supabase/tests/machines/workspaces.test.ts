import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { createUser, type Database, one, test } from "../database.ts";
import { createTenant, type Tenant, type TenantOptions } from "../gateway/fixtures.ts";
import { createMachine, type Machine } from "./fixtures.ts";

const scopes = ["manage_ai_keys", "manage_ai_policy", "use_ai_studio"];

type Answer = { outcome?: string; [member: string]: unknown };
type MemberFunction = { name: string; missing: { name: string; type: string }[] };

/** Returns the functions that our server calls on behalf of a member, with the arguments that have no default. */
async function listMemberFunctions(db: Database): Promise<MemberFunction[]> {
  return db.query<MemberFunction>(`
    select n.nspname || '.' || p.proname as name, coalesce((
      select jsonb_agg(jsonb_build_object('name', a.name, 'type', format_type(a.type, null)) order by a.place)
      from unnest(p.proargnames[1:p.pronargs], p.proargtypes::oid[]) with ordinality as a (name, type, place)
      where a.place <= p.pronargs - p.pronargdefaults and a.name not in ('member_id', 'workspace')
    ), '[]') as missing
    from pg_proc p
    join pg_namespace n on n.oid = p.pronamespace
    where n.nspname in ('ai', 'private')
      and p.proargnames @> '{member_id,workspace}'
      and p.prorettype in ('jsonb'::regtype, 'json'::regtype)
      and not p.proretset
      and has_function_privilege('service_role', p.oid, 'execute')
    order by 1`);
}

/** Calls a function without other arguments, and takes back what it did. @returns its answer, or an error's code */
async function callBare(
  db: Database,
  { name, missing, memberId, workspaceId }: MemberFunction & { memberId: string; workspaceId: string },
): Promise<unknown> {
  const others = missing.map((argument) => `, ${argument.name} => null::${argument.type}`).join("");
  const sql = `select to_jsonb(${name}(member_id => $1, workspace => $2${others})) as answer`;
  await db.query("savepoint bare");
  try {
    return await db.asRole("service_role", async () => (await db.query(sql, [memberId, workspaceId]))[0]?.answer);
  } catch (error) {
    return `error ${(error as { code?: string }).code}`;
  } finally {
    await db.query("rollback to savepoint bare");
  }
}

/** Adds a person whose role has exactly the permissions of a machine. */
async function createPeer(db: Database, { workspaceId }: Pick<Tenant, "workspaceId">): Promise<string> {
  const { id } = await createUser(db);
  await db.query(
    `with role as (
       insert into public.workspace_roles (workspace_id, name, permissions)
       values ($1, 'Automation', $2::public.workspace_permission[]) returning id
     )
     insert into public.workspace_members (workspace_id, user_id, role_id) select $1, $3, id from role`,
    [workspaceId, scopes, id],
  );
  return id;
}

/** Returns an answer's outcome, or the error of a missing argument. Pages of several answers have no outcome. */
const outcomeOf = (answer: unknown): unknown => {
  if (typeof answer === "string") return answer;
  return typeof answer === "object" && answer !== null && "outcome" in answer ? answer.outcome : typeof answer;
};

describe("functions for members", () => {
  test("a machine that may not act gets what a stranger gets", async ({ db }) => {
    const [tenant, other] = [await createTenant(db), await createTenant(db)];
    const { workspaceId } = tenant;
    const functions = await listMemberFunctions(db);
    expect(functions.length).toBeGreaterThan(30);
    const create = async (assignments: string) => {
      const { id } = await createMachine(db, { workspaceId, scopes });
      await db.query(`update private.service_accounts set ${assignments} where id = $1`, [id]);
      return id;
    };
    const machines: Record<string, string> = {
      "of another workspace": (await createMachine(db, { workspaceId: other.workspaceId, scopes })).id,
      "of the platform": (await createMachine(db, { scopes: ["admin:workspaces:write", "admin:books"] })).id,
      disabled: await create("enabled = false"),
      revoked: await create("revoked_at = now()"),
      expired: await create("expires_at = now()"),
    };
    const { id: stranger } = await createUser(db);
    for (const called of functions) {
      const refusal = await callBare(db, { ...called, memberId: stranger, workspaceId });
      for (const [what, memberId] of Object.entries(machines))
        expect(await callBare(db, { ...called, memberId, workspaceId }), `${called.name} ${what}`).toEqual(refusal);
    }
  });

  test("a machine may do what a member with its permissions may do, except what needs a person", async ({ db }) => {
    const tenant = await createTenant(db);
    const { workspaceId } = tenant;
    const peer = await createPeer(db, tenant);
    const { id: machine } = await createMachine(db, { workspaceId, scopes });
    const different: string[] = [];
    for (const called of await listMemberFunctions(db)) {
      const [person, program] = [
        await callBare(db, { ...called, memberId: peer, workspaceId }),
        await callBare(db, { ...called, memberId: machine, workspaceId }),
      ];
      if (outcomeOf(person) !== outcomeOf(program)) different.push(called.name);
    }
    // Admins decide about a person's request, and a task limit without a key is for the person's own calls.
    expect(different).toEqual(["ai.open_envelope_for_member", "ai.request_key_approval"]);
  });

  test.for(scopes)("without the scope %s, a machine may do less", async (scope, { db }) => {
    const { workspaceId } = await createTenant(db);
    const others = scopes.filter((other) => other !== scope);
    const { id: memberId } = await createMachine(db, { workspaceId, scopes: others });
    const needs: Record<string, string> = {
      "ai.read_workspace_policy": "use_ai_studio",
      "ai.list_keys": "manage_ai_keys",
      "ai.change_workspace_policy": "manage_ai_policy",
    };
    for (const called of await listMemberFunctions(db)) {
      const needed = needs[called.name];
      if (needed === undefined) continue;
      const outcome = outcomeOf(await callBare(db, { ...called, memberId, workspaceId }));
      expect(outcome === "not_allowed", called.name).toBe(needed === scope);
    }
  });

  test("nothing that is for members accepts a machine", async ({ db }) => {
    const { workspaceId } = await createTenant(db);
    const { id } = await createMachine(db, { workspaceId, scopes });
    for (const sql of [
      "select from private.memberships_with_permission($1, $2, 'use_ai_studio')",
      "select from private.memberships_since($1, $2, now())",
      "select where private.is_workspace_member($1, $2)",
      "select where private.may_manage_service_accounts($1, $2, '{}')",
      "select where ai.may_connect_agents($1, $2)",
    ])
      expect(await db.query(sql, [id, workspaceId]), sql).toEqual([]);
  });
});

describe("what a machine writes", () => {
  const call = (db: Database, sql: string, values: unknown[]) =>
    db.asRole(
      "service_role",
      async () => (await one<{ answer: Answer }>(db, { sql: `select ${sql} as answer`, values })).answer,
    );
  const newSecret = () => [randomBytes(6).toString("hex"), randomBytes(32).toString("hex")];
  const setUp = async (db: Database, options: TenantOptions = {}) => {
    const tenant = await createTenant(db, options);
    const machine = await createMachine(db, { workspaceId: tenant.workspaceId, scopes });
    await db.query("update private.service_accounts set name = 'deploy' where id = $1", [machine.id]);
    return { tenant, machine, workspaceId: tenant.workspaceId };
  };
  const issue = (db: Database, { machine, workspaceId }: { machine: Pick<Machine, "id">; workspaceId: string }) =>
    call(db, "ai.issue_key($1, $2, $3, $4, $5)", [machine.id, workspaceId, { name: "K" }, ...newSecret()]);
  type Rotation = Record<"memberId" | "workspaceId" | "keyId", string>;
  const rotate = (db: Database, { memberId, workspaceId, keyId }: Rotation) =>
    call(db, "ai.rotate_key($1, $2, $3, 0, $4, $5)", [memberId, workspaceId, keyId, ...newSecret()]);
  const creatorOf = async (db: Database, keyId: unknown) =>
    (await db.query("select created_by, service_account_id from ai.keys where id = $1", [keyId]))[0];
  const keyOf = (answer: Answer) => answer.key as { id: string; createdBy: string | null };

  test("a key that a machine creates names the machine, and no person", async ({ db }) => {
    const scene = await setUp(db);
    const issued = await issue(db, scene);
    expect(issued).toMatchObject({ outcome: "issued", key: { createdBy: "Service account deploy" } });
    const serviceAccount = { created_by: null, service_account_id: scene.machine.id };
    expect(await creatorOf(db, keyOf(issued).id)).toEqual(serviceAccount);
    expect(
      await db.query("select action, actor_id from public.workspace_audit_log where subject_id = $1", [
        keyOf(issued).id,
      ]),
    ).toEqual([{ action: "key.created", actor_id: scene.machine.id }]);
    const rotated = await rotate(db, { memberId: scene.machine.id, ...scene, keyId: keyOf(issued).id });
    expect(await creatorOf(db, keyOf(rotated).id)).toEqual(serviceAccount);
  });

  test("a machine needs the approval of keys like anybody", async ({ db }) => {
    const scene = await setUp(db);
    await db.query("delete from ai.key_approvals where workspace_id = $1", [scene.workspaceId]);
    expect(await issue(db, scene)).toEqual({ outcome: "not_approved" });
  });

  test("a machine that rotates a person's key keeps the person", async ({ db }) => {
    const { tenant, machine, workspaceId } = await setUp(db);
    const rotated = await rotate(db, { memberId: machine.id, workspaceId, keyId: tenant.keyId });
    expect(await creatorOf(db, keyOf(rotated).id)).toEqual({ created_by: tenant.ownerId, service_account_id: null });
  });

  test("where members pay, a machine creates no key and rotates none, because it would get the text of a key that a member pays for", async ({
    db,
  }) => {
    const scene = await setUp(db, { payer: "member", credits: "10" });
    const { tenant, machine, workspaceId } = scene;
    expect(await issue(db, scene)).toEqual({ outcome: "no_payer" });
    const rotation = { memberId: machine.id, workspaceId, keyId: tenant.keyId };
    expect(await rotate(db, rotation)).toEqual({ outcome: "no_payer" });
    await db.query("update ai.keys set created_by = null where id = $1", [tenant.keyId]);
    expect(await rotate(db, rotation)).toEqual({ outcome: "no_payer" });
    const byPerson = await rotate(db, { ...rotation, memberId: tenant.ownerId });
    expect(await creatorOf(db, keyOf(byPerson).id)).toEqual({ created_by: tenant.ownerId, service_account_id: null });
  });

  test("a machine changes and revokes keys", async ({ db }) => {
    const { tenant, machine, workspaceId } = await setUp(db);
    const member = [machine.id, workspaceId, tenant.keyId];
    expect(
      await call(db, "ai.change_key($1, $2, $3, $4)", [...member, { name: "Renamed", monthlyBudgetUsd: "5" }]),
    ).toMatchObject({ outcome: "changed" });
    expect(await call(db, "ai.revoke_key($1, $2, $3)", member)).toEqual({ outcome: "revoked" });
  });

  test("a machine changes the policy, until a person changes it", async ({ db }) => {
    const { tenant, machine, workspaceId } = await setUp(db);
    const change = (memberId: string) =>
      call(db, "ai.change_workspace_policy($1, $2, $3)", [memberId, workspaceId, { monthlyBudgetUsd: "5" }]);
    expect(await change(machine.id)).toMatchObject({
      outcome: "changed",
      policy: { updatedBy: "Service account deploy" },
    });
    const stored = "select updated_by, service_account_id from ai.workspace_policies where workspace_id = $1";
    expect(await db.query(stored, [workspaceId])).toEqual([{ updated_by: null, service_account_id: machine.id }]);
    expect((await change(tenant.ownerId)).outcome).toBe("changed");
    expect(await db.query(stored, [workspaceId])).toEqual([{ updated_by: tenant.ownerId, service_account_id: null }]);
  });

  test("a machine changes budgets", async ({ db }) => {
    const { tenant, machine, workspaceId } = await setUp(db);
    const subjects: [string, string][] = [
      ["workspace", workspaceId],
      ["member", tenant.ownerId],
      ["key", tenant.keyId],
    ];
    for (const [scope, subject] of subjects)
      expect(
        await call(db, "ai.change_budget($1, $2, $3, $4, '5', null)", [machine.id, workspaceId, scope, subject]),
        scope,
      ).toMatchObject({ outcome: "changed" });
  });

  test("a machine opens, raises and ends the task limit of a key", async ({ db }) => {
    const { tenant, machine, workspaceId } = await setUp(db);
    const open = (keyId: string | null) =>
      call(db, "ai.open_envelope_for_member($1, $2, $3, 'task', $4)", [
        machine.id,
        workspaceId,
        keyId,
        { limitUsd: "5" },
      ]);
    expect(await open(null)).toEqual({ outcome: "not_allowed" });
    const opened = await open(tenant.keyId);
    expect(opened).toMatchObject({ outcome: "opened", envelope: { openedBy: "Service account deploy" } });
    const { id, version } = opened.envelope as { id: string; version: string };
    const change = (changes: object) =>
      call(db, "ai.change_envelope($1, $2, $3, $4, $5, true)", [machine.id, workspaceId, id, changes, version]);
    expect(await change({ limitUsd: "9" })).toMatchObject({ outcome: "changed" });
    expect(await change({ ended: true })).toMatchObject({ outcome: "changed" });
    expect(
      await db.query("select opened_by, service_account_id, ended_by, actor_id from ai.envelopes where id = $1", [id]),
    ).toEqual([{ opened_by: null, service_account_id: machine.id, ended_by: null, actor_id: tenant.ownerId }]);
    const { history } = await call(db, "ai.read_envelope($1, $2, $3)", [machine.id, workspaceId, id]);
    expect((history as { actor: string }[]).map(({ actor }) => actor)).toEqual(Array(3).fill("Service account deploy"));
  });

  test("a machine answers requests to connect coding agents", async ({ db }) => {
    const { machine, workspaceId } = await setUp(db);
    const { sub } = await createActor(db, { workspaceId, role: "member" });
    const { requested_at } = await one<{ requested_at: string }>(db, {
      sql: `insert into ai.agent_access (workspace_id, user_id, tool, host)
        values ($1, $2, 'claude', 'laptop') returning requested_at::text`,
      values: [workspaceId, sub],
    });
    const answer = (decision: string) =>
      call(db, "ai.answer_agent_access($1, $2, $3, $4, $5)", [machine.id, workspaceId, sub, requested_at, decision]);
    expect(await answer("approve")).toEqual({ outcome: "done" });
    expect(await db.query("select state, answered_by from ai.agent_access where user_id = $1", [sub])).toEqual([
      { state: "approved", answered_by: null },
    ]);
  });

  test("an unknown id stays refused", async ({ db }) => {
    const { workspaceId } = await setUp(db);
    expect(await issue(db, { machine: { id: randomUUID() }, workspaceId })).toEqual({ outcome: "not_allowed" });
  });
});
