import type pg from "pg";
import type { LoadTenant } from "./load-tenant.ts";

/**
 * Inserts settled runs at random times within the last `days` days, with their ledger entries. About 70% of the runs
 * are made by the app and aren't billed. About half have the owner as their actor, and each other actor uses only one
 * model and one feature. Almost a third have one of 2,000 labels.
 * @param options.days may be a fraction, for a part of today
 * @param options.label a label for each run instead
 * @param options.price multiplies the prices of the runs; defaults to 1
 */
export async function insertRuns(
  client: pg.Client,
  { workspaceId, appId, keyId, ownerId }: LoadTenant,
  { runs, days, price = 1, label = "some" }: { runs: number; days: number; price?: number; label?: "some" | "each" },
): Promise<void> {
  await client.query(insertSql, [workspaceId, appId, keyId, runs, days, ownerId, price, label]);
}

const insertSql = `
  with drawn as (
    select
      now() - random() * $5::float8 * interval '24 hours' as created_at,
      random() < 0.7 as of_app,
      (array['demo-chat', 'demo-reasoning', 'demo-long', 'demo-embedding'])[1 + floor(random() * 4)::integer] as model,
      (array['chat', 'responses', 'embeddings', 'Summaries', 'Search'])[1 + floor(random() * 5)::integer] as feature,
      random() < 0.03 as failed,
      floor(50 + 3000 * random() * random())::bigint as input,
      floor(20 + 1200 * random() * random())::bigint as output,
      floor(200 + 4000 * random() * random())::integer as latency,
      random() < 0.4 as streamed,
      case
        when $8 = 'each' then gen_random_uuid()::text
        when random() < 0.3 then 'customer-' || floor(2000 * random() * random())
      end as label
    from generate_series(1, $4::integer)
  ), priced as (
    select d.*, p.markup, a.id as account_id, a.balance,
      (d.input * 0.00000015 + d.output * 0.0000006) * $7::numeric as cost,
      ai.usd_to_credits((d.input * 0.00000015 + d.output * 0.0000006) * $7::numeric, p.markup) as credits
    from drawn d
    cross join public.workspaces w
    join ai.plans p on p.id = w.plan_id
    join ai.credit_accounts a on a.workspace_id = w.id
    where w.id = $1
  ), made as (
    insert into ai.runs (
      id, created_at, workspace_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      actor_id, entity_id, model_id, routes, route, markup, status, http_status, usage_source, input_tokens, output_tokens, cost_usd,
      billed_credits, unmetered_credits, exempt, account_id, reserved_usd, reserved_credits,
      streamed, first_byte_ms, latency_ms, settled_at
    )
    select
      ai.run_id(created_at), created_at, $1, case when of_app then $2::uuid end, $3, $3, 'key', 'background', feature,
      gen_random_uuid()::text,
      case when model in ('demo-chat', 'demo-reasoning') then $6::uuid else overlay(overlay(md5(model || feature) placing '4' from 13) placing '8' from 17)::uuid end, label, model,
      format(
        '[{"position": 1, "provider": "demo", "model": "demo", "prices": [{"min_input_tokens": 0, "input": "%s", "output": "%s"}]}]',
        0.15 * $7::numeric, 0.6 * $7::numeric
      )::jsonb,
      1, markup, case when failed then 'failed' else 'succeeded' end, case when failed then 502 else 200 end, 'provider',
      input, output, cost, case when of_app then 0 else credits end, case when of_app then credits else 0 end, of_app,
      account_id, 0, 0, streamed, latency / 4, latency, created_at + latency * interval '1 millisecond'
    from priced
    order by created_at
    returning id, created_at, account_id, billed_credits
  ), paid as (
    update ai.credit_accounts a set balance = a.balance - due.credits
    from (select account_id, sum(billed_credits) as credits from made group by account_id) as due
    where a.id = due.account_id
    returning a.id, a.balance + due.credits as balance_before
  )
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id, created_at)
  select
    m.account_id, 'usage', -m.billed_credits,
    p.balance_before - sum(m.billed_credits) over (partition by m.account_id order by m.created_at, m.id),
    m.created_at, m.id, m.created_at
  from made m
  join paid p on p.id = m.account_id
  where m.billed_credits > 0
  order by m.created_at, m.id`;
