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

-- Stores the counters at the first roll-up that has counted all runs before an hour. Deletes hours that are more than 40
-- days old, and those that are ahead because the clock was set back.
create or replace function ai.record_hour() returns void
  language sql volatile security invoker set search_path = ''
as $$
  with latest as materialized (
    select date_trunc('hour', p.runs_counted_until, 'UTC') as hour from ai.usage_progress p
  ), deleted as (
    delete from ai.hourly_totals h using latest l where h.hour > l.hour or h.hour < l.hour - interval '40 days'
  )
  insert into ai.hourly_totals (hour, runs, failed_runs, refused_calls, cost_usd)
  select l.hour, t.runs, t.failed_runs, t.refused_calls, t.cost_usd
  from latest l
  cross join lateral (
    select
      coalesce(sum(c.total) filter (where c.figure = 'runs'), 0) as runs,
      coalesce(sum(c.total) filter (where c.figure = 'failed_runs'), 0) as failed_runs,
      coalesce(sum(c.total) filter (where c.figure = 'refused_calls'), 0) as refused_calls,
      coalesce(sum(c.total) filter (where c.figure = 'cost_usd'), 0) as cost_usd
    from ai.totals c
  ) as t
  where not exists (select from ai.hourly_totals h where h.hour = l.hour)
$$;

-- Returns what is usual from the beginning of a UTC day up to a time of it: { runs, failedRuns, refusedCalls, costUsd },
-- the mean of the last four days with the same weekday. Counts the current hour in proportion. Skips days without the
-- counters of an hour; null if no such day was counted.
create or replace function private.read_usual_day(at timestamptz default now()) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case when count(*) > 0 then jsonb_build_object(
    'runs', round(avg(d.runs)),
    'failedRuns', round(avg(d.failed_runs)),
    'refusedCalls', round(avg(d.refused_calls)),
    'costUsd', trim_scale(round(avg(d.cost_usd), 12))::text
  ) end
  from (
    select
      h.runs + (n.runs - h.runs) * m.share - s.runs as runs,
      h.failed_runs + (n.failed_runs - h.failed_runs) * m.share - s.failed_runs as failed_runs,
      h.refused_calls + (n.refused_calls - h.refused_calls) * m.share - s.refused_calls as refused_calls,
      h.cost_usd + (n.cost_usd - h.cost_usd) * m.share - s.cost_usd as cost_usd
    from generate_series(1, 4) as w (weeks)
    cross join lateral (
      select
        date_trunc('hour', at, 'UTC') - w.weeks * interval '168 hours' as hour,
        extract(epoch from at - date_trunc('hour', at, 'UTC')) / 3600 as share
    ) as m
    join ai.hourly_totals s on s.hour = date_trunc('day', m.hour, 'UTC')
    join ai.hourly_totals h on h.hour = m.hour
    join ai.hourly_totals n on n.hour = m.hour + interval '1 hour'
  ) as d
$$;
