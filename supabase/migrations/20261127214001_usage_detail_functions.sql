-- Generated from supabase/schemas by npm run db:migration.

drop function ai.usage_between(uuid, timestamp with time zone, timestamp with time zone);

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_overview(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, grouped_by text default 'day', days_each integer default 1, max_rows integer default 500
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
  -- Planned once a connection.
  set plan_cache_mode = force_generic_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  fault text := coalesce(
    (ai.usage_window(range_from, range_to, 30)).fault, (ai.usage_window(previous_from, previous_to, 30)).fault
  );
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', fault);
  end if;
  return (
    with current as materialized (
      select * from ai.usage_by_key(workspace, range_from, range_to, grouped_by, days_each, visible)
    ), previous as materialized (
      select * from ai.usage_by_key(workspace, previous_from, previous_to, grouped_by, days_each, visible)
    ), deducted as materialized (
      select ((d.day - range_from::date) / days_each * days_each)::text as key, d.credits
      from ai.unlinked_deductions_by_day(member_id, workspace, range_from, range_to) d
    ), listed as (
      select coalesce(c.key, p.key) as key, c.sums, p.sums as previous_sums, c.cost_usd, c.billed_credits, c.requests
      from (select * from current where key is not null) c
      full join (select * from previous where key is not null) p on p.key = c.key
    ), shown as (
      select l.*, row_number() over (
        order by
          case when grouped_by = 'day' then l.key::integer end desc,
          case when visible then l.cost_usd else l.billed_credits end desc nulls last,
          l.requests desc nulls last,
          l.key collate "C"
      ) as place
      from listed l
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'everUsed', exists (select from ai.runs r where r.workspace_id = workspace),
      'totals', t.sums || jsonb_build_object(
        'otherDeductions', trim_scale(o.credits)::text,
        'usedCredits', trim_scale(o.credits + coalesce(t.billed_credits, 0))::text
      ),
      'previous', b.sums || jsonb_build_object(
        'usedCredits', trim_scale(
          ai.unlinked_deductions(member_id, workspace, previous_from, previous_to) + coalesce(b.billed_credits, 0)
        )::text
      ),
      'rows', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'key', s.key,
            'name', case grouped_by
              when 'key' then (
                select k.name from ai.keys k
                where k.lineage_id = nullif(s.key, '')::uuid and k.workspace_id = workspace
                order by k.created_at desc limit 1
              )
              when 'app' then ai.app_label(nullif(s.key, '')::uuid)
              when 'member' then ai.member_label(workspace, nullif(s.key, '')::uuid)
            end,
            'now', s.sums,
            'before', s.previous_sums
          )
          order by s.place
        ), '[]')
        from shown s
        where s.place <= max_rows
      ),
      'series', case when grouped_by = 'model' then (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'day', m.day,
            'model', m.model,
            'requests', m.requests,
            'failed', m.failed,
            'tokens', m.tokens,
            'amountUsd', case when visible then trim_scale(m.cost_usd)::text end,
            'billedCredits', trim_scale(m.billed_credits)::text
          )
          order by m.day, m.place
        ), '[]')
        from ai.model_usage_by_day(
          workspace, range_from, range_to, days_each,
          array(select s.key from shown s where s.cost_usd is not null order by s.place limit 6)
        ) m
      ) end,
      'leftOut', (select count(*) from shown s where s.place > max_rows),
      'deductions', (
        select coalesce(jsonb_object_agg(x.key, trim_scale(x.credits)::text), '{}')
        from (select d.key, sum(d.credits) as credits from deducted d group by d.key) x
      )
    )
    from (select * from current where key is null) t
    cross join (select * from previous where key is null) b
    cross join (select coalesce(sum(d.credits), 0) as credits from deducted d) o
  );
end
$$;

create or replace function ai.usage_key(part ai.usage_daily, grouped_by text, first_day date, days_each integer) returns text
  language sql
  immutable
  security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then (part).model_id
    when 'feature' then (part).feature
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
    when 'member' then coalesce((part).actor_id::text, '')
  end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  set timezone = 'UTC'
as $$
declare
  asked record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.usage_between(workspace, asked.window_from, asked.window_to, by_member)
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- Servers of the release before continue with seven parts.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed
      from parts u
      where not by_label
      group by 1
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed)
      from ai.label_usage_between(workspace, asked.window_from, asked.window_to) l
      where by_label
      group by 1
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(asked.window_from - (asked.window_to - asked.window_from)),
        'to', ai.utc_text_microseconds(asked.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, asked.window_from, asked.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'day', nullif(p.key[1], ''),
            'model', nullif(p.key[2], ''),
            'feature', nullif(p.key[3], ''),
            'executionMode', nullif(p.key[4], ''),
            'provider', nullif(p.key[5], ''),
            'keyId', nullif(p.key[6], ''),
            'keyName', (
              select k.name from ai.keys k
              where k.lineage_id = nullif(p.key[6], '')::uuid and k.workspace_id = workspace
              order by k.created_at desc limit 1
            ),
            'appId', nullif(p.key[7], ''),
            'appName', ai.app_label(nullif(p.key[7], '')::uuid),
            'memberId', case when by_member then nullif(p.key[8], '') end,
            'memberName', case when by_member then ai.member_label(workspace, nullif(p.key[8], '')::uuid) end,
            'label', case when by_label then nullif(p.key[8], '') end,
            'position', p.key
          )
          order by p.key collate "C"
        ), '[]')
        from (
          select * from grouped g
          where after is null or g.key collate "C" > after collate "C"
          order by g.key collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

create or replace function ai.member_label(workspace uuid, member uuid) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    (
      select coalesce(p.display_name, 'Unknown')
      from public.workspace_members m
      left join public.profiles p on p.id = m.user_id
      where m.workspace_id = workspace and m.user_id = member
    ),
    'Former member'
  )
  where member is not null
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.live_usage_ranges(
  workspace uuid, window_from timestamptz, window_to timestamptz, detailed boolean
) returns table (first_moment timestamptz, end_moment timestamptz, first_day date, last_day date)
  language sql
  stable
  security invoker
as $$
  with bounds as (
    select
      s.before,
      case when detailed then least(s.detailed_from, s.before) else '-infinity' end as sums_from,
      (window_from at time zone 'UTC')::date as first_day,
      (window_to at time zone 'UTC')::date as last_day
    from ai.usage_sealed_days s
  ), days as (
    select c.day
    from bounds b
    join ai.usage_changed_days c on c.workspace_id = workspace and c.day between b.first_day and b.last_day
    where c.day >= b.sums_from and c.day < b.before
    union
    -- Days that the window cuts.
    select e.day
    from bounds b
    cross join lateral (values (b.first_day, window_from), (b.last_day, window_to)) as e (day, edge)
    where e.day >= b.sums_from and e.day < b.before and e.edge <> e.day::timestamp at time zone 'UTC'
  ), ranges as (
    select d.day::timestamp at time zone 'UTC' as first_moment, (d.day + 1)::timestamp at time zone 'UTC' as end_moment
    from days d
    union all
    select '-infinity', b.sums_from::timestamp at time zone 'UTC' from bounds b
    union all
    select b.before::timestamp at time zone 'UTC', 'infinity' from bounds b
  )
  select
    c.first_moment, c.end_moment, (c.first_moment at time zone 'UTC')::date,
    ((c.end_moment - interval '1 microsecond') at time zone 'UTC')::date
  from ranges r
  cross join lateral (
    select greatest(window_from, r.first_moment) as first_moment, least(window_to, r.end_moment) as end_moment
  ) c
  where c.first_moment < c.end_moment
$$;

-- Definer: the server's service role holds no grant to write sums.
create or replace function ai.roll_up_usage(max_days integer default 31) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.roll_up_usage', 0)) then
    return 0;
  end if;
  return ai.seal_completed_usage_days(max_days) + ai.rebuild_changed_usage_days(max_days) + ai.detail_older_usage_days(max_days);
end
$$;

create or replace function ai.seal_completed_usage_days(max_days integer) returns integer
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

create or replace function ai.detail_older_usage_days(max_days integer) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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

create or replace function ai.workspaces_used_on(day date) returns uuid[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array(
    select distinct r.workspace_id
    from ai.runs r
    where r.created_at >= day::timestamp at time zone 'UTC' and r.created_at < (day + 1)::timestamp at time zone 'UTC'
  )
$$;

-- As ai.sum_usage.
create or replace function ai.sum_labels(workspace uuid, first_moment timestamptz, end_moment timestamptz)
  returns setof ai.usage_labels_daily
  language sql
  stable
  security invoker
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

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.usage_between(
  workspace uuid, window_from timestamptz, window_to timestamptz, by_member boolean default false
)
  returns setof ai.usage_daily
  language sql
  stable
  security invoker
as $$
  with live as materialized (
    select * from ai.live_usage_ranges(workspace, window_from, window_to, by_member)
  )
  select u.*
  from ai.usage_daily u
  where u.workspace_id = workspace
    and u.day >= (window_from at time zone 'UTC')::date
    and u.day < (window_to at time zone 'UTC')::date
    and not exists (select from live l where u.day between l.first_day and l.last_day)
  union all
  select s.*
  from live l
  cross join lateral ai.sum_usage(workspace, l.first_moment, l.end_moment) as s
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.label_usage_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.usage_labels_daily
  language sql
  stable
  security invoker
as $$
  with live as materialized (
    select * from ai.live_usage_ranges(workspace, window_from, window_to, true)
  )
  select u.*
  from ai.usage_labels_daily u
  where u.workspace_id = workspace
    and u.day >= (window_from at time zone 'UTC')::date
    and u.day < (window_to at time zone 'UTC')::date
    and not exists (select from live l where u.day between l.first_day and l.last_day)
  union all
  select s.*
  from live l
  cross join lateral ai.sum_labels(workspace, l.first_moment, l.end_moment) as s
$$;

create or replace function ai.rebuild_usage_day(day date, workspaces uuid[]) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
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

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer, cost_visible boolean
) returns table (key text, sums jsonb, cost_usd numeric, billed_credits numeric, requests numeric)
  language sql
  stable
  security invoker
as $$
  select
    g.key,
    ai.usage_sums(
      g.requests, g.failed, g.input_tokens, g.output_tokens, case when cost_visible then coalesce(g.cost_usd, 0) end,
      g.billed_credits, g.unmetered_credits, g.latency_ms, g.timed
    ) || jsonb_build_object(
      'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
    ),
    g.cost_usd, g.billed_credits, g.requests
  from (
    -- The row without a key is all of it.
    select
      u.key, sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
      sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
      sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed,
      sum(u.latency_marks) as latency_marks, sum(u.first_token_marks) as first_token_marks
    from (
      select ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.*
      from ai.usage_between(workspace, window_from, window_to, grouped_by = 'member') p
    ) u
    group by grouping sets ((u.key), ())
  ) g
  cross join lateral ai.latency_quantiles(g.latency_marks) as l
  cross join lateral ai.latency_quantiles(g.first_token_marks) as f
  -- By label, the sums of all of it alone.
  where g.key is null or grouped_by <> 'label'
  union all
  select
    b.label,
    ai.usage_sums(
      sum(b.requests), sum(b.failed), sum(b.input_tokens), sum(b.output_tokens), case when cost_visible then sum(b.cost_usd) end,
      sum(b.billed_credits), sum(b.unmetered_credits), sum(b.latency_ms), sum(b.timed)
    ) || '{"latencyP50Ms": null, "latencyP95Ms": null, "firstTokenP50Ms": null, "firstTokenP95Ms": null}',
    sum(b.cost_usd), sum(b.billed_credits), sum(b.requests)
  from ai.label_usage_between(workspace, window_from, window_to) b
  where grouped_by = 'label'
  group by b.label
$$;

-- As ai.sum_usage, part of its callers' plans.
create or replace function ai.model_usage_by_day(
  workspace uuid, window_from timestamptz, window_to timestamptz, days_each integer, models text[]
) returns table (
  day integer, model text, place integer, requests numeric, failed numeric, tokens numeric, cost_usd numeric,
  billed_credits numeric
)
  language sql
  stable
  security invoker
as $$
  select
    (u.day - (window_from at time zone 'UTC')::date) / days_each * days_each, models[o.place], o.place, sum(u.requests),
    sum(u.failed), sum(u.input_tokens + u.output_tokens), sum(u.cost_usd), sum(u.billed_credits)
  from ai.usage_between(workspace, window_from, window_to) u
  cross join lateral (select array_position(models, u.model_id) as place) o
  group by 1, o.place
$$;

comment on function ai.read_overview(uuid, uuid, timestamptz, timestamptz, timestamptz, timestamptz, text, integer, integer) is
  'What a workspace used in a range, for a member with use_ai_studio: totals, those of the previous range, and rows by '
  'day (key: how many days of the range come before), model, feature, key (its lineage), app, member or label (empty: '
  'none, *: the others), the largest first, days the newest first. series: by model, what the six largest used each day, '
  'and the others together (null). Credits deducted without a run stand beside them, by day in deductions.';

comment on function ai.read_usage(uuid, uuid, timestamptz, timestamptz, text[], text[], integer) is
  'A workspace''s usage for a member with use_ai_studio, grouped by any of day, model, feature, executionMode, provider, '
  'key (its lineage), app and member, or by label, alone or with day: a page of rows, with totals of the whole window and credits deducted without a run beside '
  'them. By default the last 30 days. after is the position of the last row of the page before.';

comment on function ai.roll_up_usage(integer) is
  'Keeps ai.usage_daily and ai.usage_labels_daily: at most max_days new days, changed days and days without details, one '
  'caller at a time. Returns how many days it summed; 0 if there is nothing to do.';

comment on function ai.usage_by_key(uuid, timestamptz, timestamptz, text, integer, boolean) is
  'A range''s sums and quantiles by ai.usage_key or label, and of all of it where key is null. Amounts are exact texts in '
  'sums. Labels have no quantiles.';

comment on function ai.detail_older_usage_days(integer) is
  'Sums sealed days again that have no members and labels yet, the newest first, at most max_days. Returns how many.';

comment on function ai.label_usage_between(uuid, timestamptz, timestamptz) is
  'As ai.usage_between, by label.';

comment on function ai.live_usage_ranges(uuid, timestamptz, timestamptz, boolean) is
  'The parts of a window that are read from runs: days that are not sealed, changed since, cut by the window, or, where '
  'details (members, labels) are asked for, not summed with them yet.';

comment on function ai.member_label(uuid, uuid) is
  'The name of a workspace''s member; Former member for anyone else, null for nobody.';

comment on function ai.model_usage_by_day(uuid, timestamptz, timestamptz, integer, text[]) is
  'What some models used by day (how many days of the range come before), and all others together (null).';

comment on function ai.sum_labels(uuid, timestamptz, timestamptz) is
  'A workspace''s runs of a half-open range by day and label (X-Platform-Entity-Id), as ai.usage_labels_daily has them: the '
  '10,000 most expensive labels of each day, the others together.';

comment on function ai.usage_between(uuid, timestamptz, timestamptz, boolean) is
  'A workspace''s usage of a half-open window, in parts that callers group: sums of days that are wholly in the window, '
  'sealed and unchanged, the rest from the runs themselves. One statement sees each run once. by_member: whether callers '
  'group by actor_id, which the sums of some days may not have yet.';

comment on function ai.workspaces_used_on(date) is 'The workspaces with runs of a UTC day.';

revoke delete, insert, update on table ai.usage_labels_daily from service_role;
