import { afterAll, beforeAll, describe, expect } from "vitest";
import { type Database, one, test } from "../database.ts";
import {
  addKey,
  admitAll,
  batchOf,
  begin,
  books,
  chatCall,
  createTenant,
  type OpenedRun,
  outcome,
  retryContended,
  settle,
  type Tenant,
} from "../gateway/fixtures.ts";
import { openPool } from "../pools.ts";

/**
 * A call with 100 input and 100 output tokens reserves 0.0002 USD, and costs the same if the provider reports that
 * usage.
 */
const prices = { input: "1", output: "1" };
const all = { usage: { input_tokens: 100, output_tokens: 100 } };

const tenantWith = (db: Database, monthlyBudgetUsd: string) =>
  createTenant(db, { credits: "100000", prices, key: { monthlyBudgetUsd } });

type Row = { refused_at: Date | null; fresh: boolean | null };
const refusedAt = async (db: Database, { workspaceId }: Tenant, scope = "key"): Promise<Row> =>
  one<Row>(db, {
    sql: "select refused_at, refused_at = now() as fresh from ai.budgets where workspace_id = $1 and scope = $2",
    values: [workspaceId, scope],
  });
const change = (db: Database, { workspaceId }: Tenant, changes: string) =>
  db.query(`update ai.budgets set ${changes} where workspace_id = $1`, [workspaceId]);
const setLimit = (db: Database, { keyId, workspaceId }: Tenant, limit: string) =>
  db.query("select ai.set_budget('key', $1, $2, $3)", [keyId, workspaceId, limit]);
const refusedIn = async (db: Database, call: object) => (await begin(db, call)).refused;

type Alert = {
  workspaceId: string;
  threshold: number;
  refusing: boolean;
  spentUsd: string | null;
  reservedUsd: string | null;
  leftUsd: string | null;
};
/** Runs the sweep for budget alerts, queues emails for one tenant's alerts, and returns these alerts. */
async function warn(db: Database, { workspaceId }: Tenant): Promise<Alert[]> {
  // Waits for any sweep by the stack's own server, because this sweep would find nothing while another one runs.
  await db.query("select pg_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0))");
  const { alerts } = await one<{ alerts: Alert[] }>(db, { sql: "select ai.sweep_budget_alerts(100000) as alerts" });
  const own = alerts.filter((alert) => alert.workspaceId === workspaceId);
  for (const alert of own) await db.query("select ai.queue_budget_alert_mails($1, 'S', 'B')", [JSON.stringify(alert)]);
  return own;
}
const thresholds = async (db: Database, tenant: Tenant) => (await warn(db, tenant)).map(({ threshold }) => threshold);

describe("recording a budget's refusals", () => {
  test("a budget records the time of a refusal only if the budget itself refused the call", async ({ db }) => {
    const tenant = await tenantWith(db, "0.0002");
    const poor = await createTenant(db, { prices, key: { monthlyBudgetUsd: "1" } });
    expect(await refusedIn(db, chatCall(tenant))).toBeUndefined();
    expect(await refusedIn(db, chatCall(poor))).toBe("insufficient_credits");
    for (const each of [tenant, poor]) expect((await refusedAt(db, each)).refused_at).toBeNull();
    expect(await refusedIn(db, chatCall(tenant))).toBe("budget_exceeded");
    expect((await refusedAt(db, tenant)).fresh).toBe(true);
  });

  test("a refusal is recorded in the budget that was exceeded, not in budgets with room", async ({ db }) => {
    const tenant = await tenantWith(db, "1");
    await db.query("select ai.set_budget('workspace', $1, $1, 0.0001)", [tenant.workspaceId]);
    expect(await refusedIn(db, chatCall(tenant))).toBe("budget_exceeded");
    expect((await refusedAt(db, tenant, "workspace")).fresh).toBe(true);
    expect((await refusedAt(db, tenant)).refused_at).toBeNull();
  });

  test("a budget refusal is recorded for calls in a batch and for later steps of a run", async ({ db }) => {
    const tenant = await tenantWith(db, "0.0002");
    const calls = batchOf([chatCall(tenant), chatCall(tenant)]);
    const { answers } = await one<{ answers: OpenedRun[] }>(db, {
      sql: "select ai.begin_runs($1)::json as answers",
      values: [calls],
    });
    expect(answers.map(({ refused }) => refused)).toEqual([undefined, "budget_exceeded"]);
    expect((await refusedAt(db, tenant)).fresh).toBe(true);
    await change(db, tenant, "refused_at = null");
    const step = { created_at: answers[0]?.created_at, id: answers[0]?.run_id, input_bytes: 300, output_limit: 100 };
    const extended = await one(db, { sql: "select ai.extend_run($1) as answer", values: [JSON.stringify(step)] });
    expect(extended).toMatchObject({ answer: { refused: "budget_exceeded", is_step: true } });
    expect((await refusedAt(db, tenant)).fresh).toBe(true);
  });

  test.for([
    ["now() - interval '1 minute'", false],
    ["now() - interval '1 minute 1 microsecond'", true],
  ] as const)(
    "a budget records a refusal at most once a minute (last refusal at %s, recorded again: %s)",
    async ([last, again], { db }) => {
      const tenant = await tenantWith(db, "0.0001");
      await change(db, tenant, `refused_at = ${last}`);
      expect(await refusedIn(db, chatCall(tenant))).toBe("budget_exceeded");
      expect((await refusedAt(db, tenant)).fresh).toBe(again);
    },
  );

  test("only one of twenty concurrent calls records the budget refusal", async () => {
    const [setup, callers] = [openPool(2), openPool(20)];
    try {
      const tenant = await tenantWith(setup.db, "0.0001");
      // Opens the connections first, so that the calls overlap. No connection has updated a budget before its call, so
      // `updated` counts only the updates of that call.
      await Promise.all(Array.from({ length: 20 }, () => callers.db.query("select pg_sleep(0.2)")));
      const sql = `select r.answer, pg_stat_get_xact_tuples_updated('ai.budgets'::regclass)::int as updated
        from (select ai.begin_runs($1)::json -> 0 as answer offset 0) r`;
      const answers = await Promise.all(
        Array.from({ length: 20 }, async () => {
          const [row] = await retryContended(() =>
            callers.db.query<{ answer: OpenedRun; updated: number }>(sql, [batchOf([chatCall(tenant)])]),
          );
          return row;
        }),
      );
      expect(new Set(answers.map((row) => row?.answer.refused))).toEqual(new Set(["budget_exceeded"]));
      expect(answers.reduce((sum, row) => sum + (row?.updated ?? 0), 0)).toBe(1);
    } finally {
      await Promise.all([setup.close(), callers.close()]);
    }
  });

  test("a recorded budget refusal is cleared only when the limit is raised", async ({ db }) => {
    const tenant = await tenantWith(db, "10");
    await change(db, tenant, "refused_at = now()");
    for (const limit of ["10", "9"]) {
      await setLimit(db, tenant, limit);
      expect((await refusedAt(db, tenant)).fresh).toBe(true);
    }
    await setLimit(db, tenant, "9.000000000001");
    expect((await refusedAt(db, tenant)).refused_at).toBeNull();
  });
});

describe("a budget that refuses calls", () => {
  test.for([
    ["spent_usd = 7.999999999999", [50]],
    ["spent_usd = 8", [100]],
    ["spent_usd = 1, reserved_usd = 6.999999999999", []],
    ["spent_usd = 1, reserved_usd = 7", [100]],
    ["spent_usd = 9.999999999999, refused_at = null", [80]],
    ["limit_usd = 0", []],
  ] as const)(
    "after a refused call and the update %s, a 10-dollar budget warns at the percentages %j",
    async ([changes, expected], { db }) => {
      const tenant = await tenantWith(db, "10");
      await change(db, tenant, "refused_at = now()");
      await change(db, tenant, changes);
      expect(await thresholds(db, tenant)).toEqual(expected);
    },
  );

  test.for([
    ["date_trunc('month', now(), 'UTC')", 100],
    ["date_trunc('month', now(), 'UTC') - interval '1 microsecond'", 80],
  ] as const)(
    "a budget ignores refusals of earlier months: after a refusal at %s, it warns at %i percent",
    async ([at, threshold], { db }) => {
      const tenant = await tenantWith(db, "10");
      await change(db, tenant, `spent_usd = 9, refused_at = ${at}`);
      expect(await thresholds(db, tenant)).toEqual([threshold]);
    },
  );

  test("a budget records the first refusal of a month even within a minute of the previous one", async ({ db }) => {
    const tenant = await tenantWith(db, "0.0001");
    const before = "least(now() - interval '30 seconds', date_trunc('month', now(), 'UTC') - interval '1 microsecond')";
    await change(db, tenant, `refused_at = ${before}`);
    expect(await refusedIn(db, chatCall(tenant))).toBe("budget_exceeded");
    expect((await refusedAt(db, tenant)).fresh).toBe(true);
  });

  test("a budget never warns because of last month's reservations, even before this month's first call", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "10");
    await change(db, tenant, "reserved_usd = 9, refused_at = now(), period_start = period_start - interval '1 month'");
    expect(await thresholds(db, tenant)).toEqual([]);
  });

  test("a budget warning after a refused call states the exact amounts, and is not repeated when the budget is fully spent", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "0.001");
    for (let n = 0; n < 3; n += 1) await settle(db, [outcome(await begin(db, chatCall(tenant)), all)]);
    expect(await thresholds(db, tenant)).toEqual([50]);
    const open = await begin(db, chatCall(tenant));
    expect(await refusedIn(db, chatCall(tenant, { output_limit: 101 }))).toBe("budget_exceeded");
    expect(await warn(db, tenant)).toMatchObject([
      { threshold: 100, refusing: true, spentUsd: "0.0006", reservedUsd: "0.0002", leftUsd: "0.0002" },
    ]);
    await settle(db, [outcome(open, all), outcome(await begin(db, chatCall(tenant)), all)]);
    expect(
      await one(db, {
        sql: "select spent_usd = limit_usd as all from ai.budgets where subject_id = $1",
        values: [tenant.keyId],
      }),
    ).toEqual({ all: true });
    expect(await refusedIn(db, chatCall(tenant))).toBe("budget_exceeded");
    expect(await thresholds(db, tenant)).toEqual([]);
  });

  test("a budget does not count as used up after it refuses one absurdly large request", async ({ db }) => {
    const tenant = await tenantWith(db, "0.001");
    expect(await refusedIn(db, chatCall(tenant, { output_limit: 1_000_000 }))).toBe("budget_exceeded");
    expect(await thresholds(db, tenant)).toEqual([]);
  });

  test("after its limit is raised, a budget that refused calls warns again only when it refuses another call", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "0.001");
    await change(db, tenant, "spent_usd = 0.0009");
    await begin(db, chatCall(tenant));
    expect(await thresholds(db, tenant)).toEqual([100]);
    await setLimit(db, tenant, "0.0011");
    expect(await thresholds(db, tenant)).toEqual([]);
    expect(await refusedIn(db, chatCall(tenant))).toBeUndefined();
    expect(await refusedIn(db, chatCall(tenant))).toBe("budget_exceeded");
    expect(await thresholds(db, tenant)).toEqual([100]);
  });

  test("a budget's warning about refused calls omits the amounts if the workspace hides provider cost", async ({
    db,
  }) => {
    const tenant = await tenantWith(db, "10");
    await change(db, tenant, "spent_usd = 9, refused_at = now()");
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const hidden = { spentUsd: null, reservedUsd: null, leftUsd: null };
    expect(await warn(db, tenant)).toMatchObject([{ threshold: 100, refusing: true, ...hidden }]);
  });
});

describe("concurrent refusals of a budget", () => {
  let db: Database;
  let close: () => Promise<void>;
  beforeAll(() => {
    ({ db, close } = openPool(30));
  });
  afterAll(() => close());

  test("fifty concurrent refusals and fifty sweeps send only one email", async () => {
    const tenant = await tenantWith(db, "0.0005");
    await Promise.all([begin(db, chatCall(tenant)), begin(db, chatCall(tenant))]);
    const posted = await Promise.all(
      Array.from({ length: 50 }, async () => {
        expect(await refusedIn(db, chatCall(tenant))).toBe("budget_exceeded");
        const [row] = await db.query<{ alerts: Alert[] }>("select ai.sweep_budget_alerts(100000) as alerts");
        const own = (row?.alerts ?? []).filter(({ workspaceId }) => workspaceId === tenant.workspaceId);
        const mails = own.map(async (alert) => {
          const sql = "select ai.queue_budget_alert_mails($1, 'S', 'B') as mails";
          const [kept] = await db.query<{ mails: number }>(sql, [JSON.stringify(alert)]);
          return kept?.mails ?? 0;
        });
        return (await Promise.all(mails)).reduce((sum, count) => sum + count, 0);
      }),
    );
    const told = "select threshold, posted_at is not null as posted from ai.budget_alerts where workspace_id = $1";
    await expect.poll(() => db.query(told, [tenant.workspaceId])).toEqual([{ threshold: 100, posted: true }]);
    // The sum is zero if the stack's own server ran the sweep.
    expect(posted.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(1);
  });

  test("recording budget refusals locks rows in the same order as single calls, batches and settlements", async () => {
    const tenants = await Promise.all([tenantWith(db, "0.001"), tenantWith(db, "1")]);
    for (const tenant of tenants) {
      await db.query("select ai.set_budget('workspace', $1, $1, 0.0012)", [tenant.workspaceId]);
    }
    const callers = await Promise.all(
      tenants.flatMap((tenant) =>
        ["0.0004", "1", "1"].map(async (monthlyBudgetUsd) => ({
          ...tenant,
          keyHash: (await addKey(db, tenant, { monthlyBudgetUsd })).hash,
        })),
      ),
    );
    const shuffled = () => callers.toSorted(() => Math.random() - 0.5).map((caller) => chatCall(caller));
    const forget = () =>
      db.query("update ai.budgets set refused_at = null where scope = 'workspace' and workspace_id = $1", [
        tenants[Math.random() < 0.5 ? 0 : 1].workspaceId,
      ]);
    const work = async (place: number) => {
      await forget();
      const answers = await admitAll(db, shuffled().slice(0, place % 2 ? undefined : 1));
      const begun = answers.filter(({ refused }) => !refused);
      await settle(
        db,
        begun.map((run) => outcome(run, { usage: { input_tokens: 0, output_tokens: 0 } })),
      );
      return answers.map(({ refused }) => refused);
    };
    const verdicts = (await Promise.all(Array.from({ length: 60 }, (_, place) => work(place)))).flat();
    expect(verdicts.filter((refused) => refused && refused !== "budget_exceeded")).toEqual([]);
    expect(verdicts).toContain("budget_exceeded");
    for (const tenant of tenants) {
      expect(await books(db, tenant)).toMatchObject({ reserved: "0.00000000", open: 0 });
      const sql = "select count(*)::int as held from ai.budgets where workspace_id = $1 and reserved_usd > 0";
      expect(await db.query(sql, [tenant.workspaceId])).toEqual([{ held: 0 }]);
    }
  });
});
