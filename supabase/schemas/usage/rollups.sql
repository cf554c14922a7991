-- Daily sums of runs. The sums cover finished days, and queries add the remaining runs in the same statement. A change
-- to a run of a finished day marks the day in the same transaction. A marked day is read from its runs until it is
-- summarized again.

-- Updates ai.usage_daily and ai.usage_labels_daily. Summarizes new days, changed days, and older days whose summary
-- lacks details, at most max_days of each. Only one caller runs at a time; others return 0. Returns the number of
-- summarized days.
-- Definer: the service role may not write the daily sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  return ai.seal_completed_usage_days(max_days) + ai.rebuild_changed_usage_days(max_days) + ai.detail_older_usage_days(max_days);
end
$$;

-- Summarizes finished days that are not sealed yet, in order, at most max_days. Returns the number of summarized days.
create or replace function ai.seal_completed_usage_days(max_days integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  -- Waits until 15 minutes after a day's end. By then, all of the day's calls have committed, because the gateway's
  -- statements take at most 10 seconds.
  last_end date := ((now() - interval '15 minutes') at time zone 'UTC')::date;
  next_day date;
  sealed integer := 0;
begin
  select s.before into next_day from ai.usage_sealed_days s;
  while next_day < last_end and sealed < max_days loop
    perform ai.rebuild_usage_day(next_day, ai.workspaces_used_on(next_day));
    next_day := next_day + 1;
    sealed := sealed + 1;
  end loop;
  if sealed > 0 then
    update ai.usage_sealed_days s
    set before = next_day, detailed_from = coalesce(s.detailed_from, next_day - sealed)
    where s.singleton;
  end if;
  return sealed;
end
$$;

-- Summarizes sealed days again if their runs changed later, at most max_days days. Returns the number of summarized
-- days.
create or replace function ai.rebuild_changed_usage_days(max_days integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  changed record;
  summed integer := 0;
begin
  for changed in
    select c.day, array_agg(distinct c.workspace_id) as workspaces, array_agg(c.id) as ids
    from ai.usage_changed_days c
    group by c.day
    order by c.day
    limit max_days
  loop
    -- Deletes only the marks that were read above. A later change adds a new mark, which the next call reads.
    delete from ai.usage_changed_days c where c.id = any (changed.ids);
    continue when changed.day >= (select s.before from ai.usage_sealed_days s);
    perform ai.rebuild_usage_day(changed.day, changed.workspaces);
    summed := summed + 1;
  end loop;
  return summed;
end
$$;

-- Summarizes sealed days again if their sums lack details (members, labels, estimated and closed runs), newest first,
-- at most max_days. Returns the number of summarized days.
create or replace function ai.detail_older_usage_days(max_days integer) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  next_day date := (select least(s.detailed_from, s.before) from ai.usage_sealed_days s);
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
  update ai.usage_sealed_days s
  set detailed_from = case when next_day > first_run then next_day else '-infinity' end
  where s.singleton;
  return summed;
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

-- Replaces the sums of a day for the given workspaces.
create or replace function ai.rebuild_usage_day(day date, workspaces uuid[]) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from ai.usage_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_daily
  select s.*
  from unnest(workspaces) as w (id)
  cross join lateral ai.sum_usage(
    w.id, rebuild_usage_day.day::timestamp at time zone 'UTC', (rebuild_usage_day.day + 1)::timestamp at time zone 'UTC'
  ) as s;
  delete from ai.usage_labels_daily u where u.day = rebuild_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_labels_daily
  select s.*
  from unnest(workspaces) as w (id)
  cross join lateral ai.sum_labels(
    w.id, rebuild_usage_day.day::timestamp at time zone 'UTC', (rebuild_usage_day.day + 1)::timestamp at time zone 'UTC'
  ) as s
$$;

-- Returns sums of a workspace's runs in a half-open range, in the format of ai.usage_daily. Includes runs in progress.
-- Has no SET clause, so that Postgres inlines it into its callers' plans and applies their conditions to the runs.
create or replace function ai.sum_usage(workspace uuid, first_moment timestamptz, end_moment timestamptz) returns setof ai.usage_daily
  language sql stable security invoker
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

-- Marks a finished day as changed if one of its runs changes. Today's runs need no mark, because they are not
-- summarized yet. Most calls therefore write no mark.
-- Definer: the role that settles a run cannot write the marks of changed days.
create or replace function ai.record_usage_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  run ai.runs := case when tg_op = 'DELETE' then old else new end;
begin
  if run.created_at < date_trunc('day', now(), 'UTC') then
    insert into ai.usage_changed_days (workspace_id, day)
    values (run.workspace_id, (run.created_at at time zone 'UTC')::date);
  end if;
  return null;
end
$$;

-- Fires when a run of a finished day is updated, for example when the run is settled.
create or replace trigger record_usage_change after update on ai.runs
  for each row when (new.created_at < date_trunc('day', now(), 'UTC')) execute function ai.record_usage_change();
-- Fires when an operator inserts a run by hand. Runs from our own code begin at the current time, so the trigger does
-- not fire for them. The condition is short because Postgres reads the condition again for each statement.
create or replace trigger record_usage_addition after insert on ai.runs
  for each row when (new.created_at <> now()) execute function ai.record_usage_change();
-- Fires when an operator deletes a run of a finished day by hand. Our own code never deletes runs.
create or replace trigger record_usage_deletion after delete on ai.runs
  for each row when (old.created_at < date_trunc('day', now(), 'UTC')) execute function ai.record_usage_change();
