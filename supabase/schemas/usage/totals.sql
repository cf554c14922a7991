-- Counters of the whole deployment, for monitoring. Only ai.roll_up_usage() changes them.

-- Adds sums of runs to the counters. Skips amounts that a correction lowered, because a counter must not fall.
create or replace function ai.count_usage(parts ai.usage_daily[]) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.totals as t (figure, label, total)
  select f.figure, s.provider_id, f.amount
  from (
    select
      coalesce(p.provider_id, '') as provider_id, sum(p.requests) as requests, sum(p.failed) as failed,
      sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens, sum(p.cost_usd) as cost_usd
    from unnest(parts) p
    group by 1
  ) s
  cross join lateral (values
    ('runs', s.requests), ('failed_runs', s.failed), ('input_tokens', s.input_tokens),
    ('output_tokens', s.output_tokens), ('cost_usd', s.cost_usd)
  ) as f (figure, amount)
  where f.amount > 0
  on conflict (figure, label) do update set total = t.total + excluded.total
$$;

-- Adds the failed attempts and sign-ins since the last count to the counters, up to whole_until. The caller holds the
-- roll-up's lock and has made sure that all of them are visible.
create or replace function ai.count_events(whole_until timestamptz) returns void
  language sql volatile security invoker set search_path = ''
as $$
  with due as materialized (
    update ai.usage_progress p set events_counted_until = whole_until
    from (select q.events_counted_until as since from ai.usage_progress q) o
    where p.singleton and o.since < whole_until
    returning o.since
  )
  insert into ai.totals as t (figure, label, total)
  select 'failed_attempts', f.provider_id, count(*)
  from due d
  join ai.failed_attempts f on f.at >= d.since and f.at < whole_until
  group by f.provider_id
  union all
  select 'sign_ins', coalesce(e.method, ''), count(*)
  from due d
  join public.security_events e on e.kind = 'sign_in' and e.created_at >= d.since and e.created_at < whole_until
  group by 2
  on conflict (figure, label) do update set total = t.total + excluded.total
$$;
