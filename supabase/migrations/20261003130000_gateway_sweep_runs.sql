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

-- Open runs are not looked for by an index of their own: each run would enter it and leave it, and its end would change
-- an indexed column, so that all of the run's index entries would be written anew.

create table ai.lasting_runs (
  run_created_at timestamptz not null,
  run_id uuid not null,
  primary key (run_created_at, run_id)
);
comment on table ai.lasting_runs is
  'Runs that were still open when the sweeper came by, 45 seconds after they began or later: of all runs the few that it '
  'looks at again. Those that have ended since go when it comes again.';

create table ai.sweep_progress (
  only_one boolean primary key default true check (only_one),
  seen_until timestamptz not null default now(),
  next_until timestamptz not null default now(),
  next_xid xid8 not null default pg_current_xact_id(),
  check (seen_until <= next_until)
);
comment on table ai.sweep_progress is 'How far the sweeper has looked through the runs in the order in which they began.';
comment on column ai.sweep_progress.seen_until is
  'Of runs that began by then, those that are open are in ai.lasting_runs. To have all looked through again, set it back.';
comment on column ai.sweep_progress.next_until is
  'What seen_until becomes once no transaction before next_xid is under way: by then the last run of that time has '
  'committed, however long the disk or a replica kept it waiting.';
insert into ai.sweep_progress default values;

alter table ai.lasting_runs enable row level security;
alter table ai.sweep_progress enable row level security;
revoke all on ai.lasting_runs, ai.sweep_progress from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.lasting_runs, ai.sweep_progress from service_role;
select private.protect_table('ai.lasting_runs');
select private.protect_table('ai.sweep_progress');

create function ai.list_lasting_runs(cutoff timestamptz) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
  -- Runs are found by when they began, however few there were when the plan was made.
  set enable_seqscan = off
as $$
declare
  progress ai.sweep_progress;
  snapshot pg_snapshot := pg_current_snapshot();
begin
  -- Unless the clock was set back, nothing changes: what began since then is later than the cutoff.
  update ai.sweep_progress p
  set seen_until = least(p.seen_until, cutoff), next_until = least(p.next_until, cutoff)
  returning * into strict progress;
  delete from ai.lasting_runs l
  where not exists (
    select from ai.runs r where r.created_at = l.run_created_at and r.id = l.run_id and r.status = 'running'
  );
  insert into ai.lasting_runs (run_created_at, run_id)
  select r.created_at, r.id
  from ai.runs r
  where r.created_at > progress.seen_until and r.created_at <= cutoff and r.status = 'running'
  on conflict do nothing;
  -- Of a transaction that never ends, as one that is prepared and forgotten, none of these runs is a part; and one of
  -- another cluster, out of whose copy this one was made, has ended.
  if pg_snapshot_xmin(snapshot) >= progress.next_xid or pg_snapshot_xmax(snapshot) < progress.next_xid
    or progress.next_until < cutoff - interval '10 minutes'
  then
    update ai.sweep_progress
    set seen_until = progress.next_until, next_until = cutoff, next_xid = pg_current_xact_id();
  end if;
end
$$;
comment on function ai.list_lasting_runs(timestamptz) is
  'Adds to ai.lasting_runs the open ones of the runs that began since it last looked and until the cutoff, and takes out '
  'those that have ended. Each run is read twice at most, at two visits, unless a transaction older than its is under way.';
revoke execute on function ai.list_lasting_runs(timestamptz) from public, anon, authenticated;

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
  perform ai.list_lasting_runs(cutoff);

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
    select r.*
    from ai.lasting_runs l
    join ai.runs r on r.created_at = l.run_created_at and r.id = l.run_id
    where r.status = 'running' and r.touched_at < cutoff
    order by random()
    limit 500
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
