-- Sums of runs by UTC day, up to a mark (ai.usage_progress.summed_until). Reports read sums up to the mark and runs
-- after it, in one snapshot. A run that changes later than 30 seconds after it began adds the difference to
-- ai.usage_changes, which reports read as well.

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
    perform ai.record_hour();
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
  insert into ai.usage_progress (summed_until, detailed_from) values ('-infinity', '-infinity') on conflict do nothing;
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

-- Returns the time up to which runs are summed. The stored mark cannot be used if the clock was set back beyond it,
-- because runs before it may have changed without a record; returns the start of yesterday then. Returns -infinity if
-- no sums exist.
create or replace function ai.usage_mark() returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select case
    when p.summed_until > statement_timestamp() - interval '30 seconds'
      then date_trunc('day', statement_timestamp() - interval '24 hours', 'UTC')
    else coalesce(p.summed_until, '-infinity')
  end
  from (select) as always
  left join ai.usage_progress p on true
$$;

-- Returns the mark. Sets it to the first day of all runs if it is -infinity, which builds all sums again. Sets it back by
-- at least a day if the clock was set back beyond it, because runs before the mark may have changed without a record.
create or replace function ai.usage_mark_for_clock() returns timestamptz
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored timestamptz := (select p.summed_until from ai.usage_progress p);
  mark timestamptz := ai.usage_mark();
begin
  if mark = '-infinity' then
    mark := date_trunc('day', least((select min(r.created_at) from ai.runs r), now() - interval '24 hours'), 'UTC');
  end if;
  if mark <> stored then
    update ai.usage_progress p set summed_until = mark where p.singleton;
  end if;
  return mark;
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

-- Adds parts to ai.usage_daily. Only the roll-up writes that table, so it needs no unique key of its eleven dimensions.
create or replace function ai.add_usage(parts ai.usage_daily[]) returns void
  language sql volatile security invoker set search_path = ''
  -- Statistics of today's rows are always old. This setting makes every plan find rows by workspace and day.
  set enable_seqscan = off
as $$
  merge into ai.usage_daily u
  using (
    -- Groups stored rows with the parts instead of joining them, because Postgres can't estimate the number of parts.
    select
      p.workspace_id, p.day, p.app_id, p.key_lineage_id, p.provider_id, p.model_id, p.feature, p.execution_mode,
      p.billing_name, p.billing_account, p.actor_id, max(p.place) as place, sum(p.requests) as requests,
      sum(p.failed) as failed, sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens,
      sum(p.cost_usd) as cost_usd, sum(p.billed_credits) as billed_credits, sum(p.unmetered_credits) as unmetered_credits,
      sum(p.latency_ms) as latency_ms, sum(p.timed) as timed, sum(p.latency_marks) as latency_marks,
      sum(p.first_token_marks) as first_token_marks, sum(p.estimated_runs) as estimated_runs,
      sum(p.closed_runs) as closed_runs
    from (
      select null::tid as place, n.* from unnest(parts) n
      union all
      select
        s.ctid, s.workspace_id, s.day, s.app_id, s.key_lineage_id, s.provider_id, s.model_id, s.feature, s.execution_mode,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, s.billing_name, s.billing_account, s.actor_id, 0, 0
      from (select distinct n.workspace_id, n.day from unnest(parts) n) w
      join ai.usage_daily s on s.workspace_id = w.workspace_id and s.day = w.day
    ) p
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
    having count(*) > count(p.place) and (max(p.place) is not null or sum(p.requests) <> 0)
  ) d
  on u.ctid = d.place
  when matched and u.requests + d.requests = 0 then delete
  when matched then update set
    requests = u.requests + d.requests,
    failed = u.failed + d.failed,
    input_tokens = u.input_tokens + d.input_tokens,
    output_tokens = u.output_tokens + d.output_tokens,
    cost_usd = u.cost_usd + d.cost_usd,
    billed_credits = u.billed_credits + d.billed_credits,
    unmetered_credits = u.unmetered_credits + d.unmetered_credits,
    latency_ms = u.latency_ms + d.latency_ms,
    timed = u.timed + d.timed,
    latency_marks = u.latency_marks + d.latency_marks,
    first_token_marks = u.first_token_marks + d.first_token_marks,
    estimated_runs = u.estimated_runs + d.estimated_runs,
    closed_runs = u.closed_runs + d.closed_runs
  when not matched then insert (
    workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, requests, failed,
    input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks,
    first_token_marks, billing_name, billing_account, actor_id, estimated_runs, closed_runs
  ) values (
    d.workspace_id, d.day, d.app_id, d.key_lineage_id, d.provider_id, d.model_id, d.feature, d.execution_mode, d.requests,
    d.failed, d.input_tokens, d.output_tokens, d.cost_usd, d.billed_credits, d.unmetered_credits, d.latency_ms, d.timed,
    d.latency_marks, d.first_token_marks, d.billing_name, d.billing_account, d.actor_id, d.estimated_runs, d.closed_runs
  )
$$;

-- Adds parts to ai.usage_labels_daily. Once a workspace has 10,000 labels on a day, further labels go to the row *.
create or replace function ai.add_label_usage(parts ai.usage_labels_daily[]) returns void
  language sql volatile security invoker set search_path = '' set enable_seqscan = off
as $$
  with due as materialized (
    select
      p.workspace_id, p.day, p.label, sum(p.requests) as requests, sum(p.failed) as failed,
      sum(p.input_tokens) as input_tokens, sum(p.output_tokens) as output_tokens, sum(p.cost_usd) as cost_usd,
      sum(p.billed_credits) as billed_credits, sum(p.unmetered_credits) as unmetered_credits,
      sum(p.latency_ms) as latency_ms, sum(p.timed) as timed,
      p.label in ('', '*') or exists (
        select from ai.usage_labels_daily l where l.workspace_id = p.workspace_id and l.day = p.day and l.label = p.label
      ) as is_stored
    from unnest(parts) p
    group by p.workspace_id, p.day, p.label
  ), ranked as (
    -- A day's number of labels is one more row, because Postgres can't estimate the number of parts for a join.
    select d.*,
      max(d.stored_labels) over (partition by d.workspace_id, d.day) + row_number() over (
        partition by d.workspace_id, d.day, d.is_stored
        order by d.requests <= 0, d.cost_usd desc, d.requests desc, d.label collate "C"
      ) as rank
    from (
      select e.*, null::bigint as stored_labels from due e
      union all
      select w.workspace_id, w.day, null, null, null, null, null, null, null, null, null, null, null, (
        select count(*) from ai.usage_labels_daily l
        where l.workspace_id = w.workspace_id and l.day = w.day and l.label not in ('', '*')
      )
      from (select distinct e.workspace_id, e.day from due e where not e.is_stored) w
    ) d
  )
  insert into ai.usage_labels_daily as l (
    workspace_id, day, label, requests, failed, input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits,
    latency_ms, timed
  )
  select
    r.workspace_id, r.day,
    -- A change without a new run is of a run that is already part of the row *.
    case when r.is_stored or (r.requests > 0 and r.rank <= 10000) then r.label else '*' end,
    sum(r.requests), sum(r.failed), sum(r.input_tokens), sum(r.output_tokens), sum(r.cost_usd), sum(r.billed_credits),
    sum(r.unmetered_credits), sum(r.latency_ms), sum(r.timed)
  from ranked r
  where r.is_stored is not null
  group by 1, 2, 3
  on conflict (workspace_id, day, label) do update set
    requests = l.requests + excluded.requests,
    failed = l.failed + excluded.failed,
    input_tokens = l.input_tokens + excluded.input_tokens,
    output_tokens = l.output_tokens + excluded.output_tokens,
    cost_usd = l.cost_usd + excluded.cost_usd,
    billed_credits = l.billed_credits + excluded.billed_credits,
    unmetered_credits = l.unmetered_credits + excluded.unmetered_credits,
    latency_ms = l.latency_ms + excluded.latency_ms,
    timed = l.timed + excluded.timed;
  -- Rows whose last run was deleted or got another label.
  delete from ai.usage_labels_daily l
  using (
    select distinct p.workspace_id, p.day, n.label
    from unnest(parts) p
    cross join lateral (values (p.label), ('*')) as n (label)
    where p.requests <= 0
  ) p
  where l.workspace_id = p.workspace_id and l.day = p.day and l.label = p.label and l.requests = 0
$$;

-- Sums the labels of a finished day again for workspaces with more than 10,000, so that the most expensive have rows. If
-- that takes longer than the caller's statement timeout, the labels that came first keep the rows.
create or replace function ai.seal_usage_day(day date) returns void
  language plpgsql volatile security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  day_start timestamptz := seal_usage_day.day::timestamp at time zone 'UTC';
  day_end timestamptz := day_start + interval '24 hours';
  workspaces uuid[] := array(
    select l.workspace_id
    from (select distinct u.workspace_id from ai.usage_daily u where u.day = seal_usage_day.day) w
    join ai.usage_labels_daily l on l.workspace_id = w.workspace_id and l.day = seal_usage_day.day and l.label = '*'
  );
  parts record;
begin
  -- In one statement, and so in one snapshot: changes that are visible are part of the runs.
  with changed as (
    delete from ai.usage_changes c
    where c.workspace_id = any (workspaces) and c.run_created_at >= day_start and c.run_created_at < day_end
    returning c
  )
  select
    array(select u from changed r cross join lateral ai.changed_usage(r.c) u) as usage,
    array(select s from unnest(workspaces) as w (id) cross join lateral ai.sum_labels(w.id, day_start, day_end) s) as labels
  into parts;
  perform ai.add_usage(parts.usage);
  delete from ai.usage_labels_daily l where l.workspace_id = any (workspaces) and l.day = seal_usage_day.day;
  insert into ai.usage_labels_daily select p.* from unnest(parts.labels) p;
exception when query_canceled then
  raise warning 'the most expensive labels of % are not known: %', seal_usage_day.day, sqlerrm;
end
$$;

-- Sums days again if their sums lack details (members, labels, estimated and closed runs), newest first, at most
-- max_days. Returns the number of summed days. If that takes longer than the caller's statement timeout, returns 0.
create or replace function ai.detail_older_usage_days(max_days integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  next_day date := (select p.detailed_from from ai.usage_progress p);
  first_run date;
  summed integer := 0;
begin
  if next_day = '-infinity' then
    return 0;
  end if;
  select (min(r.created_at) at time zone 'UTC')::date into first_run from ai.runs r;
  while next_day > first_run and summed < max_days loop
    next_day := next_day - 1;
    perform ai.rebuild_usage_day(next_day, ai.workspaces_used_on(next_day));
    summed := summed + 1;
  end loop;
  update ai.usage_progress p
  set detailed_from = case when next_day > first_run then next_day else '-infinity' end
  where p.singleton;
  return summed;
exception when query_canceled then
  raise warning 'details before % are not summed yet: %', (select p.detailed_from from ai.usage_progress p), sqlerrm;
  return 0;
end
$$;

-- Returns the workspaces that have runs on a UTC day.
create or replace function ai.workspaces_used_on(day date) returns uuid[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select distinct r.workspace_id
    from ai.runs r
    where r.created_at >= day::timestamp at time zone 'UTC' and r.created_at < (day + 1)::timestamp at time zone 'UTC'
  )
$$;

-- Replaces the sums of a day before the mark for the given workspaces. The caller holds the roll-up's lock.
create or replace function ai.rebuild_usage_day(day date, workspaces uuid[]) returns void
  language plpgsql volatile security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  day_start timestamptz := rebuild_usage_day.day::timestamp at time zone 'UTC';
  day_end timestamptz := day_start + interval '24 hours';
  parts record;
begin
  -- In one statement, and so in one snapshot: changes that are visible are part of the runs.
  with changed as (
    delete from ai.usage_changes c
    where c.workspace_id = any (workspaces) and c.run_created_at >= day_start and c.run_created_at < day_end
  )
  select
    array(select s from unnest(workspaces) as w (id) cross join lateral ai.sum_usage(w.id, day_start, day_end) s) as usage,
    array(select s from unnest(workspaces) as w (id) cross join lateral ai.sum_labels(w.id, day_start, day_end) s) as labels
  into parts;
  delete from ai.usage_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  delete from ai.usage_labels_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_daily select p.* from unnest(parts.usage) p;
  insert into ai.usage_labels_daily select p.* from unnest(parts.labels) p;
end
$$;

-- Returns what one run adds to the sums, in the format of ai.usage_daily. Includes a run in progress.
-- Returns a set of one row and has no SET clause, so that Postgres inlines it.
create or replace function ai.run_usage(run ai.runs) returns setof ai.usage_daily
  language sql immutable security invoker parallel safe
as $$
  select
    run.workspace_id, (run.created_at at time zone 'UTC')::date, run.app_id, run.key_lineage_id,
    ai.run_provider(run.routes, run.route), run.model_id, run.feature::text, run.execution_mode::text,
    1::bigint, case when run.status = 'failed' then 1 else 0 end::bigint, run.input_tokens, run.output_tokens,
    run.cost_usd::numeric, run.billed_credits::numeric, run.unmetered_credits::numeric,
    coalesce(run.latency_ms, 0)::bigint, case when run.latency_ms is not null then 1 else 0 end::bigint,
    coalesce(ai.latency_mark(run.latency_ms), 0),
    coalesce(ai.latency_mark(case when run.streamed then run.first_byte_ms end), 0),
    run.billing_name, run.billing_account, run.actor_id,
    case when ai.is_estimated(run.usage_source, run.swept) then 1 else 0 end::bigint,
    case when run.swept then 1 else 0 end::bigint
$$;

-- Returns sums of a workspace's runs in a half-open range, in the format of ai.usage_daily. Includes runs in progress.
-- Has no SET clause, so that Postgres inlines it into its callers' plans and applies their conditions to the runs.
create or replace function ai.sum_usage(workspace uuid, first_moment timestamptz, end_moment timestamptz) returns setof ai.usage_daily
  language sql stable security invoker
as $$
  select
    u.workspace_id, u.day, u.app_id, u.key_lineage_id, u.provider_id, u.model_id, u.feature, u.execution_mode,
    sum(u.requests)::bigint, sum(u.failed)::bigint, sum(u.input_tokens)::bigint, sum(u.output_tokens)::bigint,
    sum(u.cost_usd), sum(u.billed_credits), sum(u.unmetered_credits), sum(u.latency_ms)::bigint, sum(u.timed)::bigint,
    sum(u.latency_marks), sum(u.first_token_marks), u.billing_name, u.billing_account, u.actor_id,
    sum(u.estimated_runs)::bigint, sum(u.closed_runs)::bigint
  from ai.runs r
  cross join lateral ai.run_usage(r) u
  where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
  group by 1, 2, 3, 4, 5, 6, 7, 8, u.billing_name, u.billing_account, u.actor_id
$$;

-- Sums a workspace's runs in a half-open time range. Groups them by day and label (X-Platform-Entity-Id), in the format
-- of ai.usage_labels_daily. For each day, returns the 10,000 most expensive labels and one sum for all others.
-- Sets no search_path, so Postgres can inline this function into its callers' plans.
create or replace function ai.sum_labels(workspace uuid, first_moment timestamptz, end_moment timestamptz)
  returns setof ai.usage_labels_daily
  language sql stable security invoker
as $$
  select
    workspace, n.day, n.label,
    sum(n.requests)::bigint, sum(n.failed)::bigint, sum(n.input_tokens)::bigint, sum(n.output_tokens)::bigint,
    sum(n.cost_usd), sum(n.billed_credits), sum(n.unmetered_credits), sum(n.latency_ms)::bigint, sum(n.timed)::bigint
  from (
    select
      g.*,
      case
        when g.entity_id is null then ''
        when row_number() over (
          partition by g.day
          order by g.entity_id is null, g.cost_usd desc, g.requests desc, g.entity_id collate "C"
        ) <= 10000 then g.entity_id
        else '*'
      end as label
    from (
      select
        (r.created_at at time zone 'UTC')::date as day, r.entity_id, count(*) as requests,
        count(*) filter (where r.status = 'failed') as failed, sum(r.input_tokens) as input_tokens,
        sum(r.output_tokens) as output_tokens, sum(r.cost_usd) as cost_usd, sum(r.billed_credits) as billed_credits,
        sum(r.unmetered_credits) as unmetered_credits, coalesce(sum(r.latency_ms), 0) as latency_ms,
        count(r.latency_ms) as timed
      from ai.runs r
      where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
      group by 1, 2
    ) g
  ) n
  group by n.day, n.label
$$;

-- Returns a recorded change in the format of ai.usage_daily.
create or replace function ai.changed_usage(change ai.usage_changes) returns setof ai.usage_daily
  language sql immutable security invoker
as $$
  select
    change.workspace_id, change.day, change.app_id, change.key_lineage_id, change.provider_id, change.model_id,
    change.feature, change.execution_mode, change.requests, change.failed, change.input_tokens, change.output_tokens,
    change.cost_usd, change.billed_credits, change.unmetered_credits, change.latency_ms, change.timed,
    change.latency_marks, change.first_token_marks, change.billing_name, change.billing_account, change.actor_id,
    change.estimated_runs, change.closed_runs
$$;

-- Returns a recorded change in the format of ai.usage_labels_daily.
create or replace function ai.changed_label_usage(change ai.usage_changes) returns setof ai.usage_labels_daily
  language sql immutable security invoker
as $$
  select
    change.workspace_id, change.day, coalesce(change.label, ''), change.requests, change.failed, change.input_tokens,
    change.output_tokens, change.cost_usd, change.billed_credits, change.unmetered_credits, change.latency_ms, change.timed
$$;

-- Records how a run changes the sums: what it added before, as negative numbers, and what it adds now. Records only the
-- difference of a heartbeat, which changes nothing but token counts. Has no shared row or unique key, so settlements
-- never wait for each other here.
-- Definer: the role that settles a run cannot write the changes.
create or replace function ai.record_usage_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if tg_op = 'UPDATE' and (
    old.created_at, old.workspace_id, old.app_id, old.key_lineage_id, old.routes, old.route, old.model_id, old.feature,
    old.execution_mode, old.status, old.cost_usd, old.billed_credits, old.unmetered_credits, old.latency_ms, old.streamed,
    old.first_byte_ms, old.billing_name, old.billing_account, old.actor_id, old.usage_source, old.swept, old.entity_id
  ) is not distinct from (
    new.created_at, new.workspace_id, new.app_id, new.key_lineage_id, new.routes, new.route, new.model_id, new.feature,
    new.execution_mode, new.status, new.cost_usd, new.billed_credits, new.unmetered_credits, new.latency_ms, new.streamed,
    new.first_byte_ms, new.billing_name, new.billing_account, new.actor_id, new.usage_source, new.swept, new.entity_id
  ) then
    if old.input_tokens <> new.input_tokens or old.output_tokens <> new.output_tokens then
      insert into ai.usage_changes (
        workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, requests, failed,
        input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks,
        first_token_marks, billing_name, billing_account, actor_id, estimated_runs, closed_runs, run_created_at, label
      ) values (
        new.workspace_id, (new.created_at at time zone 'UTC')::date, new.app_id, new.key_lineage_id,
        ai.run_provider(new.routes, new.route), new.model_id, new.feature, new.execution_mode, 0, 0,
        new.input_tokens - old.input_tokens, new.output_tokens - old.output_tokens, 0, 0, 0, 0, 0, 0, 0,
        new.billing_name, new.billing_account, new.actor_id, 0, 0, new.created_at, new.entity_id
      );
    end if;
    return null;
  end if;
  insert into ai.usage_changes (
    workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode, requests, failed,
    input_tokens, output_tokens, cost_usd, billed_credits, unmetered_credits, latency_ms, timed, latency_marks,
    first_token_marks, billing_name, billing_account, actor_id, estimated_runs, closed_runs, run_created_at, label
  )
  select
    u.workspace_id, u.day, u.app_id, u.key_lineage_id, u.provider_id, u.model_id, u.feature, u.execution_mode,
    -u.requests, -u.failed, -u.input_tokens, -u.output_tokens, -u.cost_usd, -u.billed_credits, -u.unmetered_credits,
    -u.latency_ms, -u.timed, -u.latency_marks, -u.first_token_marks, u.billing_name, u.billing_account, u.actor_id,
    -u.estimated_runs, -u.closed_runs, old.created_at, old.entity_id
  from ai.run_usage(old) u
  where tg_op <> 'INSERT'
  union all
  select u.*, new.created_at, new.entity_id
  from ai.run_usage(new) u
  where tg_op <> 'DELETE';
  return null;
end
$$;

-- Changes of younger runs need no record, because the mark stays behind them. Uses the time of the write, because the
-- start of its transaction may be long ago. The condition is short because Postgres reads it again for each statement.
create or replace trigger record_usage_change after update on ai.runs
  for each row when (least(old.created_at, new.created_at) < clock_timestamp() - interval '30 seconds')
  execute function ai.record_usage_change();
-- Fires if a transaction inserts its run long after it began, or an operator inserts a run by hand.
create or replace trigger record_usage_addition after insert on ai.runs
  for each row when (new.created_at < clock_timestamp() - interval '30 seconds')
  execute function ai.record_usage_change();
-- Fires when an operator deletes a run by hand. Our own code never deletes runs.
create or replace trigger record_usage_deletion after delete on ai.runs
  for each row when (old.created_at < clock_timestamp() - interval '30 seconds')
  execute function ai.record_usage_change();
