import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createActor } from "../actors.ts";
import type { Database } from "../database.ts";
import { openPool } from "../pools.ts";
import {
  abandon,
  addKey,
  admitAll,
  books,
  chatCall,
  createTenant,
  forgetReservation,
  type OpenedRun,
  outcome,
  settle,
} from "./fixtures.ts";

let db: Database;
let close: () => Promise<void>;
beforeAll(() => {
  ({ db, close } = openPool(30));
});
afterAll(() => close());

const setLabel = "select ai.set_budget('label', ai.label_id($2), $1, $3, $2)";
const setMember = "select ai.set_budget('member', $2, $1, $3)";
const shuffled = <Each>(all: readonly Each[]) => all.toSorted(() => Math.random() - 0.5);

// No caller here has a lock timeout, so a wrong lock order anywhere makes Postgres report a deadlock.
test("90 concurrent changes of the same rows all succeed, and balances, reservations and budgets are consistent afterwards", {
  timeout: 60_000,
}, async () => {
  const limits = { requestsPerMinute: 100_000, tokensPerMinute: 1_000_000_000, monthlyBudgetUsd: "1000" };
  const tenants = await Promise.all(
    (["workspace", "member", "workspace"] as const).map((payer) =>
      createTenant(db, { payer, credits: "100000", plan: { requestsPerMinute: 100_000 }, key: limits }),
    ),
  );
  const labels = ["a", "b"];
  // Each call counts in the budgets of its key, member, label and workspace. Half of the keys have a label of their own.
  const callers = await Promise.all(
    tenants.flatMap((tenant) =>
      labels.flatMap((entityId) =>
        [{ ...limits, entityId }, limits].map(async (options) => ({
          ...tenant,
          keyHash: (await addKey(db, tenant, options)).hash,
          call: options === limits ? { entity_id: entityId } : {},
        })),
      ),
    ),
  );
  for (const { workspaceId, ownerId } of tenants) {
    for (const label of labels) await db.query(setLabel, [workspaceId, label, 1000]);
    await db.query(setMember, [workspaceId, ownerId, 1000]);
    await db.query("select ai.set_budget('workspace', $1, $1, 1000)", [workspaceId]);
  }
  const calls = (count: number) =>
    Array.from({ length: count }, () => {
      const caller = shuffled(callers)[0] as (typeof callers)[number];
      return chatCall(caller, { run_id_suffix: tail(), ...caller.call });
    });
  const tail = () => randomUUID().slice(-17);
  const first = (await Promise.all(Array.from({ length: 6 }, () => admitAll(db, calls(20))))).flat();
  expect(first.filter(({ refused }) => refused)).toEqual([]);

  const [left, swept, lost, ended] = [first.slice(0, 30), first.slice(30, 60), first.slice(60, 80), first.slice(80)];
  await abandon(db, swept);
  const settleAll = (runs: readonly OpenedRun[]) =>
    settle(
      db,
      runs.map((run) => outcome(run)),
    );
  const work: (() => Promise<unknown>)[] = [
    ...Array.from({ length: 20 }, () => () => admitAll(db, calls(8)).then(settleAll)),
    ...Array.from({ length: 20 }, () => () => admitAll(db, calls(1)).then(settleAll)),
    ...left.slice(0, 15).map(({ created_at, run_id: id }) => () => {
      const step = { created_at, id, input_bytes: 300, output_limit: 100 };
      return db.query("select ai.extend_run($1)", [JSON.stringify(step)]);
    }),
    ...Array.from({ length: 4 }, () => () => settleAll(shuffled(ended))),
    ...Array.from({ length: 6 }, () => () => db.query("select ai.sweep_runs()")),
    ...Array.from({ length: 10 }, (_, part) => () => {
      const tails = lost.slice(part * 2, part * 2 + 2).map(({ run_id }) => run_id.slice(-17));
      return db.query("select ai.release_orphaned_runs($1)", [JSON.stringify({ tails, asked_ms_ago: 60_000 })]);
    }),
    ...tenants.flatMap(({ workspaceId, keyId, ownerId }) => [
      () => db.query(setLabel, [workspaceId, "a", 900]),
      () => db.query(setLabel, [workspaceId, "b", null]),
      () => db.query(setMember, [workspaceId, ownerId, 900]),
      () => db.query("select ai.set_budget('workspace', $1, $1, 500)", [workspaceId]),
      () => db.query("select ai.set_budget('key', $2, $1, 900)", [workspaceId, keyId]),
      () => db.query("select ai.set_budget('key', $2, $1, null)", [workspaceId, keyId]),
    ]),
    ...tenants.map(({ model }) => () => {
      const sql = `insert into ai.model_prices
        (model_id, provider_id, min_input_tokens, input_usd_per_million, output_usd_per_million)
        values ($1, 'demo', 100000, 1, 1)`;
      return db.query(sql, [model]);
    }),
    ...tenants.map(({ workspaceId }) => () => {
      const sql = "update public.workspaces set name = 'Renamed' where id = $1";
      return db.query(sql, [workspaceId]);
    }),
  ];
  expect(work.length).toBeGreaterThanOrEqual(90);
  await Promise.all(shuffled(work).map((each) => each()));

  await settleAll(left);
  // Reports the actual outcomes of the runs that the sweeper closed.
  await settleAll(swept);
  for (const tenant of tenants) {
    const { balance, ledger, reserved, used, runs, open } = await books(db, tenant);
    expect({ balance, reserved, used, open }).toEqual({ balance: ledger, reserved: "0.00000000", used: runs, open: 0 });
  }
  const held = await db.query("select from ai.budgets where workspace_id = any ($1) and reserved_usd <> 0", [
    tenants.map(({ workspaceId }) => workspaceId),
  ]);
  expect(held).toHaveLength(0);
  const spent = await db.query<{ budgets: string; runs: string }>(
    `select b.scope, b.label, trim_scale(b.spent_usd)::text as budgets, (
       select trim_scale(sum(r.cost_usd))::text from ai.runs r
       where r.workspace_id = b.workspace_id and r.status <> 'running'
         and case b.scope when 'member' then r.actor_id = b.subject_id when 'label' then r.entity_id = b.label else true end
     ) as runs
     from ai.budgets b where b.workspace_id = any ($1) and b.scope in ('member', 'label', 'workspace')`,
    [tenants.map(({ workspaceId }) => workspaceId)],
  );
  expect(spent).toHaveLength(12);
  expect(spent.map(({ budgets }) => budgets)).toEqual(spent.map(({ runs }) => runs));
});

// Sets no rate limits. Otherwise the batches would contend for rate windows, which are locked before budgets.
test("batches that contend for the budgets of keys, members, labels and workspaces lock them in the same order", {
  timeout: 60_000,
}, async () => {
  const tenant = await createTenant(db, { credits: "100000" });
  const { workspaceId, ownerId } = tenant;
  const { sub: otherId } = await createActor(db, { workspaceId, role: "member" });
  const callers = await Promise.all(
    [ownerId, otherId].flatMap((memberId) =>
      ["a", "b", "c"].map(async (entityId) => {
        const options = { monthlyBudgetUsd: "1000", entityId };
        return { ...tenant, keyHash: (await addKey(db, { workspaceId, ownerId: memberId }, options)).hash };
      }),
    ),
  );
  for (const label of ["a", "b", "c"]) await db.query(setLabel, [workspaceId, label, 1000]);
  for (const memberId of [ownerId, otherId]) await db.query(setMember, [workspaceId, memberId, 1000]);
  await db.query("select ai.set_budget('workspace', $1, $1, 1000)", [workspaceId]);
  await Promise.all(
    Array.from({ length: 30 }, async (_, n) => {
      for (let turn = 0; turn < 3; turn++) {
        const runs = await admitAll(
          db,
          shuffled(callers).map((caller) => chatCall(caller)),
        );
        if (n % 5 === 0) await db.query(setLabel, [workspaceId, "b", 900 + n]);
        await settle(
          db,
          shuffled(runs).map((run) => outcome(run)),
        );
      }
    }),
  );
  const left = await db.query(
    "select from ai.budgets where workspace_id = $1 and (reserved_usd <> 0 or spent_usd = 0)",
    [workspaceId],
  );
  expect(left).toEqual([]);
  expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
});

test("other runs of a batch are settled even if one run can't be settled and several batches are settled concurrently", {
  timeout: 60_000,
}, async () => {
  const broken = await createTenant(db, { credits: "1000" });
  const payers = await Promise.all([1, 2, 3].map(() => createTenant(db, { credits: "1000" })));
  const begun = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const [lost, ...runs] = await admitAll(
        db,
        [broken, ...shuffled([...payers, ...payers])].map((one) => chatCall(one)),
      );
      return { lost, runs };
    }),
  );
  await forgetReservation(db, broken);
  const ended = await Promise.all(
    begun.map(({ lost, runs }) =>
      settle(
        db,
        [lost as OpenedRun, ...runs].map((run) => outcome(run)),
      ),
    ),
  );
  expect(ended.map((runs) => runs.length)).toEqual(begun.map(({ runs }) => runs.length));
  for (const tenant of payers) {
    expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
  }
});
