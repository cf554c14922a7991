import fc from "fast-check";
import { describe, expect } from "vitest";
import { one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { begin, books, chatCall, createTenant, forgetReservation, outcome, runRow, settle } from "./fixtures.ts";

describe("settling runs", () => {
  test("settlement writes the run, its steps, one ledger entry and the balance", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", markup: "1.2" });
    const run = await begin(db, chatCall(tenant));
    expect(await settle(db, [outcome(run)])).toEqual([{ id: run.run_id, kind: "usage", billed_credits: "0.07380000" }]);
    expect(await runRow(db, run)).toEqual({
      status: "succeeded",
      usage_source: "provider",
      cost_usd: "0.000006150000",
      billed_credits: "0.07380000",
      unmetered_credits: "0.00000000",
      swept: false,
      input_tokens: 13,
      output_tokens: 7,
      http_status: 200,
      route: 1,
    });
    expect(await books(db, tenant)).toEqual({
      balance: "99.92620000",
      reserved: "0.00000000",
      ledger: "99.92620000",
      used: "0.07380000",
      runs: "0.07380000",
      open: 0,
    });
    const entry = await one(db, {
      sql: "select kind, amount::text, balance_after::text from ai.credit_ledger where run_id = $1",
      values: [run.run_id],
    });
    expect(entry).toEqual({ kind: "usage", amount: "-0.07380000", balance_after: "99.92620000" });
    const { steps } = await one(db, { sql: "select steps from ai.runs where id = $1", values: [run.run_id] });
    expect(steps).toEqual([{ step: 1, type: "model", name: "demo", status: "succeeded", latency_ms: 5 }]);
  });

  test("settling a run again changes nothing, even if the repeated report has other counts", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run)]);
    const before = [await books(db, tenant), await runRow(db, run)];
    expect(await settle(db, [outcome(run)])).toEqual([]);
    expect(await settle(db, [outcome(run, { usage: { input_tokens: 99999, output_tokens: 99999 } })])).toEqual([]);
    expect(await settle(db, [outcome(run, { status: "failed", usage_source: "unavailable" })])).toEqual([]);
    expect([await books(db, tenant), await runRow(db, run)]).toEqual(before);
  });

  test("settles a run only once even if its batch contains it twice", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await begin(db, chatCall(tenant));
    expect(await settle(db, [outcome(run), outcome(run)])).toHaveLength(1);
    expect(await books(db, tenant)).toMatchObject({ balance: "99.93850000", used: "0.06150000" });
  });

  test("settles a run only once for twenty concurrent callers", async () => {
    const { db, close } = openPool(10);
    try {
      const tenant = await createTenant(db, { credits: "100" });
      const run = await begin(db, chatCall(tenant));
      const answers = await Promise.all(Array.from({ length: 20 }, () => settle(db, [outcome(run)])));
      expect(answers.flat()).toHaveLength(1);
      expect(await books(db, tenant)).toMatchObject({ balance: "99.93850000", reserved: "0.00000000" });
    } finally {
      await close();
    }
  });

  test("charges a run's actual cost in full, even above the reservation and into a negative balance", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "3", prices: { input: "1", output: "1" } });
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run, { usage: { input_tokens: 5000, output_tokens: 5000 } })]);
    expect(await books(db, tenant)).toMatchObject({
      balance: "-97.00000000",
      reserved: "0.00000000",
      used: "100.00000000",
    });
    expect(await begin(db, chatCall(tenant))).toMatchObject({ refused: "insufficient_credits" });
  });

  test("a failed run without usage costs nothing", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "3" });
    const run = await begin(db, chatCall(tenant));
    await settle(db, [outcome(run, { status: "failed", http_status: 502, usage_source: "unavailable" })]);
    expect(await books(db, tenant)).toMatchObject({
      balance: "3.00000000",
      reserved: "0.00000000",
      used: "0.00000000",
    });
  });

  test("charges the price that the answering route had when the run began", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", prices: { input: "1", output: "1" } });
    await db.query(
      "insert into ai.model_routes (model_id, position, provider_id, provider_model) values ($1, 2, 'expensive', 'x')",
      [tenant.model],
    );
    await db.query(
      "insert into ai.model_prices (model_id, provider_id, input_usd_per_million, output_usd_per_million) values ($1, 'expensive', 10, 10)",
      [tenant.model],
    );
    const providers = ["demo", "expensive"];
    const first = await begin(db, chatCall(tenant, { providers }));
    const second = await begin(db, chatCall(tenant, { providers }));
    await db.query("delete from ai.model_prices where model_id = $1", [tenant.model]);
    await settle(db, [outcome(first, { route: 1 }), outcome(second, { route: 2 })]);
    expect(await runRow(db, first)).toMatchObject({ cost_usd: "0.000020000000" });
    expect(await runRow(db, second)).toMatchObject({ cost_usd: "0.000200000000" });
  });

  test("settlement ignores an unknown run", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100" });
    const run = await begin(db, chatCall(tenant));
    expect(await settle(db, [outcome({ ...run, run_id: tenant.workspaceId })])).toEqual([]);
  });

  test("settling a run after its budget was removed and set again leaves nothing reserved", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { monthlyBudgetUsd: "10" } });
    const run = await begin(db, chatCall(tenant));
    await db.query("update ai.budgets set reserved_usd = 0 where workspace_id = $1", [tenant.workspaceId]);
    expect(await settle(db, [outcome(run)])).toHaveLength(1);
    const budget = "select reserved_usd::text, spent_usd::text from ai.budgets where workspace_id = $1";
    expect(await one(db, { sql: budget, values: [tenant.workspaceId] })).toEqual({
      reserved_usd: "0.000000000000",
      spent_usd: "0.000006150000",
    });
  });

  test.for([
    { begun: "at the month's first moment", ago: "0", spent: "0.000006150000" },
    { begun: "a microsecond before the month", ago: "1 microsecond", spent: "0.000000000000" },
  ])("a run counts in its budget for the month in which it began: $begun", async ({ ago, spent }, { db }) => {
    const tenant = await createTenant(db, { credits: "100", key: { monthlyBudgetUsd: "10" } });
    const run = await begin(db, chatCall(tenant));
    const { created_at } = await one<{ created_at: string }>(db, {
      sql: `update ai.runs set created_at = date_trunc('month', now(), 'UTC') - $3::interval
            where created_at = $1 and id = $2 returning created_at::text`,
      values: [run.created_at, run.run_id, ago],
    });
    expect(await settle(db, [outcome({ ...run, created_at })])).toHaveLength(1);
    const budget = "select reserved_usd::text, spent_usd::text from ai.budgets where workspace_id = $1";
    expect(await one(db, { sql: budget, values: [tenant.workspaceId] })).toEqual({
      reserved_usd: "0.000000000000",
      spent_usd: spent,
    });
  });

  test("a run that can't be settled does not prevent the other runs of its batch from being settled", async ({
    db,
  }) => {
    const [broken, sound] = [await createTenant(db, { credits: "100" }), await createTenant(db, { credits: "100" })];
    const runs = [
      await begin(db, chatCall(sound)),
      await begin(db, chatCall(broken)),
      await begin(db, chatCall(sound)),
    ];
    await forgetReservation(db, broken);
    const settled = await settle(
      db,
      runs.map((run) => outcome(run)),
    );
    expect(settled.map(({ id }) => id)).toEqual([runs[0]?.run_id, runs[2]?.run_id].toSorted());
    expect(await books(db, sound)).toMatchObject({ balance: "99.87700000", reserved: "0.00000000", open: 0 });
    // The run stays open and unchanged until its credit account is repaired.
    expect(await books(db, broken)).toMatchObject({ balance: "100.00000000", used: "0.00000000", open: 1 });
  });

  test("after settlement, ledger, runs and balance agree to the last digit, for random outcomes in random batches", async ({
    db,
  }) => {
    const usage = fc.record({
      input_tokens: fc.nat(2_000_000),
      cached_input_tokens: fc.nat(2_000_000),
      output_tokens: fc.nat(200_000),
      source: fc.constantFrom("provider", "estimated_partial", "unavailable"),
    });
    const tenant = await createTenant(db, {
      credits: "1000000",
      markup: "1.234567",
      prices: { input: "0.150001", cachedInput: "0.075003", output: "0.600007" },
    });
    await fc.assert(
      fc.asyncProperty(fc.array(usage, { minLength: 1, maxLength: 12 }), async (usages) => {
        const outcomes = [];
        for (const { source, ...counts } of usages) {
          const run = await begin(db, chatCall(tenant));
          outcomes.push(
            outcome(run, { usage: counts, usage_source: source, estimated: source === "estimated_partial" }),
          );
        }
        await settle(db, outcomes);
        const { balance, ledger, used, runs, reserved, open } = await books(db, tenant);
        expect({ balance, used, reserved, open }).toEqual({
          balance: ledger,
          used: runs,
          reserved: "0.00000000",
          open: 0,
        });
        const last = await one<{ balance_after: string }>(db, {
          sql: `select l.balance_after::text from ai.credit_ledger l join ai.credit_accounts a on a.id = l.account_id
                where a.workspace_id = $1 order by l.id desc limit 1`,
          values: [tenant.workspaceId],
        });
        expect(last.balance_after).toBe(balance);
      }),
      { numRuns: 25 },
    );
  });

  test("settling, beginning and sweeping runs concurrently causes no deadlock and loses no settlement", async () => {
    const { db, close } = openPool(16);
    try {
      const tenants = await Promise.all(
        Array.from({ length: 4 }, () => createTenant(db, { credits: "1000", key: { monthlyBudgetUsd: "10" } })),
      );
      const work = tenants.flatMap((tenant) =>
        Array.from({ length: 12 }, async () => {
          const calls = tenants.map((each) =>
            begin(db, chatCall(each, { idempotency_key: crypto.randomUUID(), fingerprint: "ab".repeat(32) })),
          );
          const runs = [await begin(db, chatCall(tenant)), ...(await Promise.all(calls))];
          await Promise.all([
            settle(
              db,
              runs.map((run) => outcome(run)),
            ),
            settle(
              db,
              runs.toReversed().map((run) => outcome(run)),
            ),
            db.query("select ai.sweep_runs()"),
          ]);
        }),
      );
      await Promise.all(work);
      for (const tenant of tenants) {
        const { balance, ledger, used, runs, reserved, open } = await books(db, tenant);
        // Each tenant has 60 runs: 12 from its own tasks, and one from each of all 48 tasks. Each run costs 0.0615
        // credits.
        expect({ balance, ledger, used, runs, reserved, open }).toEqual({
          balance: "996.31000000",
          ledger: "996.31000000",
          used: "3.69000000",
          runs: "3.69000000",
          reserved: "0.00000000",
          open: 0,
        });
      }
    } finally {
      await close();
    }
  });
});
