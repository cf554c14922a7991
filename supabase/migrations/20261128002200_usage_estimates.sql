set lock_timeout = '500ms';

alter table ai.usage_daily
  add column estimated_runs bigint not null default 0,
  add column closed_runs bigint not null default 0;
comment on column ai.usage_daily.estimated_runs is
  'Runs whose usage was estimated in part or in whole. 0 in sums of days before ai.usage_sealed_days.detailed_from.';
comment on column ai.usage_daily.closed_runs is
  'Runs that the sweep closed, which name no billing account. As estimated_runs, 0 in older sums.';
create or replace function ai.is_estimated(usage_source ai.usage_source, swept boolean) returns boolean
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select usage_source in ('provider_partial', 'estimated_partial') and not swept
$$;
-- Returns rows of that table, so it changes with it.
create or replace function ai.sum_usage(workspace uuid, first_moment timestamptz, end_moment timestamptz) returns setof ai.usage_daily
  language sql
  stable
  security invoker
as $$
  select
    r.workspace_id, (r.created_at at time zone 'UTC')::date, r.app_id, r.key_lineage_id, ai.run_provider(r.routes, r.route),
    r.model_id, r.feature, r.execution_mode,
    count(*), count(*) filter (where r.status = 'failed'), sum(r.input_tokens)::bigint, sum(r.output_tokens)::bigint,
    sum(r.cost_usd), sum(r.billed_credits), sum(r.unmetered_credits),
    coalesce(sum(r.latency_ms), 0)::bigint, count(r.latency_ms),
    coalesce(sum(ai.latency_mark(r.latency_ms)), 0),
    coalesce(sum(ai.latency_mark(case when r.streamed then r.first_byte_ms end)), 0),
    r.billing_name, r.billing_account, r.actor_id,
    count(*) filter (where ai.is_estimated(r.usage_source, r.swept)),
    count(*) filter (where r.swept)
  from ai.runs r
  where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
  group by 1, 2, 3, 4, 5, 6, 7, 8, r.billing_name, r.billing_account, r.actor_id
$$;
