-- The order of a list of runs, and a run's neighbours in it.

-- Returns the value by which ai.list_runs sorts a run, or null if it sorts by time. Runs without a latency come last.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.run_sort_value(run ai.runs, sort text, cost_visible boolean) returns numeric
  language sql immutable security invoker
as $$
  select case sort
    when 'cost' then case when cost_visible then (run).cost_usd else (run).billed_credits end
    when 'tokens' then ((run).input_tokens + (run).output_tokens)::numeric
    when 'latency' then coalesce((run).latency_ms, -1)::numeric
  end
$$;

-- Returns whether a workspace has more than most runs in a range. Reads at most one more. Sorting has no index, because
-- each index slows down every gateway call.
create or replace function ai.has_more_runs_than(most integer, workspace uuid, starts_at timestamptz, ends_at timestamptz)
  returns boolean
  language sql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
  select count(*) > most
  from (
    select
    from ai.runs r
    where r.workspace_id = workspace and r.created_at >= starts_at and r.created_at < ends_at
    limit most + 1
  ) as counted
$$;

-- Returns { previous, next }, the ids of the runs before and after a run in the list that ai.list_runs returns for these
-- filters, or nulls. Searches at most scan_limit runs in each direction.
create or replace function ai.find_adjacent_runs(
  run ai.runs, filter jsonb, sort text, scan_limit integer, cost_visible boolean
) returns jsonb
  language plpgsql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  workspace uuid := run.workspace_id;
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filter ->> 'to')::timestamptz, 'infinity');
  run_value numeric;
  found_ids record;
begin
  if sort <> 'time' and ai.has_more_runs_than(scan_limit, workspace, starts_at, ends_at) then
    sort := 'time';
  end if;
  if sort <> 'time' then
    run_value := ai.run_sort_value(run, sort, cost_visible);
    select
      (array_agg(s.id order by s.value, s.created_at, s.id)
        filter (where (s.value, s.created_at, s.id) > (run_value, run.created_at, run.id)))[1] as previous,
      (array_agg(s.id order by s.value desc, s.created_at desc, s.id desc)
        filter (where (s.value, s.created_at, s.id) < (run_value, run.created_at, run.id)))[1] as next
    into found_ids
    from (
      select r.id, r.created_at, ai.run_sort_value(r, sort, cost_visible) as value
      from ai.runs r
      where r.workspace_id = workspace and r.created_at >= starts_at and r.created_at < ends_at
        and ai.matches_run_filter(r, filter)
    ) s;
  else
    select (
      select scanned.id
      from (
        select *
        from ai.runs r
        where r.workspace_id = workspace and r.created_at >= greatest(starts_at, run.created_at) and r.created_at < ends_at
          and not (r.created_at = run.created_at and r.id <= run.id)
        order by r.created_at, r.id
        limit scan_limit
      ) as scanned
      where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
      order by scanned.created_at, scanned.id
      limit 1
    ) as previous, (
      select scanned.id
      from (
        select *
        from ai.runs r
        where r.workspace_id = workspace and r.created_at >= starts_at
          and r.created_at < least(ends_at, run.created_at + interval '1 microsecond')
          and not (r.created_at = run.created_at and r.id >= run.id)
        order by r.created_at desc, r.id desc
        limit scan_limit
      ) as scanned
      where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
      order by scanned.created_at desc, scanned.id desc
      limit 1
    ) as next
    into found_ids;
  end if;
  return jsonb_build_object('previous', found_ids.previous, 'next', found_ids.next);
end
$$;
