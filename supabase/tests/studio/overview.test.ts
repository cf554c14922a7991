import fc from "fast-check";
import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";
import { createTenant, type Tenant } from "../gateway/fixtures.ts";
import { rollUp } from "../usage/usage-sums.ts";

interface Sums {
  requests: number;
  failed: number;
  amountUsd: string | null;
  billedCredits: string;
  latencyP50Ms: number | null;
  latencyP95Ms: number | null;
  firstTokenP50Ms: number | null;
}
interface Overview {
  outcome: string;
  everUsed: boolean;
  totals: Sums & { otherDeductions: string; usedCredits: string };
  previous: Sums & { usedCredits: string };
  rows: { key: string; name: string | null; now: Sums | null; before: Sums | null }[];
  leftOut: number;
  series: { day: number; model: string | null; requests: number; failed: number; tokens: number }[] | null;
  deductions: Record<string, string>;
}

interface RunOptions {
  daysAgo: number;
  model?: string;
  feature?: string;
  memberId?: string;
  label?: string;
  latencyMs?: number | null;
  streamed?: boolean;
  failed?: boolean;
  billed?: string;
}

/** Inserts a settled run at noon UTC of a day before today, with its ledger entry. */
async function insertRun(db: Database, { workspaceId, keyId }: Tenant, options: RunOptions): Promise<void> {
  const { daysAgo, model = "m", feature = "chat", latencyMs = 100, streamed = false, failed = false } = options;
  await db.query(
    `with made as (
       insert into ai.runs (
         id, created_at, workspace_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
         model_id, routes, route, markup, status, usage_source, input_tokens, output_tokens, cost_usd, billed_credits,
         account_id, reserved_usd, reserved_credits, streamed, first_byte_ms, latency_ms, actor_id, entity_id, settled_at
       )
       select
         ai.run_id(moment), moment, $1, $2, $2, 'key', 'background', $5, 'test', $4,
         '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1, $7, 'provider', 3, 4, 0.000000000001,
         $6, a.id, 0, 0, $8, $9 / 2, $9, $10, $11, moment
       from (select date_trunc('day', now(), 'UTC') - ($3::integer - 0.5) * interval '24 hours' as moment) m
       cross join ai.credit_accounts a
       where a.workspace_id = $1
       returning id, created_at, account_id, billed_credits
     )
     insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id, created_at)
     select account_id, 'usage', -billed_credits, 0, created_at, id, created_at from made where billed_credits > 0`,
    [
      workspaceId,
      keyId,
      daysAgo,
      model,
      feature,
      options.billed ?? "0.5",
      failed ? "failed" : "succeeded",
      streamed,
      latencyMs,
      options.memberId ?? null,
      options.label ?? null,
    ],
  );
}

async function deduct(db: Database, { workspaceId }: Tenant, options: { daysAgo: number; amount: string }) {
  await db.query(
    `insert into ai.credit_ledger (account_id, kind, amount, balance_after, created_at)
     select id, 'refund', -$2::numeric, 0, date_trunc('day', now(), 'UTC') - $3::integer * interval '24 hours'
     from ai.credit_accounts where workspace_id = $1`,
    [workspaceId, options.amount, options.daysAgo],
  );
}

/** Reads the overview of the ten days before today, compared with the ten days before those. */
async function read(
  db: Database,
  { workspaceId, ownerId }: Tenant,
  { by = "day", daysEach = 1, maxRows = 500, memberId = ownerId } = {},
): Promise<Overview> {
  const { answer } = await db.asRole("service_role", () =>
    one<{ answer: Overview }>(db, {
      sql: `select ai.read_overview(
              $1, $2, today - interval '240 hours', today, today - interval '480 hours', today - interval '240 hours', $3, $4, $5
            ) as answer
            from (select date_trunc('day', now(), 'UTC') as today) t`,
      values: [memberId, workspaceId, by, daysEach, maxRows],
    }),
  );
  return answer;
}

describe("the usage overview", () => {
  test("the overview by day counts each billed run and each deduction without a run exactly once", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await insertRun(db, tenant, { daysAgo: 1, billed: "1.00000001" });
    await insertRun(db, tenant, { daysAgo: 10, billed: "2", failed: true });
    await insertRun(db, tenant, { daysAgo: 11, billed: "40" });
    await insertRun(db, tenant, { daysAgo: 21, billed: "800" });
    await deduct(db, tenant, { daysAgo: 10, amount: "0.25" });
    await deduct(db, tenant, { daysAgo: 11, amount: "7" });
    for (const daysEach of [1, 7]) {
      const { totals, previous, rows, deductions } = await read(db, tenant, { daysEach });
      expect(totals).toMatchObject({
        requests: 2,
        failed: 1,
        billedCredits: "3.00000001",
        otherDeductions: "0.25",
        usedCredits: "3.25000001",
        amountUsd: "0.000000000002",
      });
      expect(previous).toMatchObject({ requests: 1, billedCredits: "40", usedCredits: "47" });
      expect(deductions).toEqual({ "0": "0.25" });
      const newest = daysEach === 1 ? "9" : "7";
      expect(rows.map(({ key, now, before }) => [key, now?.requests, before?.requests])).toEqual([
        [newest, 1, 1],
        ["0", 1, undefined],
      ]);
    }
  });

  test.for(["model", "feature", "key", "app", "member", "label"])(
    "the overview by %s lists everything in the range, largest first",
    async (by, { db }) => {
      const tenant = await createTenant(db, { credits: "1000" });
      const memberId = tenant.ownerId;
      await insertRun(db, tenant, { daysAgo: 2, model: "small", feature: "a", memberId });
      const former = "00000000-0000-4000-8000-00000000000a";
      const large = { daysAgo: 3, model: "large", feature: "b", memberId: former, label: "customer-1" };
      for (const _ of [1, 2]) await insertRun(db, tenant, large);
      await insertRun(db, tenant, { daysAgo: 12, model: "gone", feature: "c" });
      await rollUp(db);
      const { rows, leftOut, totals } = await read(db, tenant, { by });
      expect(totals).toMatchObject({ requests: 3, latencyP50Ms: expect.any(Number) });
      const of = rows.map(({ key, now, before }) => [key, now?.requests ?? 0, before?.requests ?? 0]);
      const expected = {
        model: [
          ["large", 2, 0],
          ["small", 1, 0],
          ["gone", 0, 1],
        ],
        feature: [
          ["b", 2, 0],
          ["a", 1, 0],
          ["c", 0, 1],
        ],
        key: [[tenant.keyId, 3, 1]],
        app: [["", 3, 1]],
        member: [
          [former, 2, 0],
          [memberId, 1, 0],
          ["", 0, 1],
        ],
        label: [
          ["customer-1", 2, 0],
          ["", 1, 1],
        ],
      }[by];
      expect([of, leftOut]).toEqual([expected, 0]);
      if (by === "member") {
        const { display_name } = await one<{ display_name: string }>(db, {
          sql: "select display_name from public.profiles where id = $1",
          values: [memberId],
        });
        expect(rows.map(({ name }) => name)).toEqual(["Former member", display_name, null]);
      }
      if (by === "model") {
        const first = await read(db, tenant, { by, maxRows: 1 });
        expect([first.rows.map(({ key }) => key), first.leftOut, first.totals.requests]).toEqual([["large"], 2, 3]);
      }
    },
  );

  test("the overview by model shows daily usage for the six most expensive models, and combines the others", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    for (const [place, calls] of [8, 7, 6, 5, 4, 3, 2, 1].entries()) {
      for (let call = 0; call < calls; call += 1) await insertRun(db, tenant, { daysAgo: 9, model: `m${place}` });
    }
    await insertRun(db, tenant, { daysAgo: 2, model: "m7", failed: true });
    await rollUp(db);
    const { series } = await read(db, tenant, { by: "model" });
    expect(series?.map(({ day, model, requests, failed, tokens }) => [day, model, requests, failed, tokens])).toEqual([
      [1, "m0", 8, 0, 56],
      [1, "m1", 7, 0, 49],
      [1, "m2", 6, 0, 42],
      [1, "m3", 5, 0, 35],
      [1, "m4", 4, 0, 28],
      [1, "m5", 3, 0, 21],
      [1, null, 3, 0, 21],
      [8, null, 1, 1, 7],
    ]);
    expect((await read(db, tenant)).series).toBeNull();
  });

  test("the overview shows only credits if the workspace hides provider cost", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await insertRun(db, tenant, { daysAgo: 2 });
    await db.query("insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, false)", [
      tenant.workspaceId,
    ]);
    const { totals, previous, rows } = await read(db, tenant);
    expect([totals.amountUsd, previous.amountUsd, rows[0]?.now?.amountUsd]).toEqual([null, null, null]);
    expect(totals.usedCredits).toBe("0.5");
  });

  test("the overview requires use_ai_studio, and reports whether the workspace ever had a run", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const stranger = await createUser(db);
    expect(await read(db, tenant, { memberId: stranger.id })).toEqual({ outcome: "not_allowed" });
    expect(await read(db, tenant)).toMatchObject({
      everUsed: false,
      rows: [],
      totals: { requests: 0, amountUsd: "0" },
    });
    await insertRun(db, tenant, { daysAgo: 300 });
    expect(await read(db, tenant)).toMatchObject({ everUsed: true, rows: [] });
  });
});

describe("latency statistics", () => {
  test("latency is counted in four buckets per power of two", async ({ db }) => {
    const { buckets } = await one<{ buckets: number[] }>(db, {
      sql: `select array_agg(ai.latency_bucket(ms) order by n) as buckets
            from unnest('{0,1,2,4,1023,1024,600000,2147483647,null}'::integer[]) with ordinality as t (ms, n)`,
    });
    expect(buckets).toEqual([0, 1, 5, 9, 40, 41, 77, 80, null]);
  });

  test.for([
    [[1_000], 1_000, 1_000],
    [[500, 500], 500, 500],
    [[0, 0, 0], 0, 0],
    [[1], 1, 1],
    [[100, 1_000], 108, 993],
    [Array.from({ length: 100 }, () => 1_234), 1_234, 1_234],
    [[2_000_000], 2_000_000, 2_000_000],
  ] as const)(
    "the quantiles of requests that took %j ms are %i and %i ms, never more than the longest",
    async ([latencies, p50, p95], { db }) => {
      const sql = `select q.p50, q.p95 from
      (select sum(ai.latency_mark(ms)) as marks, sum(ms) as total from unnest($1::integer[]) ms) h,
      ai.latency_quantiles(h.marks, h.total) q`;
      expect(await one(db, { sql, values: [latencies] })).toEqual({ p50, p95 });
    },
  );

  test("latency quantiles are within one bucket of the exact quantiles, whether days are read from daily sums or from runs", async ({
    db,
  }) => {
    const run = fc.record({
      daysAgo: fc.integer({ min: 0, max: 12 }),
      latencyMs: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 600_000 })),
      streamed: fc.boolean(),
    });
    const history = fc.tuple(
      fc.array(run, { minLength: 1, maxLength: 25 }),
      fc.boolean(),
      fc.array(run, { maxLength: 5 }),
    );
    const within = (told: number | null, exact: number | null) =>
      exact === null ? told === null : told !== null && told >= exact / 1.2 - 1 && told <= exact * 1.2 + 1;
    await fc.assert(
      fc.asyncProperty(history, async ([runs, summed, late]) => {
        await db.query("savepoint history");
        const tenant = await createTenant(db, { credits: "1000" });
        for (const each of runs) await insertRun(db, tenant, each);
        if (summed) await rollUp(db);
        for (const each of late) await insertRun(db, tenant, each);
        const exact = await one<Record<"p50" | "p95" | "first" | "longest" | "longestFirst", number | null>>(db, {
          sql: `select
                  percentile_disc(0.5) within group (order by latency_ms) as p50,
                  percentile_disc(0.95) within group (order by latency_ms) as p95,
                  max(latency_ms) as longest,
                  max(first_byte_ms) filter (where streamed) as "longestFirst",
                  percentile_disc(0.5) within group (order by case when streamed then first_byte_ms end) as first
                from ai.runs
                where workspace_id = $1 and created_at >= date_trunc('day', now(), 'UTC') - interval '240 hours'
                  and created_at < date_trunc('day', now(), 'UTC')`,
          values: [tenant.workspaceId],
        });
        const { totals } = await read(db, tenant);
        for (const [quantile, longest] of [
          [totals.latencyP50Ms, exact.longest],
          [totals.latencyP95Ms, exact.longest],
          [totals.firstTokenP50Ms, exact.longestFirst],
        ]) {
          expect(quantile ?? 0).toBeLessThanOrEqual(longest ?? 0);
        }
        expect([totals.latencyP50Ms, exact.p50]).toSatisfy(([told, is]) => within(told, is));
        expect([totals.latencyP95Ms, exact.p95]).toSatisfy(([told, is]) => within(told, is));
        expect([totals.firstTokenP50Ms, exact.first]).toSatisfy(([told, is]) => within(told, is));
        await db.query("rollback to savepoint history; release savepoint history");
      }),
      { numRuns: 12 },
    );
  });
});
