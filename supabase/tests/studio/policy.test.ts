import { describe, expect } from "vitest";
import { createActor, workspaceRoles } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

type Policy = Record<string, unknown> & { budget: unknown; appBudgets: unknown[] };
type Answer = { outcome: string; policy?: Policy };

const call = async (db: Pick<Database, "query">, sql: string, values: unknown[]): Promise<Answer> => {
  const [row] = await db.query<{ answer: Answer }>(`select ${sql} as answer`, values);
  return row?.answer ?? { outcome: "none" };
};
const read = (db: Database, { ownerId, workspaceId }: Pick<Tenant, "ownerId" | "workspaceId">) =>
  db.asRole("service_role", () => call(db, "ai.read_workspace_policy($1, $2)", [ownerId, workspaceId]));
const change = (db: Database, { ownerId, workspaceId }: Pick<Tenant, "ownerId" | "workspaceId">, changes: object) =>
  db.asRole("service_role", () =>
    call(db, "ai.change_workspace_policy($1, $2, $3)", [ownerId, workspaceId, JSON.stringify(changes)]),
  );

const defaults = {
  allowedModels: null,
  deniedModels: [],
  allowedRegions: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
  modelLimits: [],
  providerCostVisible: true,
  contentCapture: false,
  contentRetentionDays: 30,
  budget: null,
  appBudgets: [],
};

/**
 * Links an external app to the workspace.
 * @returns its id
 */
async function linkApp(db: Database, { workspaceId }: Tenant): Promise<string> {
  const { id } = await one<{ id: string }>(db, {
    sql: "insert into private.apps (name, display_name, kind) values ('p' || substr(gen_random_uuid()::text, 1, 8), 'P', 'external') returning id",
  });
  await db.query("insert into private.app_workspaces (app_id, workspace_id) values ($1, $2)", [id, workspaceId]);
  return id;
}

describe("a workspace's AI policy", () => {
  test("reading a workspace's AI policy requires use_ai_studio, and changing the policy requires manage_ai_policy", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    for (const { role, permissions } of workspaceRoles) {
      const { sub: ownerId } = await createActor(db, { workspaceId: tenant.workspaceId, role });
      const may = (permission: string) => (permissions as readonly string[]).includes(permission);
      const caller = { ownerId, workspaceId: tenant.workspaceId };
      expect((await read(db, caller)).outcome, role).toBe(may("use_ai_studio") ? "read" : "not_allowed");
      const { outcome } = await change(db, caller, { contentCapture: false });
      expect(outcome, role).toBe(may("manage_ai_policy") ? "changed" : "not_allowed");
    }
  });

  test("a workspace's AI policy begins with the defaults, and a change affects only the named fields", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    expect((await read(db, tenant)).policy).toMatchObject({ ...defaults, updatedAt: null, updatedBy: null });
    await change(db, tenant, { allowedModels: [tenant.model], contentCapture: true, contentRetentionDays: 7 });
    const { policy } = await change(db, tenant, { requestsPerMinute: 5, deniedModels: ["demo-chat"] });
    const standing = {
      contentCapture: true,
      contentRetentionDays: 7,
      requestsPerMinute: 5,
      deniedModels: ["demo-chat"],
    };
    expect(policy).toMatchObject({ ...defaults, allowedModels: [tenant.model], ...standing });
    const lifted = await change(db, tenant, { allowedModels: null, requestsPerMinute: null });
    expect(lifted.policy).toMatchObject({ ...defaults, ...standing, requestsPerMinute: null });
  });

  test("sets and removes allowed regions, which a change of other fields keeps", async ({ db }) => {
    const tenant = await createTenant(db);
    await change(db, tenant, { allowedRegions: ["eu", "ch"] });
    const { policy } = await change(db, tenant, { requestsPerMinute: 5 });
    expect(policy).toMatchObject({ allowedRegions: ["eu", "ch"], requestsPerMinute: 5 });
    expect((await change(db, tenant, { allowedRegions: null })).policy).toMatchObject({ allowedRegions: null });
    await expect(change(db, tenant, { allowedRegions: [] })).rejects.toThrow("allowed_regions");
  });

  test("sets, replaces and removes limits of models, which a change of other fields keeps", async ({ db }) => {
    const tenant = await createTenant(db);
    const modelLimits = [
      { model: tenant.model, requestsPerMinute: 5, tokensPerMinute: null },
      { model: "demo-chat", requestsPerMinute: null, tokensPerMinute: 1_000 },
    ];
    const inOrder = modelLimits.toSorted((one, other) => (one.model < other.model ? -1 : 1));
    expect((await change(db, tenant, { modelLimits })).policy).toMatchObject({ modelLimits: inOrder });
    const { model_limits } = await one<{ model_limits: unknown }>(db, {
      sql: "select model_limits from ai.workspace_policies where workspace_id = $1",
      values: [tenant.workspaceId],
    });
    expect(model_limits).toEqual({ [tenant.model]: { requests: 5 }, "demo-chat": { tokens: 1_000 } });
    // The policy page of release 0.3.0 sends every rule that it knows.
    const { modelLimits: _, budget: __, appBudgets: ___, ...known } = defaults;
    expect((await change(db, tenant, known)).policy).toMatchObject({ modelLimits: inOrder });
    const fewer = modelLimits.slice(1);
    expect((await change(db, tenant, { modelLimits: fewer })).policy).toMatchObject({ modelLimits: fewer });
    expect((await change(db, tenant, { modelLimits: [] })).policy).toMatchObject({ modelLimits: [] });
  });

  test("refuses limits of unknown models, and keeps those of models that have left the catalogue", async ({ db }) => {
    const tenant = await createTenant(db);
    const limit = (model: string) => ({ model, requestsPerMinute: 5 });
    expect(await change(db, tenant, { modelLimits: [limit("demo-chat"), limit("typo")] })).toEqual({
      outcome: "unknown_models",
      param: "modelLimits",
      models: ["typo"],
    });
    await db.query("insert into ai.workspace_policies (workspace_id, model_limits) values ($1, $2)", [
      tenant.workspaceId,
      { gone: { requests: 1 } },
    ]);
    expect((await change(db, tenant, { modelLimits: [limit("gone")] })).outcome).toBe("changed");
  });

  test("refuses a policy change that is based on an outdated version", async ({ db }) => {
    const tenant = await createTenant(db);
    const first = await change(db, tenant, { requestsPerMinute: 5, readAt: null });
    expect(first.outcome).toBe("changed");
    const late = await change(db, tenant, { requestsPerMinute: 6, readAt: null });
    expect(late).toMatchObject({ outcome: "changed_meanwhile", policy: { requestsPerMinute: 5 } });
    const next = await change(db, tenant, { requestsPerMinute: 7, readAt: first.policy?.updatedAt });
    expect(next).toMatchObject({ outcome: "changed", policy: { requestsPerMinute: 7 } });
  });

  test.for(["allowedModels", "deniedModels"])(
    "refuses a policy whose %s contains an unknown model, and names the model",
    async (param, { db }) => {
      const tenant = await createTenant(db);
      for (const typo of ["gpt-4o-typo", "DEMO-CHAT"]) {
        const refused = { outcome: "unknown_models", param, models: [typo] };
        expect(await change(db, tenant, { [param]: ["demo-chat", typo], requestsPerMinute: 5 })).toEqual(refused);
      }
      expect((await read(db, tenant)).policy).toMatchObject(defaults);
    },
  );

  test("an AI policy keeps models that have left the catalogue, because only added models are checked", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    await db.query(
      "insert into ai.workspace_policies (workspace_id, allowed_models, denied_models) values ($1, '{gone}', '{went}')",
      [tenant.workspaceId],
    );
    const kept = { allowedModels: ["gone", "demo-chat"], deniedModels: ["went"], requestsPerMinute: 5 };
    expect(await change(db, tenant, kept)).toMatchObject({ outcome: "changed", policy: kept });
    const moved = { allowedModels: null, deniedModels: ["gone", "went"] };
    expect(await change(db, tenant, moved)).toMatchObject({ outcome: "changed", policy: moved });
    const dropped = { deniedModels: [] };
    expect(await change(db, tenant, dropped)).toMatchObject({ outcome: "changed", policy: dropped });
    expect((await change(db, tenant, { deniedModels: ["gone"] })).outcome).toBe("unknown_models");
  });

  test("the workspace's log records a change of AI policy with the values before and after", async ({ db }) => {
    const tenant = await createTenant(db);
    await change(db, tenant, { contentCapture: true });
    const line = await one<{ actor_id: string; details: { before: Policy; after: Policy } }>(db, {
      sql: `select actor_id, details from public.workspace_audit_log
            where workspace_id = $1 and action = 'ai_policy.changed'`,
      values: [tenant.workspaceId],
    });
    expect(line.actor_id).toBe(tenant.ownerId);
    expect([line.details.before.contentCapture, line.details.after.contentCapture]).toEqual([false, true]);
  });

  test("sets and removes budgets of the workspace and of its linked apps", async ({ db }) => {
    const tenant = await createTenant(db);
    const appId = await linkApp(db, tenant);
    const other = await createTenant(db);
    const stranger = await linkApp(db, other);
    const refused = { appBudgets: [{ appId: stranger, monthlyBudgetUsd: 1 }] };
    expect(await change(db, tenant, refused)).toEqual({ outcome: "app_not_linked" });
    const set = { monthlyBudgetUsd: 12.5, appBudgets: [{ appId, monthlyBudgetUsd: 0.000001 }] };
    expect((await change(db, tenant, set)).policy).toMatchObject({
      budget: { limitUsd: "12.5", spentUsd: "0" },
      appBudgets: [{ appId, app: "P", limitUsd: "0.000001", spentUsd: "0" }],
    });
    const away = { monthlyBudgetUsd: null, appBudgets: [{ appId, monthlyBudgetUsd: null }] };
    expect((await change(db, tenant, away)).policy).toMatchObject({ budget: null, appBudgets: [] });
    expect((await read(db, other)).policy).toMatchObject(defaults);
  });

  test("keeps a budget's spent and reserved amounts when its limit changes", async ({ db }) => {
    const tenant = await createTenant(db);
    await change(db, tenant, { monthlyBudgetUsd: 10 });
    await db.query("update ai.budgets set spent_usd = 3, reserved_usd = 1 where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    const { policy } = await change(db, tenant, { monthlyBudgetUsd: 2 });
    expect(policy?.budget).toEqual({ limitUsd: "2", spentUsd: "3" });
    const held = await one<{ reserved: string }>(db, {
      sql: "select trim_scale(reserved_usd)::text as reserved from ai.budgets where workspace_id = $1",
      values: [tenant.workspaceId],
    });
    expect(held.reserved).toBe("1");
  });

  test("a removed budget refuses no calls, but its spend and reservations count towards a budget set later", async ({
    db,
  }) => {
    const tenant = await createTenant(db);
    await change(db, tenant, { monthlyBudgetUsd: 10 });
    await db.query("update ai.budgets set spent_usd = 3, reserved_usd = 5 where workspace_id = $1", [
      tenant.workspaceId,
    ]);
    await change(db, tenant, { monthlyBudgetUsd: null });
    const reserve = async (amount: number) =>
      (
        await one<{ held: boolean }>(db, {
          sql: "select ((ai.reserve(array[jsonb_populate_record(null::ai.claim, $1)]))[1]).refusal is null as held",
          values: [
            JSON.stringify({
              caller: { workspace_id: tenant.workspaceId },
              budget_scopes: ["workspace"],
              cost_usd: amount,
              requests: 1,
              credits: 0,
            }),
          ],
        })
      ).held;
    expect(await reserve(100)).toBe(true);
    const { policy } = await change(db, tenant, { monthlyBudgetUsd: 110 });
    expect(policy?.budget).toEqual({ limitUsd: "110", spentUsd: "3" });
    expect([await reserve(2.000001), await reserve(2)]).toEqual([false, true]);
  });

  test("a workspace's AI policy omits the spend if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db);
    const { policy } = await change(db, tenant, { monthlyBudgetUsd: 10, providerCostVisible: false });
    expect(policy?.budget).toEqual({ limitUsd: "10", spentUsd: null });
  });

  test("only one of 50 concurrent callers can change a policy from the same version, and the others are refused", async () => {
    const { db, close } = openPool(50);
    const tenant = await createTenant(db);
    try {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          call(db, "ai.change_workspace_policy($1, $2, $3)", [
            tenant.ownerId,
            tenant.workspaceId,
            JSON.stringify({ requestsPerMinute: index + 1, readAt: null }),
          ]),
        ),
      );
      const changed = answers.filter(({ outcome }) => outcome === "changed");
      expect(changed).toHaveLength(1);
      for (const { outcome, policy } of answers) {
        expect(["changed", "changed_meanwhile"]).toContain(outcome);
        expect(policy?.requestsPerMinute).toBe(changed[0]?.policy?.requestsPerMinute);
      }
    } finally {
      await db.query("delete from public.workspaces where id = $1", [tenant.workspaceId]);
      await close();
    }
  });

  test("loses none of 50 concurrent policy changes", async () => {
    const { db, close } = openPool(50);
    const tenant = await createTenant(db);
    try {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          call(db, "ai.change_workspace_policy($1, $2, $3)", [
            tenant.ownerId,
            tenant.workspaceId,
            JSON.stringify(index % 2 ? { requestsPerMinute: 7 } : { contentRetentionDays: 9 }),
          ]),
        ),
      );
      expect(new Set(answers.map(({ outcome }) => outcome))).toEqual(new Set(["changed"]));
      const { policy } = await call(db, "ai.read_workspace_policy($1, $2)", [tenant.ownerId, tenant.workspaceId]);
      expect(policy).toMatchObject({ requestsPerMinute: 7, contentRetentionDays: 9 });
    } finally {
      await db.query("delete from public.workspaces where id = $1", [tenant.workspaceId]);
      await close();
    }
  });
});
