import { createHash } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor, workspaceRoles } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { addKey, begin, chatCall, createTenant, outcome, settle, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

type Budget = {
  scope: string;
  subjectId: string;
  name: string;
  live: boolean;
  enforced: boolean;
  limitUsd: string | null;
  remainingUsd: string | null;
  usedUp: boolean;
};
type Answer = { outcome: string; budgets: Budget[]; [member: string]: unknown };
type Asker = Pick<Tenant, "ownerId" | "workspaceId">;

const read = (db: Database, { ownerId, workspaceId }: Asker) =>
  db.asRole("service_role", async () => {
    const sql = `select ai.read_budgets($1, $2, null, 50, '${allScopes}') as answer`;
    return (await one<{ answer: Answer }>(db, { sql, values: [ownerId, workspaceId] })).answer;
  });

const allScopes = "{workspace,app,key,member,label}";

type Change = {
  scope?: string;
  subject?: string | null;
  label?: string | null;
  limit: string | null;
  was?: string | null;
};
const changeSql = "select ai.change_budget($1, $2, $3, $4, $5, $6, $7) as answer";
const valuesOf = (
  { ownerId, workspaceId }: Asker,
  { scope = "workspace", subject = null, label = null, limit, was = null }: Change,
) => [ownerId, workspaceId, scope, subject, limit, was, label];
const change = (db: Database, asker: Asker, given: Change) =>
  db.asRole("service_role", async () => {
    const row = await one<{ answer: Answer }>(db, { sql: changeSql, values: valuesOf(asker, given) });
    return row.answer;
  });

/** Returns a UUID version 8 (RFC 9562, 5.8) of a label's SHA-256. */
function labelId(label: string): string {
  const hash = createHash("sha256").update(label).digest();
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x80;
  hash[8] = ((hash[8] ?? 0) & 0x0f) | 0x80;
  return hash
    .toString("hex")
    .slice(0, 32)
    .replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

async function linkApp(db: Database, { workspaceId }: Tenant): Promise<string> {
  const { id } = await one<{ id: string }>(db, {
    sql: "insert into private.apps (name, display_name, kind) values ('p' || substr(gen_random_uuid()::text, 1, 8), 'P', 'external') returning id",
  });
  await db.query("insert into private.app_workspaces (app_id, workspace_id) values ($1, $2)", [id, workspaceId]);
  return id;
}

describe("a workspace's budgets", () => {
  test("lists everything that can have a budget, with its exact spend", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000", key: { monthlyBudgetUsd: "1.5" } });
    const appId = await linkApp(db, tenant);
    await settle(db, [outcome(await begin(db, chatCall(tenant)))]);
    const answer = await read(db, tenant);
    expect(answer).toMatchObject({ outcome: "read", costVisible: true, keysVisible: true });
    expect(answer.budgets).toMatchObject([
      { scope: "workspace", subjectId: tenant.workspaceId, limitUsd: null, spentPercent: null, enforced: true },
      { scope: "app", subjectId: appId, name: "P", limitUsd: null, live: true },
      {
        scope: "key",
        subjectId: tenant.keyId,
        limitUsd: "1.5",
        spentUsd: "0.00000615",
        reservedUsd: "0",
        remainingUsd: "1.49999385",
        spentPercent: "0",
        usedUp: false,
        warned: null,
      },
      { scope: "member", subjectId: tenant.ownerId, limitUsd: null, live: true, enforced: true },
    ]);
  });

  test("pages through budgets without gaps or repeats, even if limits and names change between pages", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    const appId = await linkApp(db, tenant);
    const keyIds = [tenant.keyId];
    for (let n = 1; n <= 6; n++) {
      const { id } = await addKey(db, tenant, n % 2 ? { monthlyBudgetUsd: "1" } : {});
      keyIds.push(id);
    }
    // Gives the keys different creation times, because now() does not change during a transaction. The last two keys
    // share a creation time.
    for (const [n, id] of keyIds.entries()) {
      await db.query("update ai.keys set created_at = now() + $2 * interval '1 microsecond' where id = $1", [
        id,
        Math.min(n, 5),
      ]);
    }
    await change(db, tenant, { scope: "label", label: "b", limit: "1" });
    const a = await addKey(db, tenant, { entityId: "a" });
    await db.query("update ai.keys set created_at = now() + interval '6 microseconds' where id = $1", [a.id]);
    const labels = ["a", "b"].map(labelId);
    const expected = [
      tenant.workspaceId,
      appId,
      ...keyIds.slice(0, 5),
      ...keyIds.slice(5).sort(),
      a.id,
      tenant.ownerId,
      ...labels,
    ];
    const paged: (Budget & { position?: string[] })[] = [];
    while (paged.length < expected.length) {
      const sql = `select ai.read_budgets($1, $2, $3, 2, '${allScopes}') as answer`;
      const values = [tenant.ownerId, tenant.workspaceId, paged.at(-1)?.position ?? null];
      const { answer } = await one<{ answer: Answer }>(db, { sql, values });
      expect(answer.budgets.length).toBe(Math.min(2, expected.length - paged.length));
      paged.push(...answer.budgets);
      await db.query(
        `update ai.budgets set limit_usd = case when limit_usd is null then 2 end
         where workspace_id = $1 and scope <> 'label'`,
        [tenant.workspaceId],
      );
      await db.query("update ai.keys set name = $2 where workspace_id = $1", [tenant.workspaceId, `n${paged.length}`]);
    }
    expect(paged.map(({ subjectId }) => subjectId)).toEqual(expected);
  });

  test("a label's budget shows whether an active key carries the label", async ({ db }) => {
    const tenant = await createTenant(db, { key: { entityId: "carried" } });
    await change(db, tenant, { scope: "label", label: "warns", limit: "1" });
    const labels = async () =>
      (await read(db, tenant)).budgets
        .filter(({ scope }) => scope === "label")
        .map(({ name, enforced, limitUsd }) => [name, enforced, limitUsd]);
    expect(await labels()).toEqual([
      ["carried", true, null],
      ["warns", false, "1"],
    ]);
    await change(db, tenant, { scope: "label", label: "carried", limit: "2.5" });
    await db.query("update ai.keys set revoked_at = now() where workspace_id = $1", [tenant.workspaceId]);
    await change(db, tenant, { scope: "label", label: "warns", limit: null, was: "1" });
    expect(await labels()).toEqual([["carried", false, "2.5"]]);
    const lines = await db.query(
      "select subject from public.workspace_audit_log where workspace_id = $1 and action = 'budget.changed' order by id",
      [tenant.workspaceId],
    );
    expect(lines.map(({ subject }) => subject)).toEqual(["warns", "carried", "warns"]);
  });

  test("lists a former member's budget only if the member has spending this month", async ({ db }) => {
    const tenant = await createTenant(db);
    const { sub: subject } = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    await change(db, tenant, { scope: "member", subject, limit: "1" });
    await db.query("delete from public.workspace_members where workspace_id = $1 and user_id = $2", [
      tenant.workspaceId,
      subject,
    ]);
    const ofMember = async () => (await read(db, tenant)).budgets.find(({ subjectId }) => subjectId === subject);
    expect(await ofMember()).toBeUndefined();
    await db.query("update ai.budgets set spent_usd = 0.1 where workspace_id = $1", [tenant.workspaceId]);
    expect(await ofMember()).toMatchObject({ live: false, limitUsd: "1" });
  });

  test("reading budgets requires use_ai_studio, and seeing key budgets also requires manage_ai_keys or manage_ai_policy", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    for (const { role, permissions } of workspaceRoles) {
      const { sub: ownerId } = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const answer = await read(db, { ownerId, workspaceId: tenant.workspaceId });
      const may = (permission: string) => (permissions as readonly string[]).includes(permission);
      expect(answer.outcome, role).toBe(may("use_ai_studio") ? "read" : "not_allowed");
      if (answer.outcome !== "read") continue;
      const scopes = new Set(answer.budgets.map(({ scope }) => scope));
      expect(scopes.has("key"), role).toBe(may("manage_ai_keys"));
    }
  });

  test.for([
    ["workspace", "manage_ai_policy"],
    ["app", "manage_ai_policy"],
    ["key", "manage_ai_keys"],
    ["member", "manage_ai_policy"],
    ["label", "manage_ai_policy"],
  ] as const)("changing a budget of scope %s requires %s", async ([scope, permission], { db }) => {
    const tenant = await createTenant(db);
    const subject = {
      workspace: tenant.workspaceId,
      app: await linkApp(db, tenant),
      key: tenant.keyId,
      member: tenant.ownerId,
      label: null,
    }[scope];
    const label = scope === "label" ? "customer:7" : null;
    for (const allowed of ["manage_ai_policy", "manage_ai_keys", "use_ai_studio"]) {
      const { sub: ownerId } = await createActor(db, {});
      await db.query(
        `with made as (
           insert into public.workspace_roles (workspace_id, name, permissions)
           values ($1, $2::text, array[$2::text]::public.workspace_permission[]) returning id
         )
         insert into public.workspace_members (workspace_id, user_id, role_id) select $1, $3, id from made`,
        [tenant.workspaceId, allowed, ownerId],
      );
      const asker = { ownerId, workspaceId: tenant.workspaceId };
      const { outcome } = await change(db, asker, { scope, subject, label, limit: "5" });
      expect(outcome, allowed).toBe(allowed === permission ? "changed" : "not_allowed");
      await db.query("delete from ai.budgets where workspace_id = $1", [tenant.workspaceId]);
    }
  });

  test("a new budget counts what its workspace or key has already spent this month", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const other = await addKey(db, tenant);
    await settle(db, [
      outcome(await begin(db, chatCall(tenant))),
      outcome(await begin(db, chatCall({ ...tenant, keyHash: other.hash }))),
    ]);
    await change(db, tenant, { subject: tenant.workspaceId, limit: "1" });
    await change(db, tenant, { scope: "key", subject: tenant.keyId, limit: "0.000000000001" });
    const { budgets } = await read(db, tenant);
    expect(budgets.filter(({ limitUsd }) => limitUsd !== null)).toMatchObject([
      { scope: "workspace", spentUsd: "0.0000123" },
      { scope: "key", limitUsd: "0.000000000001", spentUsd: "0.00000615", remainingUsd: "0" },
    ]);
    expect((await begin(db, chatCall(tenant))).refused).toBe("budget_exceeded");
  });

  test("logs each budget change, and refuses to change another workspace's budget or one that has changed meanwhile", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    const stranger = await createTenant(db);
    const subject = tenant.workspaceId;
    const foreign = { scope: "key", subject: stranger.keyId, limit: "1" };
    expect((await change(db, tenant, foreign)).outcome).toBe("not_found");
    const foreigner = { scope: "member", subject: stranger.ownerId, limit: "1" };
    expect((await change(db, tenant, foreigner)).outcome).toBe("not_found");
    expect((await change(db, tenant, { subject: stranger.workspaceId, limit: "1" })).outcome).toBe("not_found");
    expect((await change(db, tenant, { subject, limit: "2.50" })).outcome).toBe("changed");
    expect(await change(db, tenant, { subject, limit: "9", was: "2.4" })).toMatchObject({
      outcome: "changed_meanwhile",
      limitUsd: "2.5",
    });
    expect((await change(db, tenant, { subject, limit: "2.5", was: "2.50" })).outcome).toBe("unchanged");
    expect((await change(db, tenant, { subject, limit: null, was: "2.5" })).outcome).toBe("changed");
    const lines = await db.query(
      "select actor_id, subject, details from public.workspace_audit_log where workspace_id = $1 and action = 'budget.changed' order by id",
      [tenant.workspaceId],
    );
    expect(lines).toEqual([
      {
        actor_id: tenant.ownerId,
        subject: "Test",
        details: { scope: "workspace", before: null, after: "2.5" },
      },
      { actor_id: tenant.ownerId, subject: "Test", details: { scope: "workspace", before: "2.5", after: null } },
    ]);
  });

  test("lists an expired or revoked key's budget only if something was spent from it this month", async ({ db }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "1" } });
    await db.query("update ai.keys set revoked_at = now() where workspace_id = $1", [tenant.workspaceId]);
    const keys = async () => (await read(db, tenant)).budgets.filter(({ scope }) => scope === "key");
    expect(await keys()).toEqual([]);
    await db.query("update ai.budgets set spent_usd = 0.1 where workspace_id = $1", [tenant.workspaceId]);
    expect(await keys()).toMatchObject([{ live: false, limitUsd: "1", spentPercent: "10" }]);
  });

  test("a budget is used up when all of it is spent, or when 80% is spent and a call was refused, but not if its limit is zero", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "10" } });
    const usedUp = async (changes: string) => {
      await db.query(`update ai.budgets set ${changes} where workspace_id = $1`, [tenant.workspaceId]);
      return (await read(db, tenant)).budgets.find(({ scope }) => scope === "key")?.usedUp;
    };
    expect(await usedUp("spent_usd = 9.999999999999")).toBe(false);
    expect(await usedUp("spent_usd = 10")).toBe(true);
    expect(await usedUp("spent_usd = 8, refused_at = now()")).toBe(true);
    expect(await usedUp("spent_usd = 7.999999999999")).toBe(false);
    expect(await usedUp("limit_usd = 0")).toBe(false);
  });

  test("nothing remains of a budget that does not exist", async ({ db }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "1" } });
    const { budgets } = await read(db, tenant);
    expect(budgets.length).toBeGreaterThan(2);
    for (const { limitUsd, remainingUsd } of budgets) expect(remainingUsd === null).toBe(limitUsd === null);
  });

  test("budgets omit the spend if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db, { key: { monthlyBudgetUsd: "1" } });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const { budgets } = await read(db, tenant);
    const hidden = {
      limitUsd: "1",
      spentUsd: null,
      reservedUsd: null,
      remainingUsd: null,
      spentPercent: null,
      usedUp: false,
    };
    expect(budgets.find(({ scope }) => scope === "key")).toMatchObject(hidden);
  });

  test("a budget changes only once when 50 concurrent callers change it from the same state", async () => {
    const { db, close } = openPool(50);
    const tenant = await createTenant(db);
    try {
      const answers = await Promise.all(
        Array.from({ length: 50 }, async (_, index) => {
          const given = { subject: tenant.workspaceId, limit: String(index + 1) };
          const [row] = await db.query<{ answer: Answer }>(changeSql, valuesOf(tenant, given));
          return row?.answer.outcome;
        }),
      );
      expect(answers.filter((answer) => answer === "changed")).toHaveLength(1);
      expect(answers.filter((answer) => answer === "changed_meanwhile")).toHaveLength(49);
    } finally {
      await db.query("delete from public.workspaces where id = $1", [tenant.workspaceId]);
      await close();
    }
  });
});

test("a policy's model options say which models are granted, and leave out a disabled model even if it is granted", async ({
  db,
}) => {
  const tenant = await createTenant(db, { plan: { requestsPerMinute: 60 } });
  const other = await createTenant(db);
  const off = await createTenant(db);
  await db.query("update ai.models set enabled = false where id = $1", [off.model]);
  await db.query("insert into ai.model_grants (model_id, workspace_id) values ($1, $2)", [
    off.model,
    tenant.workspaceId,
  ]);
  const { answer } = await db.asRole("service_role", () =>
    one<{ answer: { models: { id: string; granted: boolean }[] } }>(db, {
      sql: "select ai.read_policy_options($1, $2) as answer",
      values: [tenant.ownerId, tenant.workspaceId],
    }),
  );
  expect(answer).toMatchObject({ outcome: "read", plan: "Test", requestsPerMinute: 60, tokensPerMinute: null });
  const granted = new Map(answer.models.map(({ id, granted }) => [id, granted]));
  expect([granted.get(tenant.model), granted.get(other.model), granted.get(off.model)]).toEqual([
    true,
    false,
    undefined,
  ]);
});
