import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect } from "vitest";
import { createActor } from "../actors.ts";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { appTokenCall, sessionCall } from "./call-fixtures.ts";
import {
  abandon,
  addKey,
  admitAll,
  begin,
  books,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  settle,
  type Tenant,
} from "./fixtures.ts";

/** A call reserves 100 input and 100 output tokens: 0.0002 USD. A call with 13 and 7 tokens costs 0.00002 USD. */
const prices = { input: "1", output: "1" };
const label = "customer:7";

type Scope = "member" | "label";
const setBudget = (db: Database, { workspaceId, ownerId }: Tenant, scope: Scope, limit: string | null) =>
  scope === "member"
    ? db.query("select ai.set_budget('member', $1, $2, $3)", [ownerId, workspaceId, limit])
    : db.query("select ai.set_budget('label', ai.label_id($1), $2, $3, $1)", [label, workspaceId, limit]);

async function sums(db: Database, { workspaceId }: Tenant, scope: Scope) {
  return one<{ spent: string; reserved: string }>(db, {
    sql: `select trim_scale(spent_usd)::text as spent, trim_scale(reserved_usd)::text as reserved
          from ai.budgets where workspace_id = $1 and scope = $2`,
    values: [workspaceId, scope],
  });
}

/** Returns what the budget should have spent and reserved according to the tenant's runs of this month. */
async function truth(db: Database, { workspaceId, ownerId }: Tenant, scope: Scope) {
  return one<{ spent: string; reserved: string }>(db, {
    sql: `select
            trim_scale(coalesce(sum(r.cost_usd) filter (where r.status <> 'running'), 0))::text as spent,
            trim_scale(coalesce(sum(r.reserved_usd) filter (where r.status = 'running'), 0))::text as reserved
          from ai.runs r
          where r.workspace_id = $1 and r.created_at >= date_trunc('month', now(), 'UTC')
            and case $2 when 'member' then r.actor_id = $3 else r.entity_id = $4 end`,
    values: [workspaceId, scope, ownerId, label],
  });
}

async function extend(db: Database, { created_at, run_id: id }: OpenedRun): Promise<{ refused?: string }> {
  const step = JSON.stringify({ created_at, id, input_bytes: 300, output_limit: 100 });
  const { answer } = await one<{ answer: object }>(db, { sql: "select ai.extend_run($1) as answer", values: [step] });
  return answer;
}

async function sweep(db: Database): Promise<void> {
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.sweep_runs', 0))");
  await db.query("select ai.sweep_runs()");
}

const labelled = { entityId: label };
const tenantFor = (db: Database, scope: Scope) =>
  createTenant(db, { credits: "100000", prices, ...(scope === "label" ? { key: labelled } : {}) });

describe.for(["member", "label"] as const)("a budget of a %s", (scope) => {
  test.for([
    ["0.0002", undefined],
    ["0.000199999999", "budget_exceeded"],
    ["0", "budget_exceeded"],
  ] as const)(
    "with a budget of %s USD, the `refused` field of a call of 0.0002 USD is %s",
    async ([limit, refused], { db }) => {
      const tenant = await tenantFor(db, scope);
      await setBudget(db, tenant, scope, limit);
      expect((await begin(db, chatCall(tenant))).refused).toBe(refused);
      expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: refused ? "0" : "0.0002" });
    },
  );

  test("a budget for 5 calls admits exactly 5 of 100 concurrent calls by several keys", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await tenantFor(db, scope);
      await setBudget(db, tenant, scope, "0.001");
      const other = await addKey(db, tenant, scope === "label" ? labelled : {});
      const callers = [tenant, { ...tenant, keyHash: other.hash }];
      const calls = Array.from({ length: 100 }, (_, n) => begin(db, chatCall(callers[n % 2] ?? tenant)));
      const answers = await Promise.all(calls);
      expect(answers.filter(({ refused }) => !refused)).toHaveLength(5);
      expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0.001" });
    } finally {
      await close();
    }
  });

  test("a budget is charged the cost of a run, and the rest of the reservation is released", async ({ db }) => {
    const tenant = await tenantFor(db, scope);
    await setBudget(db, tenant, scope, "1");
    const [done, open] = [await begin(db, chatCall(tenant)), await begin(db, chatCall(tenant))];
    await settle(db, [outcome(done), outcome(done)]);
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0.00002", reserved: open.reserved_usd.replace(/0+$/, "") });
    expect(await sums(db, tenant, scope)).toEqual(await truth(db, tenant, scope));
  });

  test("a budget reserves the cost of each further step of a tool loop, and refuses the step that would exceed the budget", async ({
    db,
  }) => {
    const tenant = await tenantFor(db, scope);
    await setBudget(db, tenant, scope, "0.0004");
    const run = await begin(db, chatCall(tenant));
    expect(await extend(db, run)).not.toHaveProperty("refused");
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0.0004" });
    expect(await extend(db, run)).toMatchObject({ refused: "budget_exceeded" });
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0.0004" });
    await settle(db, [outcome(run)]);
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0.00002", reserved: "0" });
  });

  test("a budget counts a run's actual cost that is reported after the sweep closed the run", async ({ db }) => {
    const tenant = await tenantFor(db, scope);
    await setBudget(db, tenant, scope, "1");
    const run = await begin(db, chatCall(tenant));
    await abandon(db, run);
    await sweep(db);
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0" });
    await settle(db, [outcome(run)]);
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0.00002", reserved: "0" });
    expect(await sums(db, tenant, scope)).toEqual(await truth(db, tenant, scope));
  });

  test("a budget's reservation for an orphaned run is released", async ({ db }) => {
    const tenant = await tenantFor(db, scope);
    await setBudget(db, tenant, scope, "1");
    const tail = randomUUID().slice(-17);
    await begin(db, chatCall(tenant, { run_id_suffix: tail }));
    await db.query("select ai.release_orphaned_runs($1)", [JSON.stringify({ tails: [tail], asked_ms_ago: 1000 })]);
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0" });
  });

  test("a budget's reservation is released if a later limit refuses the call", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1", prices, key: scope === "label" ? labelled : {} });
    await setBudget(db, tenant, scope, "1");
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "insufficient_credits" });
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0" });
  });

  test("a budget starts each month at zero, and a run counts in the month in which it began", async ({ db }) => {
    const tenant = await tenantFor(db, scope);
    await setBudget(db, tenant, scope, "0.0004");
    const old = await begin(db, chatCall(tenant));
    // Simulates a run that began in the previous month, after other runs had used up the budget.
    await db.query(
      `update ai.budgets set spent_usd = 0.0004, starts_at = null, period_start = period_start - interval '1 month'
       where workspace_id = $1`,
      [tenant.workspaceId],
    );
    const moved = await one<{ created_at: string }>(db, {
      sql: "update ai.runs set created_at = created_at - interval '32 days' where id = $1 returning created_at::text",
      values: [old.run_id],
    });
    const run = await begin(db, chatCall(tenant));
    expect(run).not.toHaveProperty("refused");
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0.0004" });
    expect((await begin(db, chatCall(tenant))).refused).toBe("budget_exceeded");
    await settle(db, [outcome({ ...old, ...moved })]);
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0", reserved: "0.0002" });
    await settle(db, [outcome(run)]);
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0.00002", reserved: "0" });
  });

  test("a budget created mid-month starts at the cost of its member's or label's settled runs in that month", async ({
    db,
  }) => {
    const tenant = await tenantFor(db, scope);
    const { sub: ownerId } = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    const other = await addKey(db, { ...tenant, ownerId }, scope === "label" ? { entityId: "customer:8" } : {});
    await settle(db, [
      outcome(await begin(db, chatCall(tenant))),
      outcome(await begin(db, chatCall(tenant))),
      outcome(await begin(db, chatCall({ ...tenant, keyHash: other.hash }))),
    ]);
    await setBudget(db, tenant, scope, "0.00023");
    expect(await sums(db, tenant, scope)).toEqual({ spent: "0.00004", reserved: "0" });
    expect((await begin(db, chatCall(tenant))).refused).toBe("budget_exceeded");
    await setBudget(db, tenant, scope, "0.00024");
    expect((await begin(db, chatCall(tenant))).refused).toBeUndefined();
    await setBudget(db, tenant, scope, null);
    expect((await begin(db, chatCall(tenant))).refused).toBeUndefined();
    expect(await sums(db, tenant, scope)).toEqual(await truth(db, tenant, scope));
  });

  test("a budget does not count calls of other keys, members or labels", async ({ db }) => {
    const tenant = await tenantFor(db, scope);
    await setBudget(db, tenant, scope, "0");
    const { sub: ownerId } = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    const other = await addKey(db, { ...tenant, ownerId }, scope === "label" ? { entityId: "customer:8" } : {});
    expect((await begin(db, chatCall({ ...tenant, keyHash: other.hash }))).refused).toBeUndefined();
  });

  test("a budget agrees with its runs after concurrent calls, steps, settlements and budget changes", async () => {
    const { db, close } = openPool(20);
    try {
      const tenant = await tenantFor(db, scope);
      await setBudget(db, tenant, scope, "0.01");
      const one = async (n: number) => {
        const [run] = await admitAll(db, [chatCall(tenant)]);
        if (!run || run.refused) return;
        if (n % 3 === 0) await extend(db, run);
        if (n % 5 === 0) await setBudget(db, tenant, scope, n % 2 ? null : "0.01");
        if (n % 4) await settle(db, [outcome(run)]);
      };
      await Promise.all(Array.from({ length: 80 }, (_, n) => one(n)));
      expect(await sums(db, tenant, scope)).toEqual(await truth(db, tenant, scope));
      expect((await books(db, tenant)).open).toBeGreaterThan(0);
    } finally {
      await close();
    }
  });
});

describe("a member's budget", () => {
  test("a member's budget applies to the member's keys, session and apps together", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100000", prices });
    const actor = await createActor(db, { workspaceId: tenant.workspaceId, role: "member" });
    const key = await addKey(db, { ...tenant, ownerId: actor.sub });
    const { callOf } = await appTokenCall(db, tenant, { claims: actor });
    await setBudget(db, { ...tenant, ownerId: actor.sub }, "member", "0.0006");
    const calls = () => [
      chatCall({ ...tenant, keyHash: key.hash }),
      sessionCall(tenant, actor),
      callOf({ request_id: randomUUID() }),
    ];
    for (const call of calls()) expect(await begin(db, call)).not.toHaveProperty("refused");
    for (const call of calls()) expect((await begin(db, call)).refused).toBe("budget_exceeded");
    expect(await begin(db, chatCall(tenant))).not.toHaveProperty("refused");
  });

  test("a member's budget counts only calls in its workspace", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100000", prices });
    const elsewhere = await createTenant(db, { credits: "100000", prices });
    const key = await addKey(db, { ...elsewhere, ownerId: tenant.ownerId });
    await setBudget(db, tenant, "member", "0");
    const call = chatCall({ keyHash: key.hash, model: elsewhere.model });
    expect(await begin(db, call)).not.toHaveProperty("refused");
  });
});

describe("a label of a call or a key", () => {
  const entityOf = async (db: Database, run: OpenedRun) =>
    (await db.query("select entity_id from ai.runs where id = $1", [run.run_id]))[0]?.entity_id;

  test("a label's budget counts the costs of calls whose caller chose the label, but never refuses these calls", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "100000", prices });
    await setBudget(db, tenant, "label", "0.0002");
    const begun = await admitAll(
      db,
      [1, 2, 3].map(() => chatCall(tenant, { entity_id: label })),
    );
    expect(begun.map(({ refused }) => refused)).toEqual([undefined, undefined, undefined]);
    expect(await sums(db, tenant, "label")).toEqual({ spent: "0", reserved: "0.0006" });
    expect(await extend(db, begun[0] as OpenedRun)).not.toHaveProperty("refused");
    await settle(
      db,
      begun.map((run) => outcome(run)),
    );
    expect(await sums(db, tenant, "label")).toEqual({ spent: "0.00006", reserved: "0" });
    const refusals = await db.query("select from ai.budgets where workspace_id = $1 and refused_at is not null", [
      tenant.workspaceId,
    ]);
    expect(refusals).toEqual([]);
  });

  test("a key's label is recorded on its runs, and other runs with the same label can use up the label's budget", async ({
    db,
  }) => {
    const tenant = await tenantFor(db, "label");
    const open = await addKey(db, tenant);
    await setBudget(db, tenant, "label", "0.0004");
    const run = await begin(db, chatCall(tenant));
    expect(await entityOf(db, run)).toBe(label);
    await begin(db, chatCall({ ...tenant, keyHash: open.hash }, { entity_id: label }));
    expect((await begin(db, chatCall(tenant))).refused).toBe("budget_exceeded");
    expect(await extend(db, run)).toMatchObject({ refused: "budget_exceeded" });
  });

  test("a key's label is recorded on its runs even if the label has no budget", async ({ db }) => {
    const tenant = await tenantFor(db, "label");
    expect(await entityOf(db, await begin(db, chatCall(tenant)))).toBe(label);
    expect(await entityOf(db, await begin(db, chatCall(tenant, { entity_id: label })))).toBe(label);
  });

  test("a call whose label differs from its key's is refused and changes nothing, with and without a budget", async ({
    db,
  }) => {
    const tenant = await tenantFor(db, "label");
    const refused = { refused: "invalid_request", param: "X-Platform-Entity-Id" };
    expect(await begin(db, chatCall(tenant, { entity_id: "customer:8" }))).toEqual(refused);
    expect(await begin(db, chatCall(tenant, { entity_id: label.toUpperCase() }))).toEqual(refused);
    await setBudget(db, tenant, "label", "1");
    const [first, second] = await admitAll(db, [chatCall(tenant, { entity_id: "customer:8" }), chatCall(tenant)]);
    expect(first).toEqual(refused);
    expect(second).not.toHaveProperty("refused");
    expect(await books(db, tenant)).toMatchObject({ open: 1 });
    expect(await sums(db, tenant, "label")).toEqual({ spent: "0", reserved: "0.0002" });
  });

  test("a rotated key keeps its label, and the new key's description includes the label's budget", async ({ db }) => {
    const tenant = await tenantFor(db, "label");
    await setBudget(db, tenant, "label", "1");
    await setBudget(db, tenant, "member", "2");
    const hash = randomBytes(32).toString("hex");
    await db.query("select ai.rotate_key($1, $2, $3, 0, $4, $5)", [
      tenant.ownerId,
      tenant.workspaceId,
      tenant.keyId,
      randomBytes(6).toString("hex"),
      hash,
    ]);
    const rotated = chatCall({ ...tenant, keyHash: hash });
    expect(await entityOf(db, await begin(db, rotated))).toBe(label);
    const { answer } = await one<{ answer: object }>(db, {
      sql: "select ai.describe_credential($1) as answer",
      values: [JSON.stringify(rotated)],
    });
    expect(answer).toMatchObject({
      key: { entityId: label },
      budgets: [
        { scope: "member", limitUsd: 2, reservedUsd: 0.0002 },
        { scope: "label", limitUsd: 1, reservedUsd: 0.0002 },
      ],
    });
  });

  test("a label may have up to 128 characters of the allowed set", async ({ db }) => {
    const tenant = await createTenant(db);
    expect(await addKey(db, tenant, { entityId: "a".repeat(128) })).toHaveProperty("id");
    for (const entityId of ["a".repeat(129), "", "a b", "ä"]) {
      await db.query("savepoint before");
      await expect(addKey(db, tenant, { entityId }), entityId).rejects.toMatchObject({ code: "23514" });
      await db.query("rollback to savepoint before");
    }
  });
});
