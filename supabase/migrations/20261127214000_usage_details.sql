set lock_timeout = '500ms';

alter table ai.usage_daily add column actor_id uuid;
comment on column ai.usage_daily.actor_id is
  'The member who called, or who made the key. Null in sums of days before ai.usage_sealed_days.detailed_from.';
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
    r.billing_name, r.billing_account, r.actor_id
  from ai.runs r
  where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
  group by 1, 2, 3, 4, 5, 6, 7, 8, r.billing_name, r.billing_account, r.actor_id
$$;

-- One writer replaces a day's rows of a workspace; reports find them by workspace and day.
create index if not exists usage_daily_workspace_id_day_idx on ai.usage_daily (workspace_id, day, app_id);
alter table ai.usage_daily
  drop constraint usage_daily_workspace_id_day_app_id_key_lineage_id_provider_key;

alter table ai.usage_sealed_days add column detailed_from date;
comment on column ai.usage_sealed_days.detailed_from is
  'Sums of this day and later ones have members and labels; -infinity when all have. Earlier days are read from runs for '
  'reports by member or label until ai.roll_up_usage() has summed them again.';

create table ai.usage_labels_daily (
  workspace_id uuid not null,
  day date not null,
  label text not null,
  requests bigint not null,
  failed bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_usd numeric(36, 12) not null,
  billed_credits numeric(36, 8) not null,
  unmetered_credits numeric(36, 8) not null,
  latency_ms bigint not null,
  timed bigint not null,
  primary key (workspace_id, day, label)
);
comment on table ai.usage_labels_daily is
  'Runs summed by UTC day and label (X-Platform-Entity-Id), made from ai.runs by ai.roll_up_usage(). At most 10,002 rows a '
  'workspace and day. No foreign keys, as runs have none.';
comment on column ai.usage_labels_daily.label is
  'Empty for runs without a label; * for all labels of the day beyond the 10,000 most expensive. A label is never either.';
select private.protect_table('ai.usage_labels_daily');
