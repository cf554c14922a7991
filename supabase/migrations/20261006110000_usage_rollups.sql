-- Daily sums of runs, so that a year over a million runs answers in milliseconds. Sums hold days that are over; the rest
-- is added live in the same statement. A run of such a day that changes afterwards leaves a mark in the same
-- transaction: whoever sees the change sees the mark, and reads that day live until it is summed anew.

create table ai.usage_daily (
  workspace_id uuid not null,
  day date not null,
  app_id uuid,
  key_lineage_id uuid,
  provider_id text,
  model_id text not null,
  feature text not null,
  execution_mode text not null,
  requests bigint not null,
  failed bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_usd numeric(36, 12) not null,
  billed_credits numeric(36, 8) not null,
  unmetered_credits numeric(36, 8) not null,
  latency_ms bigint not null,
  timed bigint not null,
  latency_marks numeric not null,
  first_token_marks numeric not null,
  unique nulls not distinct (workspace_id, day, app_id, key_lineage_id, provider_id, model_id, feature, execution_mode)
);
comment on table ai.usage_daily is
  'Runs summed by the UTC day that they began in. Never the truth itself: ai.roll_up_usage() makes it from ai.runs again. '
  'No foreign keys, as runs have none.';
comment on column ai.usage_daily.timed is 'How many runs latency_ms is the sum of.';
comment on column ai.usage_daily.latency_marks is
  'The sum of its runs'' ai.latency_mark: a histogram, for quantiles of any range and group.';
comment on column ai.usage_daily.first_token_marks is 'As latency_marks, of the time to the first token of streams.';
alter table ai.usage_daily enable row level security;
revoke all on ai.usage_daily from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.usage_daily from service_role;
select private.protect_table('ai.usage_daily');

create table ai.usage_changes (
  id bigint generated always as identity primary key,
  workspace_id uuid not null,
  day date not null
);
comment on table ai.usage_changes is
  'Days of a workspace whose runs changed after they were over. A queue without a unique key, so that settlements never '
  'wait for each other here.';
create index usage_changes_workspace_id_day_idx on ai.usage_changes (workspace_id, day);
alter table ai.usage_changes enable row level security;
revoke all on ai.usage_changes from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.usage_changes from service_role;
select private.protect_table('ai.usage_changes');

create table ai.usage_sealed (
  singleton boolean primary key default true check (singleton),
  before date not null
);
comment on table ai.usage_sealed is 'ai.usage_daily holds the days before this one.';
alter table ai.usage_sealed enable row level security;
revoke all on ai.usage_sealed from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.usage_sealed from service_role;
select private.protect_table('ai.usage_sealed');
insert into ai.usage_sealed (before)
select coalesce((min(r.created_at) at time zone 'UTC')::date, (now() at time zone 'UTC')::date) from ai.runs r;

-- Definer: whoever settles a run holds no grant on the queue.
create function ai.mark_usage_change() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  run ai.runs := case when tg_op = 'DELETE' then old else new end;
begin
  if run.created_at < date_trunc('day', now(), 'UTC') then
    insert into ai.usage_changes (workspace_id, day)
    values (run.workspace_id, (run.created_at at time zone 'UTC')::date);
  end if;
  return null;
end
$$;
comment on function ai.mark_usage_change() is 'Runs of today are read live and need no mark, so that calls pay nothing for this.';
revoke execute on function ai.mark_usage_change() from public, anon, authenticated;
create trigger mark_usage_change after update on ai.runs
  for each row when (new.created_at < date_trunc('day', now(), 'UTC')) execute function ai.mark_usage_change();
comment on trigger mark_usage_change on ai.runs is 'A run of a day that is over was settled.';
create trigger mark_usage_addition after insert on ai.runs
  for each row when (new.created_at <> now()) execute function ai.mark_usage_change();
comment on trigger mark_usage_addition on ai.runs is
  'For the operator''s hand: whatever begins by ours begins now, which its condition says in fewest words, since each '
  'statement reads it anew.';
create trigger mark_usage_deletion after delete on ai.runs
  for each row when (old.created_at < date_trunc('day', now(), 'UTC')) execute function ai.mark_usage_change();
comment on trigger mark_usage_deletion on ai.runs is 'For the operator''s hand: nothing of ours deletes runs.';

create function ai.listed_provider(routes jsonb, route smallint) returns text
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select coalesce(
    (select r ->> 'provider' from jsonb_array_elements(routes) as r where (r ->> 'position')::smallint = route limit 1),
    routes -> 0 ->> 'provider'
  )
$$;
comment on function ai.listed_provider(jsonb, smallint) is 'The provider of the route at a position, else the first, wherever it is listed.';
revoke execute on function ai.listed_provider(jsonb, smallint) from public, anon, authenticated;

create function ai.provider_of(routes jsonb, route smallint) returns text
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- Routes are listed in order. A function without a subselect is part of its caller's plan, which is ten times as fast.
  select case
    when (routes -> (route - 1) ->> 'position')::smallint = route then routes -> (route - 1) ->> 'provider'
    else ai.listed_provider(routes, route)
  end
$$;
comment on function ai.provider_of(jsonb, smallint) is 'The provider that a run is charged at, as ai.sum_calls prices it.';
revoke execute on function ai.provider_of(jsonb, smallint) from public, anon, authenticated;

create function ai.latency_bucket(ms integer) returns integer
  language sql
  immutable
  security invoker
  parallel safe
as $$
  -- A hair over, so that powers of two begin their bucket whatever the logarithm's last digit.
  select case
    when ms < 1 then 0
    when ms >= 1 then least(1 + floor(4 * ln(ms::double precision) / ln(2::double precision) + 1e-9), 80)
  end::integer
$$;
comment on function ai.latency_bucket(integer) is
  'The bucket of a duration: bucket n, from 1 to 80, holds 2^((n - 1) / 4) to 2^(n / 4) ms, which is 19 % wide; bucket 0 '
  'what is shorter than 1 ms, the last also what is longer than 17 minutes.';
revoke execute on function ai.latency_bucket(integer) from public, anon, authenticated;

create function ai.latency_mark(ms integer) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ('1e' || 12 * ai.latency_bucket(ms))::numeric
$$;
comment on function ai.latency_mark(integer) is
  'One run in its bucket, as a number with twelve digits for each: sums of marks are histograms, and adding numbers is '
  'what Postgres does fastest. Null without a duration.';
revoke execute on function ai.latency_mark(integer) from public, anon, authenticated;

-- Without settings of its own, so that its callers' plans take it in: their conditions reach the runs.
create function ai.sum_usage(workspace uuid, first_moment timestamptz, end_moment timestamptz) returns setof ai.usage_daily
  language sql
  stable
  security invoker
as $$
  select
    r.workspace_id, (r.created_at at time zone 'UTC')::date, r.app_id, r.key_lineage_id, ai.provider_of(r.routes, r.route),
    r.model_id, r.feature, r.execution_mode,
    count(*), count(*) filter (where r.status = 'failed'), sum(r.input_tokens)::bigint, sum(r.output_tokens)::bigint,
    sum(r.cost_usd), sum(r.billed_credits), sum(r.unmetered_credits),
    coalesce(sum(r.latency_ms), 0)::bigint, count(r.latency_ms),
    coalesce(sum(ai.latency_mark(r.latency_ms)), 0),
    coalesce(sum(ai.latency_mark(case when r.streamed then r.first_byte_ms end)), 0)
  from ai.runs r
  where r.workspace_id = workspace and r.created_at >= first_moment and r.created_at < end_moment
  group by 1, 2, 3, 4, 5, 6, 7, 8
$$;
comment on function ai.sum_usage(uuid, timestamptz, timestamptz) is
  'A workspace''s runs of a half-open range, open ones included, summed as ai.usage_daily has them.';
revoke execute on function ai.sum_usage(uuid, timestamptz, timestamptz) from public, anon, authenticated;

create function ai.sum_usage_day(day date, workspaces uuid[]) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from ai.usage_daily u where u.day = sum_usage_day.day and u.workspace_id = any (workspaces);
  insert into ai.usage_daily
  select s.*
  from unnest(workspaces) as w (id)
  cross join lateral ai.sum_usage(
    w.id, sum_usage_day.day::timestamp at time zone 'UTC', (sum_usage_day.day + 1)::timestamp at time zone 'UTC'
  ) as s
$$;
comment on function ai.sum_usage_day(date, uuid[]) is 'Puts a day''s sums of some workspaces in place of what was there.';
revoke execute on function ai.sum_usage_day(date, uuid[]) from public, anon, authenticated;

create function ai.seal_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  -- A call of yesterday has long committed: the gateway's statements take 10 seconds at most.
  last_end date := ((now() - interval '15 minutes') at time zone 'UTC')::date;
  next_day date;
  sealed integer := 0;
begin
  select s.before into next_day from ai.usage_sealed s;
  while next_day < last_end and sealed < max_days loop
    perform ai.sum_usage_day(next_day, array(
      select distinct r.workspace_id
      from ai.runs r
      where r.created_at >= next_day::timestamp at time zone 'UTC'
        and r.created_at < (next_day + 1)::timestamp at time zone 'UTC'
    ));
    next_day := next_day + 1;
    sealed := sealed + 1;
  end loop;
  if sealed > 0 then
    update ai.usage_sealed s set before = next_day where s.singleton;
  end if;
  return sealed;
end
$$;
comment on function ai.seal_usage_days(integer) is 'Sums the days that are over, in their order, at most so many. Returns how many.';
revoke execute on function ai.seal_usage_days(integer) from public, anon, authenticated;

create function ai.sum_changed_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  changed record;
  summed integer := 0;
begin
  for changed in
    select c.day, array_agg(distinct c.workspace_id) as workspaces, array_agg(c.id) as ids
    from ai.usage_changes c
    group by c.day
    order by c.day
    limit max_days
  loop
    -- What commits from here on leaves a mark that this does not take away.
    delete from ai.usage_changes c where c.id = any (changed.ids);
    continue when changed.day >= (select s.before from ai.usage_sealed s);
    perform ai.sum_usage_day(changed.day, changed.workspaces);
    summed := summed + 1;
  end loop;
  return summed;
end
$$;
comment on function ai.sum_changed_days(integer) is
  'Sums days anew whose runs changed after all, at most so many. Returns how many.';
revoke execute on function ai.sum_changed_days(integer) from public, anon, authenticated;

-- Definer: the server's service role holds no grant to write sums.
create function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  return ai.seal_usage_days(max_days) + ai.sum_changed_days(max_days);
end
$$;
comment on function ai.roll_up_usage(integer) is
  'Keeps ai.usage_daily: at most so many new days and so many changed ones at a time, one caller at a time. Returns how '
  'many days it summed; 0 where there is nothing to do.';
revoke execute on function ai.roll_up_usage(integer) from public, anon, authenticated;
grant execute on function ai.roll_up_usage(integer) to service_role;

do $$
begin
  if exists (select from pg_catalog.pg_extension where extname = 'pg_cron') then
    perform cron.schedule('gateway-roll-up-usage', '* * * * *', 'select ai.roll_up_usage()');
  end if;
end
$$;
