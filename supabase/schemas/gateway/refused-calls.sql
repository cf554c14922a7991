-- Records calls that the gateway refused before a run began, and keeps them for seven days.

-- Records refused calls that the gateway gathered, by caller: { callers: [{ credential, workspace, age_ms, calls,
-- counts }] }. calls has the first calls of a minute in full, and counts the number of all of them by model, feature and
-- code. Adds all to the daily sums, and stores at most 20 calls a caller and minute. Ignores callers whose credential is
-- unknown by now, and sessions of people who are not members of the workspace that they name. Returns false, and records
-- nothing, while another process is recording: waiting would hold a connection of the gateway.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.record_refused_calls(batch jsonb) returns boolean
  language plpgsql volatile security definer set search_path = ''
  -- Partitions and sums are small when a plan is made and large when it is used. Lookups are subselects and lateral
  -- joins, which these settings leave as they are. All other joins are between sets of any size.
  set enable_seqscan = off set enable_nestloop = off set jit = off
as $$
declare
  max_calls constant integer := 20;
  max_combinations constant integer := 20;
  people ai.caller[];
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.record_refused_calls', 0)) then
    return false;
  end if;
  people := ai.user_callers(batch -> 'callers');
  with callers as materialized (
    select
      (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, (c.caller).entity_id, b.value as refused
    from ai.find_callers(batch -> 'callers', people) as c
    join jsonb_array_elements(batch -> 'callers') with ordinality as b (value, place) on b.place = c.place
    where (select true from public.workspaces w where w.id = (c.caller).workspace_id and w.deleted_at is null)
      and ((c.caller).source <> 'session' or (
        select true from public.workspace_members m
        where m.user_id = (c.caller).actor_id and m.workspace_id = (c.caller).workspace_id
      ))
  ), calls as materialized (
    select
      c.*, e.*, m.created_at, date_trunc('minute', m.created_at) as minute,
      row_number() over (
        partition by c.workspace_id, c.actor_id, c.app_id, c.key_id, date_trunc('minute', m.created_at)
        order by m.created_at
      ) as place
    from callers c
    cross join lateral jsonb_to_recordset(c.refused -> 'calls') as e (
      age_ms double precision, request_id text, endpoint text, feature text, label text, model text, streamed boolean,
      status smallint, code text, param text, details jsonb
    )
    cross join lateral (select ai.moment_before(e.age_ms) as created_at) as m
  ), earlier as materialized (
    -- Reads each minute of a workspace once, for all its callers.
    select s.workspace_id, m.minute, row(s.actor_id, s.app_id, s.key_id)::text as caller, count(*) as calls
    from (select distinct c.workspace_id, c.minute from calls c) as m
    cross join lateral (
      select *
      from ai.refused_calls r
      where r.workspace_id = m.workspace_id
        and r.created_at >= m.minute and r.created_at < m.minute + interval '1 minute'
      offset 0
    ) as s
    group by 1, 2, 3
  ), stored as (
    insert into ai.refused_calls (
      id, created_at, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, feature, entity_id,
      request_id, model_id, endpoint, streamed, http_status, error_code, param, details
    )
    select
      ai.run_id(c.created_at), c.created_at, c.workspace_id, c.actor_id, c.app_id, c.key_id, c.lineage_id, c.source,
      c.feature, coalesce(c.entity_id, c.label), c.request_id, left(c.model, 128), c.endpoint,
      coalesce(c.streamed, false), c.status, c.code, left(c.param, 256), c.details
    from calls c
    left join earlier e
      on e.workspace_id = c.workspace_id and e.minute = c.minute
      and e.caller = row(c.actor_id, c.app_id, c.key_id)::text
    where coalesce(e.calls, 0) + c.place <= max_calls
  ), counted as materialized (
    select
      c.workspace_id, (ai.moment_before((c.refused ->> 'age_ms')::double precision) at time zone 'UTC')::date as day,
      c.app_id, c.lineage_id, c.actor_id,
      (select m.id from ai.models m where m.id = n.model) as model_id, n.feature,
      case c.source when 'key' then 'background' else 'interactive' end as execution_mode, n.code,
      sum(n.count)::bigint as refused
    from callers c
    cross join lateral jsonb_to_recordset(c.refused -> 'counts') as n (
      model text, feature text, code text, count bigint
    )
    where n.count > 0
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9
  ), totals as (
    insert into ai.totals as t (figure, label, total)
    select 'refused_calls', c.code, sum(c.refused)
    from counted c
    group by c.code
    on conflict (figure, label) do update set total = t.total + excluded.total
  ), summed as materialized (
    select
      c.workspace_id, c.day, c.app_id, c.lineage_id, c.actor_id, c.model_id, c.feature, c.execution_mode,
      row(c.app_id, c.lineage_id, c.actor_id, c.execution_mode)::text as caller,
      row(c.model_id, c.feature)::text as combination, sum(c.refused) as refused
    from counted c
    group by 1, 2, 3, 4, 5, 6, 7, 8
  ), known as materialized (
    -- Reads each day of a workspace once, for all its callers.
    select
      d.workspace_id, d.day, row(d.app_id, d.key_lineage_id, d.actor_id, d.execution_mode)::text as caller,
      row(d.model_id, d.feature)::text as combination
    from (select distinct s.workspace_id, s.day from summed s) as w
    cross join lateral (
      select * from ai.refused_daily r where r.workspace_id = w.workspace_id and r.day = w.day offset 0
    ) as d
  ), bounded as (
    select
      s.*,
      k.combination is not null or coalesce(n.combinations, 0) + row_number() over (
        partition by s.workspace_id, s.day, s.caller, k.combination is null
      ) <= max_combinations as has_row
    from summed s
    left join known k
      on k.workspace_id = s.workspace_id and k.day = s.day and k.caller = s.caller and k.combination = s.combination
    left join (select workspace_id, day, caller, count(*) as combinations from known group by 1, 2, 3) as n
      on n.workspace_id = s.workspace_id and n.day = s.day and n.caller = s.caller
  )
  insert into ai.refused_daily as d (
    workspace_id, day, app_id, key_lineage_id, actor_id, model_id, feature, execution_mode, refused
  )
  select
    b.workspace_id, b.day, b.app_id, b.lineage_id, b.actor_id, case when b.has_row then b.model_id end,
    case when b.has_row then b.feature end, b.execution_mode, sum(b.refused)
  from bounded b
  group by 1, 2, 3, 4, 5, 6, 7, 8
  on conflict (workspace_id, day, app_id, key_lineage_id, actor_id, model_id, feature, execution_mode)
    do update set refused = d.refused + excluded.refused;
  return true;
end
$$;

-- Returns the time that was age_ms milliseconds ago, at most an hour. The gateway sends ages, because its clock may
-- differ from the database's.
create or replace function ai.moment_before(age_ms double precision) returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select now() - least(greatest(age_ms, 0), 3600000) * interval '1 millisecond'
$$;

-- Creates the partitions of ai.refused_calls for today and the next two days, and drops those of days that ended more
-- than seven days ago. Waits only briefly for the lock on the table, because recording and reading then wait too; the
-- next call tries again. Returns the number of partitions that it created or dropped.
create or replace function ai.rotate_refused_call_partitions() returns integer
  language plpgsql volatile security invoker
  -- Partitions cover UTC days, regardless of the caller's time zone.
  set timezone = 'UTC' set search_path = '' set lock_timeout = '100ms'
as $$
declare
  day date;
  partition text;
  changed integer := 0;
begin
  for day in select now()::date + n from generate_series(0, 2) as n loop
    partition := format('ai.refused_calls_%s', to_char(day, 'YYYY_MM_DD'));
    continue when to_regclass(partition) is not null;
    -- Rows in the default partition stay there.
    continue when exists (
      select from ai.refused_calls_default c where c.created_at >= day and c.created_at < day + 1
    );
    execute format(
      'create table %s partition of ai.refused_calls for values from (%L) to (%L)',
      partition, day::timestamptz, (day + 1)::timestamptz
    );
    perform ai.protect_partition(partition::regclass);
    changed := changed + 1;
  end loop;
  for partition in
    select i.inhrelid::regclass::text
    from pg_catalog.pg_inherits i
    join pg_catalog.pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'ai.refused_calls'::regclass
      and c.relname ~ '^refused_calls_\d{4}_\d\d_\d\d$'
      and to_date(right(c.relname, 10), 'YYYY_MM_DD') + 8 <= now()::date
  loop
    execute format('drop table %s', partition);
    changed := changed + 1;
  end loop;
  return changed;
exception when lock_not_available then
  return 0;
end
$$;
