-- Records heartbeats of open runs, closes abandoned runs and deletes expired rows.

-- Records a heartbeat of each open run, with its token counts and its cost so far.
-- Definer: gateway has no grant on any table. Callers identify a run by the id that begin_runs returned.
create or replace function ai.heartbeat_runs(runs jsonb) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  with open_runs as materialized (
    select r.created_at, r.id, o.route, o.input_tokens, o.output_tokens, o.cost_usd
    from jsonb_to_recordset(runs) as o (
      created_at timestamptz, id uuid, route smallint, input_tokens bigint, output_tokens bigint, cost_usd numeric
    )
    join ai.runs r on r.created_at = o.created_at and r.id = o.id and r.status = 'running'
    order by r.account_id, r.id
    for update of r
  )
  update ai.runs r
  set
    touched_at = now(),
    route = coalesce(o.route, r.route),
    input_tokens = greatest(r.input_tokens, o.input_tokens),
    output_tokens = greatest(r.output_tokens, o.output_tokens),
    -- The sweep charges at most the reserved amount. Without this cap, a cost too large for the column would fail the
    -- heartbeats of the whole batch.
    cost_so_far_usd = greatest(r.cost_so_far_usd, least(coalesce(o.cost_usd, 0), r.reserved_usd))
  from open_runs as o
  where r.created_at = o.created_at and r.id = o.id and r.status = 'running';
end
$$;

-- Closes runs without a heartbeat for 45 seconds, because their function must have died. Charges the cost so far, up to
-- the reserved amount, or 0 if no usage was reported. Also creates the next partitions. Returns the number of closed
-- runs; 0 while another sweep is running.
-- Definer: the server's service role has no grant to write runs or balances.
create or replace function ai.sweep_runs() returns integer
  language plpgsql volatile security definer set search_path = ''
  -- A partition may be empty when a plan is made and large when the plan is used. These settings make every plan find
  -- runs by key, one at a time.
  set plan_cache_mode = force_custom_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  cutoff timestamptz := now() - interval '45 seconds';
  abandoned jsonb;
  ended integer := 0;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_runs', 0)) then
    return 0;
  end if;
  delete from ai.long_running_runs l
  where l.run_created_at <= cutoff and not exists (
    select from ai.runs r where r.created_at = l.run_created_at and r.id = l.run_id and r.status = 'running'
  );
  perform ai.find_long_running_runs(cutoff);

  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 500,
    'error_code', 'abandoned',
    'usage_source', case when r.input_tokens + r.output_tokens > 0 then 'estimated_partial' else 'unavailable' end,
    'route', r.route,
    'estimated', true,
    'input_tokens', r.input_tokens,
    'output_tokens', r.output_tokens,
    'cost_usd', least(r.cost_so_far_usd, r.reserved_usd),
    'credits', ai.usd_to_credits(least(r.cost_so_far_usd, r.reserved_usd), r.markup)
  ))
  into abandoned
  from (
    -- In random order: runs that cannot be booked stay open, and would block the others if the oldest came first.
    select r.*
    from ai.long_running_runs l
    join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    where r.status = 'running' and r.touched_at < cutoff
    order by random()
    limit 500
  ) as r;
  if abandoned is not null then
    ended := jsonb_array_length(ai.settle_outcomes(abandoned, cutoff));
  end if;
  -- Creates partitions last, because this locks ai.runs until the transaction ends, and calls wait for the lock.
  if to_regclass(format('ai.runs_%s', to_char(now() at time zone 'UTC' + interval '2 months', 'YYYY_MM'))) is null then
    perform ai.create_run_partitions();
  end if;
  return ended;
end
$$;

-- Records in ai.long_running_runs the open runs that began between the last sweep and the cutoff. Reads each period
-- again after all transactions from that period have ended. Stops after two seconds, and the next sweep continues from
-- there.
create or replace function ai.find_long_running_runs(cutoff timestamptz) returns void
  language plpgsql volatile security invoker
as $$
declare
  stop_at timestamptz := clock_timestamp() + interval '2 seconds';
  snapshot pg_snapshot := pg_current_snapshot();
  progress ai.sweep_progress;
  seen_before timestamptz;
  whole_until timestamptz := '-infinity';
begin
  select * into strict progress from ai.sweep_progress;
  -- The clock may have been set back.
  progress.seen_until := least(progress.seen_until, cutoff);
  progress.sure_until := least(progress.sure_until, cutoff);
  -- The second condition holds after a restore into another cluster.
  if pg_snapshot_xmin(snapshot) >= progress.marked_xid or pg_snapshot_xmax(snapshot) < progress.marked_xid then
    if progress.marked_at <= now() then
      -- The 5 seconds allow for admissions, which get their transaction id at most 4 seconds after the run's created_at
      -- (ai.begin_calls), however long they wait for locks or the disk.
      whole_until := progress.marked_at - interval '5 seconds';
    end if;
    progress.marked_at := now();
    progress.marked_xid := pg_current_xact_id();
  end if;

  seen_before := progress.seen_until;
  while progress.seen_until < cutoff and clock_timestamp() < stop_at loop
    progress.seen_until := ai.record_long_running_runs(progress.seen_until, cutoff);
  end loop;
  whole_until := least(whole_until, progress.seen_until);
  -- All transactions up to whole_until have ended, so the period just read is complete up to there. sure_until advances
  -- to whole_until if all earlier periods are complete.
  if progress.sure_until = seen_before then
    progress.sure_until := greatest(progress.sure_until, whole_until);
  end if;
  while progress.sure_until < whole_until and clock_timestamp() < stop_at loop
    progress.sure_until := ai.record_long_running_runs(progress.sure_until, whole_until);
  end loop;

  update ai.sweep_progress p
  set
    seen_until = progress.seen_until,
    sure_until = progress.sure_until,
    marked_at = progress.marked_at,
    marked_xid = progress.marked_xid
  where p.singleton;
end
$$;

-- Records the open runs that began after seen_until. Stops at the cutoff, or one minute after the first run in that
-- range. Returns the time at which it stopped.
create or replace function ai.record_long_running_runs(seen_until timestamptz, cutoff timestamptz) returns timestamptz
  language plpgsql volatile security invoker
as $$
declare
  next_begun timestamptz;
  until timestamptz;
begin
  select r.created_at into next_begun
  from ai.runs r
  where r.created_at > seen_until and r.created_at <= cutoff
  order by r.created_at
  limit 1;
  until := least(next_begun + interval '1 minute', cutoff);
  insert into ai.long_running_runs (run_created_at, run_id)
  select r.created_at, r.id
  from ai.runs r
  where r.created_at > seen_until and r.created_at <= until and r.status = 'running'
  on conflict do nothing;
  return until;
end
$$;

-- Releases runs if the response to their admission was lost. The callers got 503 and no provider was called, so the
-- runs end at no cost and their idempotency keys are free again. Takes {"tails": [text], "asked_ms_ago": integer}.
-- tails are suffixes of run ids, and asked_ms_ago is the age of the oldest request. Returns the tails for which
-- admission is still in progress.
-- Definer: gateway has no grant on any table. Each run is identified by the id suffix that the gateway chose for it.
create or replace function ai.release_orphaned_runs(lost jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
  -- Forces a search by created_at through an index, even if the table was small when the plan was made.
  set enable_seqscan = off
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  if jsonb_typeof(lost -> 'tails') is distinct from 'array' or (lost ->> 'asked_ms_ago')::integer is null then
    raise exception 'orphaned runs are {"tails": [text], "asked_ms_ago": integer}' using errcode = 'invalid_parameter_value';
  end if;
  for tail in select t.value from jsonb_array_elements_text(lost -> 'tails') as t order by t.value loop
    if pg_try_advisory_xact_lock(hashtextextended(tail, 1)) then
      decided := array_append(decided, tail);
    else
      under_way := array_append(under_way, tail);
    end if;
  end loop;
  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 503,
    'error_code', 'service_unavailable',
    'usage_source', 'unavailable',
    'latency_ms', floor(extract(epoch from clock_timestamp() - r.created_at) * 1000),
    'steps', '[]'::jsonb,
    'key_unused', true
  )) into outcomes
  from ai.runs r
  where r.status = 'running'
    -- Looks back 15 seconds further than asked_ms_ago, because this call took time to arrive.
    and r.created_at > now() - interval '15 seconds' - (lost ->> 'asked_ms_ago')::integer * interval '1 millisecond'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.settle_outcomes(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;

-- Deletes expired idempotency keys, rate windows older than an hour, failed attempts and refused calls older than
-- seven days, the health of routes that were not reported for 30 days, and outages of providers and envelopes 90
-- days after their end, up to at_most of each. Returns the total number of deleted rows; 0 while another deletion is
-- running.
-- Definer: the server's service role has no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
  histories integer;
  refused integer;
  routes integer;
  outages integer;
  envelopes integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  keys := private.delete_expired_rows('ai.idempotency_keys', 'expires_at', '0', at_most);

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;

  attempts := private.delete_expired_rows('ai.failed_attempts', 'at', '7 days', at_most);
  histories := private.delete_expired_rows('ai.output_histories', 'updated_at', '30 days', at_most);
  refused := private.delete_expired_rows('ai.refused_calls_default', 'created_at', '7 days', at_most);
  routes := private.delete_expired_rows('ai.route_health', 'reported_at', '30 days', at_most);
  outages := private.delete_expired_rows('ai.provider_outages', 'ended_at', '90 days', at_most);
  with old as (
    select e.id, e.workspace_id
    from ai.envelopes e
    join ai.budgets b on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id
    where e.opened_at < now() - interval '90 days' and b.ends_at < now() - interval '90 days'
    order by e.opened_at
    limit at_most
  ), budgets as (
    delete from ai.budgets b using old
    where b.scope = 'envelope' and b.subject_id = old.id and b.workspace_id = old.workspace_id
  ), alerts as (
    delete from ai.budget_alerts a using old
    where a.scope = 'envelope' and a.subject_id = old.id and a.workspace_id = old.workspace_id
  )
  delete from ai.envelopes e using old where e.id = old.id;
  get diagnostics envelopes = row_count;
  -- Last, because this locks ai.refused_calls until the transaction ends.
  perform ai.rotate_refused_call_partitions();
  return keys + windows + attempts + histories + refused + routes + outages + envelopes;
end
$$;
