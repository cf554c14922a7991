import { expect } from "vitest";
import { createTenant } from "./ai-fixtures.ts";
import { one, test } from "./database.ts";

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
    expect(await read()).toEqual(expected);
    await db.query("select ai.roll_up_usage(1000000)");
    expect(await read()).toEqual(expected);
  },
);
