-- What keeps an open run open, and what ends it when its function has died.

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create function ai.touch_runs(runs jsonb) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  perform from ai.runs r
  join jsonb_to_recordset(runs) as o (created_at timestamptz, id uuid) on r.created_at = o.created_at and r.id = o.id
  -- As settlements lock several.
  order by r.account_id, r.id
  for update of r;
  update ai.runs r
  set
    touched_at = now(),
    route = coalesce(o.route, r.route),
    input_tokens = greatest(r.input_tokens, o.input_tokens),
    output_tokens = greatest(r.output_tokens, o.output_tokens)
  from jsonb_to_recordset(runs) as o (
    created_at timestamptz, id uuid, route smallint, input_tokens bigint, output_tokens bigint
  )
  where r.created_at = o.created_at and r.id = o.id and r.status = 'running';
end
$$;
comment on function ai.touch_runs(jsonb) is 'Says that runs are still alive, and their counts so far.';
revoke execute on function ai.touch_runs(jsonb) from public, anon, authenticated;
grant execute on function ai.touch_runs(jsonb) to gateway;

-- Definer: the server's service role holds no grant to write runs or balances.
create function ai.sweep_runs() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  cutoff timestamptz := now() - interval '45 seconds';
  abandoned jsonb;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_runs', 0)) then
    return 0;
  end if;
  if to_regclass(format('ai.runs_%s', to_char(now() at time zone 'UTC' + interval '2 months', 'YYYY_MM'))) is null then
    perform ai.create_run_partitions();
  end if;

  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 500,
    'error_code', 'abandoned',
    'usage_source', case when r.input_tokens + r.output_tokens > 0 then 'estimated_partial' else 'unavailable' end,
    'calls', case when r.input_tokens + r.output_tokens > 0 then jsonb_build_array(jsonb_build_object(
      'route', r.route,
      'estimated', true,
      'usage', jsonb_build_object('input_tokens', r.input_tokens, 'output_tokens', r.output_tokens)
    )) end
  ))
  into abandoned
  from (
    -- Drawn, and not the oldest first: those that cannot be booked stay open, and would hold up all others.
    select * from ai.runs r where r.status = 'running' and r.touched_at < cutoff order by random() limit 500
  ) as r;
  if abandoned is null then
    return 0;
  end if;
  return jsonb_array_length(ai.end_bookable_runs(abandoned, cutoff));
end
$$;
comment on function ai.sweep_runs() is
  'Closes runs that nobody has touched for 45 seconds, because their function died: at their last counts, at most what '
  'was reserved, or unavailable at 0. Also keeps partitions ahead. One sweeper at a time; others return 0.';
revoke execute on function ai.sweep_runs() from public, anon, authenticated;
grant execute on function ai.sweep_runs() to service_role;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-sweep-runs', '15 seconds', 'select ai.sweep_runs()');
  end if;
end
$$;
