import { expect } from "vitest";
import { one, test } from "../database.ts";
import { createTenant } from "../gateway/fixtures.ts";
import { rollUp, setMarkBack } from "./usage-sums.ts";

test.for([
  [10_000, 10_000, 0],
  [10_001, 10_000, 1],
] as const)(
  "if %i labels are used in a day, usage is stored separately for %i of them and summed up for the other %i",
  async ([labels, kept, left], { db }) => {
    const tenant = await createTenant(db, { credits: "1000" });
    await db.query(
      `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, entity_id, routes,
       route, markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, settled_at
     )
     select
       ai.run_id(m.moment), m.moment, $1, 'key', 'background', 'chat', 'test', 'm', nullif('customer-' || n, 'customer-0'),
       '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1, 'succeeded', 'provider', n * 0.01, 0, 0,
       m.moment
     from generate_series(0, $2::integer) n
     cross join (select date_trunc('day', now(), 'UTC') - interval '12 hours' as moment) m`,
      [tenant.workspaceId, labels],
    );
    const read = () =>
      one(db, {
        sql: `select
              count(*) filter (where label like 'customer-%')::integer as kept,
              coalesce(sum(requests) filter (where label = '*'), 0)::integer as left,
              coalesce(sum(requests) filter (where label = ''), 0)::integer as unlabelled,
              bool_or(label = 'customer-1') as cheapest,
              sum(cost_usd) = (select sum(cost_usd) from ai.runs where workspace_id = $1) as whole
            from ai.label_usage_between($1, now() - interval '3 days', now())`,
        values: [tenant.workspaceId],
      });
    const expected = { kept, left, unlabelled: 1, cheapest: left === 0, whole: true };
    // From the changes that inserting old runs records.
    await rollUp(db);
    expect(await read()).toEqual(expected);
    // From the runs.
    await setMarkBack(db, 2);
    expect(await read()).toEqual(expected);
    await rollUp(db);
    expect(await read()).toEqual(expected);
  },
);

test("the first 10,000 labels of a day have rows, until its end gives them to the most expensive", async ({ db }) => {
  const tenant = await createTenant(db, { credits: "1000" });
  const insert = (hour: number, from: number, to: number, cost: number) =>
    db.query(
      `insert into ai.runs (
         id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, entity_id, routes,
         route, markup, status, usage_source, cost_usd, reserved_usd, reserved_credits, settled_at
       )
       select
         ai.run_id(m.moment), m.moment, $1, 'key', 'background', 'chat', 'test', 'm', 'customer-' || n,
         '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1, 'succeeded', 'provider', $5::numeric, 0, 0,
         m.moment
       from generate_series($3::integer, $4::integer) n
       cross join (select date_trunc('day', now(), 'UTC') - interval '24 hours' + $2 * interval '1 hour' as moment) m`,
      [tenant.workspaceId, hour, from, to, cost],
    );
  const stored = () =>
    one(db, {
      sql: `select
              count(*) filter (where label like 'customer-%')::integer as labels,
              bool_or(label = 'customer-1') as first, bool_or(label = 'customer-20000') as last,
              sum(requests)::integer as requests, trim_scale(sum(cost_usd))::text as cost
            from ai.label_usage_between($1, date_trunc('day', now(), 'UTC') - interval '24 hours', date_trunc('day', now(), 'UTC'))`,
      values: [tenant.workspaceId],
    });
  await insert(1, 1, 9_999, 0.01);
  await rollUp(db);
  await insert(2, 19_998, 20_000, 0.5);
  // A run of a label that has a row, and one of a label that is part of *.
  await insert(3, 1, 1, 0.03);
  await rollUp(db);
  const sums = { requests: 10_003, cost: "101.52" };
  expect(await stored()).toEqual({ labels: 10_000, first: true, last: false, ...sums });
  await db.query("update ai.runs set cost_usd = 0.7 where workspace_id = $1 and entity_id = 'customer-20000'", [
    tenant.workspaceId,
  ]);
  const changed = { ...sums, cost: "101.72" };
  expect(await stored()).toEqual({ labels: 10_000, first: true, last: false, ...changed });
  await rollUp(db);
  expect(await stored()).toEqual({ labels: 10_000, first: true, last: false, ...changed });
  await db.query("select ai.seal_usage_day((now() at time zone 'UTC')::date - 1)");
  expect(await stored()).toEqual({ labels: 10_000, first: true, last: true, ...changed });
});
