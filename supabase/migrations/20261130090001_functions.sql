-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

-- Returns the figures that docs/operating.md lists under "Figures of the deployment". Reads counters, open runs and
-- short queues, and never more than the runs of the last two minutes.
create or replace function private.measure_deployment() returns jsonb
  language sql stable security invoker set search_path = ''
  -- A partition may be empty when statistics are collected and large when the plan is used. Runs are found by their key.
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
  with progress as materialized (
    select p.seen_until from ai.sweep_progress p
  ), long_running as materialized (
    select r.created_at, r.reserved_usd, r.reserved_credits
    from ai.long_running_runs l
    cross join lateral (
      select * from ai.runs o
      where o.created_at = l.run_created_at and o.id = l.run_id and o.status = 'running'
      -- Otherwise, Postgres could read all runs and look up each of them in the short table.
      offset 0
    ) r
  ), open_runs as (
    select * from long_running
    union all
    -- The sweep has recorded all earlier open runs in ai.long_running_runs.
    select r.created_at, r.reserved_usd, r.reserved_credits
    from progress p
    join ai.runs r on r.created_at > p.seen_until
    where r.created_at > now() - interval '2 minutes' and r.status = 'running'
  )
  select jsonb_build_object(
    'totals', (
      select coalesce(jsonb_agg(jsonb_build_object('figure', t.figure, 'label', t.label, 'total', trim_scale(t.total)::text)), '[]')
      from ai.totals t
    ),
    'openRuns', (select count(*) from open_runs),
    'longRunningRuns', (select count(*) from long_running),
    'oldestOpenRunSeconds', (select coalesce(extract(epoch from now() - min(o.created_at)), 0) from open_runs o),
    'reservedUsd', (select trim_scale(coalesce(sum(o.reserved_usd), 0))::text from open_runs o),
    'reservedCredits', (select trim_scale(coalesce(sum(o.reserved_credits), 0))::text from open_runs o),
    -- Null before the first sweep and the first sum. JSON has no infinity.
    'sweepAgeSeconds', (
      select extract(epoch from now() - nullif(p.seen_until, '-infinity')) from progress p
    ),
    'usageAgeSeconds', (
      select extract(epoch from now() - nullif(u.summed_until, '-infinity')) from ai.usage_progress u
    ),
    'blockedAddresses', (
      select count(*) from private.address_blocks b where b.blocked_until > now() and b.lifted_at is null
    )
  ) || (
    select jsonb_build_object(
      'mailsWaiting', count(*) filter (where m.attempts < 12),
      'mailsFailed', count(*) filter (where m.attempts >= 12),
      'mailsDueSeconds', coalesce(extract(epoch from now() - min(m.next_attempt_at) filter (where m.attempts < 12)), 0)
    )
    from private.outgoing_mails m
  )
$$;

-- Advances the mark and adds changed runs to the sums, in steps. Also sums again older days whose sums lack details.
-- Passes the end of at most max_days days, and sums at most max_days older days. Begins no step after two seconds; the
-- next call continues. Only one caller works at a time; others return 0. Returns the number of days that it completed,
-- and at least 1 if it stopped early.
-- Definer: the service role may not write the sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  stop_at timestamptz := clock_timestamp() + interval '2 seconds';
  whole_until timestamptz;
  mark timestamptz;
  completed integer := 0;
  step_changes integer := 20000;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  whole_until := ai.advance_usage_fence();
  perform ai.count_events(whole_until);
  mark := ai.usage_mark_for_clock();
  while ai.add_usage_changes(step_changes) >= step_changes and clock_timestamp() < stop_at loop
  end loop;
  while mark < whole_until and completed < max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    mark := ai.sum_usage_until(whole_until);
    if mark = date_trunc('day', mark, 'UTC') then
      perform ai.seal_usage_day((mark at time zone 'UTC')::date - 1);
      completed := completed + 1;
    end if;
  end loop;
  for older_day in 1..max_days loop
    if clock_timestamp() >= stop_at then
      return greatest(completed, 1);
    end if;
    exit when ai.detail_older_usage_days(1) = 0;
    completed := completed + 1;
  end loop;
  return completed;
end
$$;

-- Returns a time up to which all runs are visible, less the time for which changes of a run are not recorded. Returns
-- -infinity while a transaction from before the last fence is still open. Otherwise sets a new fence.
create or replace function ai.advance_usage_fence() returns timestamptz
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  snapshot pg_snapshot := pg_current_snapshot();
  progress ai.usage_progress;
begin
  -- Until 0.3.0: release 0.1.0 summed whole days and kept a list of changed days.
  insert into ai.usage_progress (summed_until, detailed_from)
  select
    coalesce(d.day::timestamp at time zone 'UTC', '-infinity'), coalesce(d.day, '-infinity')
  from (
    select least((select s.before from ai.usage_sealed_days s), (select min(c.day) from ai.usage_changed_days c)) as day
  ) d
  on conflict do nothing;
  select * into strict progress from ai.usage_progress;
  -- The clock was set back since the last fence, so runs before the mark may have changed without a record. Another
  -- roll-up whose transaction began later may be a few seconds ahead.
  if progress.marked_at > now() + interval '10 seconds' then
    update ai.usage_progress p
    set summed_until = least(p.summed_until, date_trunc('day', now() - interval '24 hours', 'UTC'))
    where p.singleton;
  end if;
  -- A later transaction id was assigned after marked_at, so its changes are at most 30 seconds older than marked_at, or
  -- recorded. The second condition holds after a restore into another cluster.
  if pg_snapshot_xmin(snapshot) < progress.marked_xid and pg_snapshot_xmax(snapshot) >= progress.marked_xid then
    return '-infinity';
  end if;
  update ai.usage_progress p
  set
    marked_at = now(),
    marked_xid = pg_current_xact_id(),
    -- Without this, the counters would stand still after the clock was set back, until it is where it was.
    runs_counted_until = least(p.runs_counted_until, now()),
    events_counted_until = least(p.events_counted_until, now())
  where p.singleton;
  -- The clock may have been set back. Another 30 seconds allow for small steps of the clock.
  return case when progress.marked_at <= now() then progress.marked_at - interval '1 minute' else '-infinity' end;
end
$$;

-- Sums the runs that follow the mark and moves the mark forward: to whole_until, but at most to the end of the day, and
-- to ten minutes after the first run. Returns the new mark. The caller holds the roll-up's lock.
create or replace function ai.sum_usage_until(whole_until timestamptz) returns timestamptz
  language plpgsql volatile security invoker set search_path = '' set work_mem = '32MB'
  -- Each stretch of time has its own plan, because generic plans would read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  mark timestamptz := (select p.summed_until from ai.usage_progress p);
  counted_until timestamptz := (select p.runs_counted_until from ai.usage_progress p);
  first_day date := (mark at time zone 'UTC')::date;
  next_mark timestamptz := least(
    whole_until,
    date_trunc('day', mark, 'UTC') + interval '24 hours',
    (
      select r.created_at from ai.runs r
      where r.created_at >= mark and r.created_at < whole_until
      order by r.created_at
      limit 1
    ) + interval '10 minutes'
  );
  parts record;
begin
  if next_mark <= mark then
    return mark;
  end if;
  -- In one statement, and so in one snapshot: changes that are visible are part of the runs that are summed.
  with changed as (
    delete from ai.usage_changes c where c.run_created_at >= mark and c.run_created_at < next_mark
  ), used as materialized (
    select distinct r.workspace_id as id from ai.runs r where r.created_at >= mark and r.created_at < next_mark
  )
  select
    array(select s from used w cross join lateral ai.sum_usage(w.id, mark, next_mark) s) as usage,
    array(select s from used w cross join lateral ai.sum_labels(w.id, mark, next_mark) s) as labels
  into parts;
  -- The day has sums already if the mark was set back.
  if mark = date_trunc('day', mark, 'UTC') then
    delete from ai.usage_labels_daily l
    using (select distinct u.workspace_id from ai.usage_daily u where u.day = first_day) w
    where l.workspace_id = w.workspace_id and l.day = first_day;
    delete from ai.usage_daily u where u.day = first_day;
  end if;
  perform ai.add_usage(parts.usage);
  perform ai.add_label_usage(parts.labels);
  if mark >= counted_until then
    perform ai.count_usage(parts.usage);
  end if;
  update ai.usage_progress p
  set summed_until = next_mark, runs_counted_until = greatest(p.runs_counted_until, next_mark)
  where p.singleton;
  return next_mark;
end
$$;

-- Moves about max_changes recorded changes of runs before the mark into the sums. Changes of later runs are part of
-- these runs when the mark passes them. Changes of days whose sums lack details stay until these days are summed again.
-- Returns the number of changes. The caller holds the roll-up's lock.
create or replace function ai.add_usage_changes(max_changes integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  parts record;
begin
  with due as materialized (
    select c.ctid as place
    from ai.usage_progress p
    join ai.usage_changes c on c.run_created_at < p.summed_until and c.day >= p.detailed_from
    -- Moves all changes of a run together. A part of them may cancel a row's requests, but not its amounts.
    order by c.workspace_id, c.run_created_at
    fetch first max_changes rows with ties
  ), changed as (
    delete from ai.usage_changes c using due d where c.ctid = d.place returning c
  )
  select
    array(select u from changed r cross join lateral ai.changed_usage(r.c) u) as usage,
    array(select u from changed r cross join lateral ai.changed_label_usage(r.c) u) as labels
  into parts;
  if parts.usage <> '{}' then
    perform ai.add_usage(parts.usage);
    perform ai.add_label_usage(parts.labels);
    perform ai.count_usage(parts.usage);
  end if;
  return cardinality(parts.usage);
end
$$;

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

grant execute on function private.measure_deployment() to service_role;

notify pgrst, 'reload schema';
