import fc from "fast-check";
import { afterAll, describe, expect, test as pooled } from "vitest";
import { type Database, one, test } from "../database.ts";
import { openPool } from "../pools.ts";
import { lockRollUps, rollUp, setMarkBack } from "../usage/usage-sums.ts";
import { bindKey } from "./call-fixtures.ts";
import { begin, chatCall, createTenant, type OpenedRun, outcome, settle, type Tenant } from "./fixtures.ts";

/** Past times just before, at and 11 hours after the start of a day, month, year or partition, oldest first. */
const edgesSql = `
  select array_agg(to_char(e.edge at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') order by e.edge) as edges
  from (
    select t.moment + o.shift as edge
    from unnest(array[
      date_trunc('year', now(), 'UTC'), date_trunc('month', now(), 'UTC') - interval '62 days',
      date_trunc('month', now() - interval '10 days', 'UTC'), date_trunc('month', now(), 'UTC'),
      date_trunc('day', now(), 'UTC') - interval '24 hours', date_trunc('day', now(), 'UTC')
    ]) as t (moment)
    cross join unnest(array['-1 microsecond', '0', '11 hours']::interval[]) as o (shift)
  ) as e
  where e.edge <= now()`;

type Spec = { edge: number; model: string; feature: string; app: boolean; member?: string; label?: string | null };

/** Inserts an open run that began at the time `at`, with the columns that `ai.begin_runs` would set. */
async function insertRun(
  db: Database,
  { at, tenant, spec, appId }: { at: string; tenant: Tenant; spec: Spec; appId: string },
) {
  return one<OpenedRun>(db, {
    sql: `insert into ai.runs (
            id, created_at, workspace_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature,
            request_id, model_id, actor_id, entity_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits
          )
          select
            ai.run_id($1), $1, $2, case when $5 then $6::uuid end, $3, $3, 'key', 'background', $4, 'test', $7, $8, $9,
            '[{"position": 1, "provider": "demo", "model": "m",
               "prices": [{"min_input_tokens": 0, "input": "0.123457", "output": "0.7"}]}]',
            1.1, $5, a.id, 0, 0
          from ai.credit_accounts a where a.workspace_id = $2
          returning id as run_id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at,
            routes, reserved_usd::text, ai.credits_per_usd(markup)::text as credits_per_usd`,
    values: [
      at,
      tenant.workspaceId,
      tenant.keyId,
      spec.feature,
      spec.app,
      appId,
      spec.model,
      spec.member ?? null,
      spec.label ?? null,
    ],
  });
}

const keys = "day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, actor_id";
const sums = `sum(requests)::numeric, sum(failed)::numeric, sum(input_tokens), sum(output_tokens), sum(cost_usd),
  sum(billed_credits), sum(unmetered_credits), sum(latency_ms), sum(timed)`;

/**
 * The columns for sums by label, in the order of `keys`. The label is in the position of `model_id`, and all other
 * columns except the day are null.
 */
const labelKeys = "day, null, null, null, label, null, null, null::uuid";

/** Returns the groups in which daily sums and runs differ. There must be none. */
async function differences(db: Database, { workspaceId }: Tenant, cuts: readonly string[]): Promise<unknown[]> {
  return db.query(
    `with cuts as (select c.value::timestamptz as cut, c.ordinality as n from jsonb_array_elements_text($2) with ordinality c),
     reported as (
       select ${keys}, ${sums}
       from cuts a join cuts b on b.n = a.n + 1 and b.cut > a.cut
       cross join lateral ai.usage_between($1, a.cut, b.cut, true) u
       group by ${keys}
       union all
       select ${labelKeys}, ${sums}
       from cuts a join cuts b on b.n = a.n + 1 and b.cut > a.cut
       cross join lateral ai.label_usage_between($1, a.cut, b.cut) u
       group by day, label
       union all
       select null, null, null, null, null, null, null, null, ${sums}
       from cuts a join cuts b on b.n = a.n + 1 and b.cut > a.cut
       cross join lateral ai.usage_between($1, a.cut, b.cut) u
     ), counted as (
       select ${keys}, ${sums}
       from ai.sum_usage($1, (select min(cut) from cuts), (select max(cut) from cuts)) u
       group by ${keys}
       union all
       select ${labelKeys}, ${sums}
       from ai.sum_labels($1, (select min(cut) from cuts), (select max(cut) from cuts)) u
       group by day, label
       union all
       select null, null, null, null, null, null, null, null, ${sums}
       from ai.sum_usage($1, (select min(cut) from cuts), (select max(cut) from cuts)) u
     )
     (select 'reported', * from (select * from reported except all select * from counted) x)
     union all
     (select 'counted', * from (select * from counted except all select * from reported) x)`,
    [workspaceId, JSON.stringify(cuts)],
  );
}

/** Compares the usage of a time range with the ledger, and the report's totals with the runs of apps. */
async function books(db: Database, { keyHash, workspaceId }: Tenant, [from, to]: readonly [string, string]) {
  const call = { credential: { source: "key", hash: keyHash }, workspace: workspaceId, from, to };
  return one(db, {
    sql: `with report as (select ai.report_usage($1)::jsonb as r),
          app_rows as (select x.value as v from report, jsonb_array_elements(r -> 'rows') x),
          runs as (select * from ai.runs where workspace_id = $2 and created_at >= $3 and created_at < $4)
          select
            (select coalesce(sum(billed_credits), 0) from ai.usage_between($2, $3, $4))
              = (select coalesce(-sum(l.amount), 0) from ai.credit_ledger l where l.run_id in (select id from runs))
              as ledger,
            (select coalesce(sum((v ->> 'amountUsd')::numeric), 0) from app_rows)
              = (select coalesce(sum(cost_usd), 0) from runs where app_id is not null) as cost,
            (select coalesce(sum((v ->> 'unmeteredCredits')::numeric), 0) from app_rows)
              = (select coalesce(sum(unmetered_credits), 0) from runs where app_id is not null) as unmetered,
            (select coalesce(sum((v ->> 'requests')::bigint), 0) from app_rows)
              = (select count(*) from runs where app_id is not null) as requests,
            (select count(*) = count(distinct (v ->> 'day', v ->> 'model', v ->> 'feature', v ->> 'executionMode'))
             from app_rows) as distinct_keys,
            (select (r ->> 'previous' is not null) = exists (
               select from ai.runs where workspace_id = $2 and app_id is not null and created_at < $3
             ) from report) as previous`,
    values: [JSON.stringify(call), workspaceId, from, to],
  });
}
const agree = { ledger: true, cost: true, unmetered: true, requests: true, distinct_keys: true, previous: true };

const spec = fc.record({
  edge: fc.nat(),
  model: fc.constantFrom("m-1", "m-2"),
  feature: fc.constantFrom("chat", "Summaries"),
  app: fc.boolean(),
  member: fc.constantFrom("00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"),
  label: fc.constantFrom(null, "customer-1", "customer-2"),
});
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("begin" as const), spec }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      run: fc.nat(),
      failed: fc.boolean(),
      tokens: fc.nat({ max: 100_000 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("seal" as const), daysAgo: fc.nat({ max: 25 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("upgrade" as const), daysAgo: fc.nat({ max: 25 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("rollUp" as const), days: fc.integer({ min: 1, max: 80 }) }) },
);

describe("the usage report", () => {
  test("the usage report equals the ledger and the sum of runs, for random histories and adjacent time windows, even while runs settle", {
    // Waits for the roll-ups of other tests.
    timeout: 90_000,
  }, async ({ db }) => {
    const { edges } = await one<{ edges: string[] }>(db, { sql: edgesSql });
    const history = fc.array(step, { minLength: 4, maxLength: 24 });
    const windows = fc.array(fc.nat(), { minLength: 2, maxLength: 6 });
    const edgeOf = (n: number) => edges[n % edges.length] ?? "";
    await fc.assert(
      fc.asyncProperty(history, windows, async (steps, cuts) => {
        await db.query("savepoint history");
        const tenant = await createTenant(db, { credits: "1000000" });
        const { id: appId } = await bindKey(db, tenant);
        const runs: OpenedRun[] = [];
        for (const each of steps) {
          if (each.do === "begin") {
            runs.push(await insertRun(db, { at: edgeOf(each.spec.edge), tenant, spec: each.spec, appId }));
          } else if (each.do === "settle") {
            const run = runs[each.run % Math.max(runs.length, 1)];
            const status = each.failed ? "failed" : "succeeded";
            const usage = { input_tokens: each.tokens, output_tokens: 7 };
            if (run) await settle(db, [outcome(run, { status, usage })]);
          } else if (each.do === "seal") {
            // Simulates that today and the `daysAgo` days before it are not summed yet.
            await setMarkBack(db, each.daysAgo);
          } else if (each.do === "upgrade") {
            // Simulates that the older daily sums come from a version that did not store members and labels.
            await lockRollUps(db);
            await db.query(
              `with since as (update ai.usage_progress
                 set detailed_from = (summed_until at time zone 'UTC')::date - $1::int returning detailed_from
               ), members as (
                 update ai.usage_daily u set actor_id = null
                 from since where u.workspace_id = $2 and u.day < since.detailed_from
               )
               delete from ai.usage_labels_daily u using since
               where u.workspace_id = $2 and u.day < since.detailed_from`,
              [each.daysAgo, tenant.workspaceId],
            );
          } else await rollUp(db, each.days);
        }
        const inOrder = [edges[0] ?? "", ...cuts.map(edgeOf), "2999-01-01T00:00:00Z"].sort();
        expect(await differences(db, tenant, inOrder)).toEqual([]);
        const [from, to] = cuts.slice(0, 2).map(edgeOf).sort() as [string, string];
        if (from !== to) expect(await books(db, tenant, [from, to])).toEqual(agree);
        await db.query("rollback to savepoint history; release savepoint history");
      }),
      { numRuns: 15 },
    );
  });

  test("the usage report reads the sums of summed days, which are built again after the mark was set back", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { id: appId } = await bindKey(db, tenant);
    const { at, day } = await one<{ at: string; day: string }>(db, {
      sql: `select to_char(moment, 'YYYY-MM-DD"T"12:00:00"Z"') as at, to_char(moment, 'YYYY-MM-DD') as day
            from (select now() at time zone 'UTC' - interval '40 days' as moment) m`,
    });
    const run = await insertRun(db, { at, tenant, spec: { edge: 0, model: "m", feature: "chat", app: true }, appId });
    const requests = async () =>
      (
        await one<{ sum: string | null }>(db, {
          sql: "select sum(requests)::text from ai.usage_between($1, $2::date, $2::date + 1)",
          values: [tenant.workspaceId, day],
        })
      ).sum;
    expect(await requests()).toBe("1");
    await rollUp(db);
    // Corrupts the stored sum. A report that reads the sum then shows 1,000 requests.
    const falsify = () =>
      db.query("update ai.usage_daily set requests = 1000 where workspace_id = $1", [tenant.workspaceId]);
    await falsify();
    expect(await requests()).toBe("1000");
    await settle(db, [outcome(run)]);
    await rollUp(db);
    expect(await requests()).toBe("1000");
    await setMarkBack(db, 41);
    expect(await requests()).toBe("1");
    await rollUp(db);
    expect(await requests()).toBe("1");
    expect(await differences(db, tenant, [`${day}T00:00:00Z`, "2999-01-01T00:00:00Z"])).toEqual([]);
  });

  test("reports leave out groups whose last run has changed its provider, member or label", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await db.query(
      `insert into ai.runs (
         id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, markup,
         reserved_usd, reserved_credits, actor_id, entity_id
       )
       select
         ai.run_id(m.at), m.at, $1, 'session', 'interactive', 'chat', 'test', 'm',
         '[{"position": 1, "provider": "demo"}, {"position": 2, "provider": "other"}]', 1, 0, 0, gen_random_uuid(), 'a'
       from (select now() - interval '3 minutes' as at) m`,
      [tenant.workspaceId],
    );
    await rollUp(db);
    await db.query(
      "update ai.runs set route = 2, actor_id = null, entity_id = 'b', cost_usd = 1 where workspace_id = $1",
      [tenant.workspaceId],
    );
    const counts = () =>
      one(db, {
        sql: `with day as (select now() - interval '24 hours' as first, now() as last),
              usage as (
                select g as by, jsonb_path_query(ai.read_usage($1, $2, d.first, d.last, array[g]), '$.rows[*].requests') as n
                from day d, unnest(array['provider', 'member', 'label']) g
              ), overview as (
                select g as by, jsonb_path_query(
                  ai.read_overview($1, $2, d.first, d.last, d.first - interval '24 hours', d.first, g), '$.rows[*].now.requests'
                ) as n
                from day d, unnest(array['member', 'label']) g
              ), costs as (
                select 'cost' as by, to_jsonb(c.runs) as n from day d, ai.reconciled_costs($2, d.first, d.last) c
              )
              select
                (select jsonb_agg(jsonb_build_array(u.by, u.n) order by u.by, u.n) from usage u) as usage,
                (select jsonb_agg(jsonb_build_array(o.by, o.n) order by o.by, o.n) from overview o) as overview,
                (select jsonb_agg(c.n order by c.n) from costs c) as costs`,
        values: [tenant.ownerId, tenant.workspaceId],
      });
    const overview = [
      ["label", 1],
      ["member", 1],
    ];
    const expected = { usage: [...overview, ["provider", 1]], overview, costs: [1] };
    expect(await counts()).toEqual(expected);
    await rollUp(db);
    expect(await counts()).toEqual(expected);
  });

  test("each roll-up fills in missing daily sums by member and label for a few older days", async ({ db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { id: appId } = await bindKey(db, tenant);
    const member = "00000000-0000-4000-8000-00000000000a";
    const spec = { edge: 0, model: "m", feature: "chat", app: false, member, label: "customer-1" };
    for (const daysAgo of [2, 9]) {
      const { at } = await one<{ at: string }>(db, {
        sql: `select to_char(now() at time zone 'UTC' - $1 * interval '1 day', 'YYYY-MM-DD"T"12:00:00"Z"') as at`,
        values: [daysAgo],
      });
      await insertRun(db, { at, tenant, spec, appId });
    }
    const summed = () =>
      one(db, {
        sql: `select
                (select count(*)::integer from ai.usage_daily where workspace_id = $1 and actor_id = $2) as members,
                (select count(*)::integer from ai.usage_labels_daily where workspace_id = $1 and label = 'customer-1') as labels,
                (select count(distinct u.*)::integer from ai.usage_daily u where workspace_id = $1) as rows`,
        values: [tenant.workspaceId, member],
      });
    const everSince = ["2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"];
    await rollUp(db);
    expect(await summed()).toEqual({ members: 2, labels: 2, rows: 2 });
    await db.query("update ai.usage_daily set actor_id = null");
    await db.query("delete from ai.usage_labels_daily");
    await db.query("update ai.usage_progress set detailed_from = (summed_until at time zone 'UTC')::date");
    expect(await differences(db, tenant, everSince)).toEqual([]);
    expect(await rollUp(db, 5)).toBe(5);
    expect(await summed()).toEqual({ members: 1, labels: 1, rows: 2 });
    expect(await differences(db, tenant, everSince)).toEqual([]);
    await rollUp(db);
    expect(await summed()).toEqual({ members: 2, labels: 2, rows: 2 });
    expect(await differences(db, tenant, everSince)).toEqual([]);
    expect(await rollUp(db, 5)).toBe(0);
    expect(await one(db, { sql: "select detailed_from::text from ai.usage_progress" })).toEqual({
      detailed_from: "-infinity",
    });
  });

  test("the usage report includes the bounds of the previous time window only if older usage exists", async ({
    db,
  }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    const { id: appId } = await bindKey(db, tenant);
    const spec = { edge: 0, model: "m", feature: "chat", app: true };
    for (const at of ["2021-12-31T23:59:59.999999Z", "2026-01-01T00:00:00Z"]) {
      await insertRun(db, { at, tenant, spec, appId });
    }
    const read = async (window: object) => {
      const call = {
        credential: { source: "key", hash: tenant.keyHash },
        workspace: tenant.workspaceId,
        ...window,
      };
      const { report } = await one<{ report: { previous: object | null; rows: { day: string }[] } }>(db, {
        sql: "select ai.report_usage($1) as report",
        values: [JSON.stringify(call)],
      });
      return report;
    };
    const days: string[] = [];
    let window: object | null = { from: "2026-01-01T00:00:00Z", to: "2027-01-01T00:00:00Z" };
    let pages = 0;
    while (window) {
      const report = await read(window);
      days.push(...report.rows.map(({ day }) => day));
      window = report.previous;
      pages += 1;
    }
    expect(days).toEqual(["2026-01-01", "2021-12-31"]);
    expect(pages).toBe(6);
  });
});

const pool = openPool(8);
afterAll(pool.close);

pooled("every report is the sum of the runs it sees, while runs settle and days are summed", async () => {
  const { db } = pool;
  const tenant = await createTenant(db, { credits: "100000" });
  const calls = Array.from({ length: 60 }, () => begin(db, chatCall(tenant)));
  const begun = await Promise.all(calls);
  // Moves half of the runs to past days. Returns the new `created_at`, because it is part of the key by which runs are
  // settled.
  const moved = await Promise.all(
    begun.slice(0, 30).map(async (run, n) => ({
      ...run,
      ...(await one<OpenedRun>(db, {
        sql: `update ai.runs set created_at = created_at - $2 * interval '1 day' where id = $1
              returning id as run_id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as created_at`,
        values: [run.run_id, 1 + (n % 5)],
      })),
    })),
  );
  const open = [...moved, ...begun.slice(30)];
  const isTrue = () =>
    one(db, {
      sql: `select
              (select (sum(requests), sum(cost_usd), sum(billed_credits)) from ai.usage_between($1, now() - interval '9 days', now() + interval '1 day'))
              = (select (count(*)::numeric, sum(cost_usd), sum(billed_credits)) from ai.runs where workspace_id = $1) as agree`,
      values: [tenant.workspaceId],
    });
  const settling = Promise.all(open.map((run) => settle(db, [outcome(run)])));
  const summing = Promise.all(Array.from({ length: 8 }, () => db.query("select ai.roll_up_usage()")));
  const reports = await Promise.all(Array.from({ length: 40 }, isTrue));
  await Promise.all([settling, summing]);
  expect(reports).toEqual(reports.map(() => ({ agree: true })));
  await db.query("select ai.roll_up_usage(1000)");
  expect(await isTrue()).toEqual({ agree: true });
});
