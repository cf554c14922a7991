-- Lists a workspace's runs for its members: ids, counts, amounts and times. Amounts are exact text.

-- Returns a page of a workspace's runs, newest first, for a member with use_ai_studio: { outcome: listed, runs,
-- unknown, continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature,
-- status, keyId, appId, memberId, provider, entityId, requestId. unknown names a filter with a value that does not
-- exist. With scan_limit, a filter without an index examines at most that many runs. In this case continueBefore is the
-- position to continue from, or null if no older run can match.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_runs(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit);
begin
  return page.answer || case when page.runs is null then '{}' else jsonb_build_object('runs', (
    select coalesce(jsonb_agg(
      -- Calls ai.run_pricing_facts directly. A call inside ai.run_summary would make Postgres plan ai.run_pricing_facts
      -- again for each run.
      ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible) order by r.created_at desc, r.id desc
    ), '[]')
    from unnest(page.runs) r
  )) end;
end
$$;

-- Returns a page of runs like ai.list_runs, for files of many thousand runs: each run is an array of the values that
-- ai.run_summary and ai.run_pricing_facts return, in the order of remix-app/studio/runs/run-file.ts. A run's routes are
-- JSON text, which its reader need not parse again for the next run.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_rows(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns json
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit);
begin
  return json_build_object(
    'outcome', page.answer -> 'outcome',
    'unknown', page.answer -> 'unknown',
    'continueBefore', page.answer -> 'continueBefore',
    'runs', (
      select coalesce(json_agg(json_build_array(
        r.id, r.request_id, r.created_at, r.settled_at, r.model_id, r.feature, r.entity_id, r.credential_source,
        r.execution_mode, r.key_id, k.name, r.app_id, a.display_name, r.actor_id, p.display_name,
        case when r.credential_source <> 'key' then r.actor_id end,
        case when visible then ai.run_provider(r.routes, r.route) end,
        r.streamed, r.status, r.http_status, r.error_code, r.usage_source, r.input_tokens, r.cached_input_tokens,
        r.output_tokens, r.reasoning_tokens, r.audio_input_tokens, r.audio_output_tokens,
        r.cache_write_tokens + r.cache_write_1h_tokens, r.image_input_tokens, r.fee_requests,
        case when visible then r.served_tier end, r.marks, trim_scale(r.billed_credits)::text,
        trim_scale(r.unmetered_credits)::text, case when visible then trim_scale(r.cost_usd)::text end, r.first_byte_ms,
        r.latency_ms, r.cache_write_1h_tokens, r.exempt, r.swept, r.idempotency_key is not null,
        ai.has_provider_call(r.steps), case when r.status = 'running' then trim_scale(r.reserved_credits)::text end,
        case when visible then trim_scale(r.markup)::text end, case when visible then r.route end,
        case when visible then ai.charged_routes(r.routes, r.route, r.attempts)::text end,
        case when visible then r.attempts end
      ) order by r.created_at desc, r.id desc), '[]')
      from unnest(page.runs) r
      left join ai.keys k on k.id = r.key_id
      left join private.apps a on a.id = r.app_id
      left join public.profiles p on p.id = r.actor_id
    )
  );
end
$$;

-- Returns the runs of a page, and the other fields of ai.list_runs as answer. runs is null if the member may not see
-- them.
create or replace function ai.find_runs_of_page(
  member_id uuid,
  workspace uuid,
  filter jsonb,
  before jsonb,
  page_size integer,
  scan_limit integer,
  out answer jsonb,
  out runs ai.runs[]
)
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would use no index and read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  -- Compares created_at separately, because the row comparison (created_at, id) < (last_at, last_id) would prune no
  -- partition.
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_app uuid := (filter ->> 'appId')::uuid;
  of_member uuid := (filter ->> 'memberId')::uuid;
  of_provider text := filter ->> 'provider';
  of_entity text := filter ->> 'entityId';
  of_request text := filter ->> 'requestId';
  outer_filters integer;
  unknown_name text;
  scanned_to record;
  older_than timestamptz;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    answer := '{"outcome": "not_allowed"}';
    return;
  end if;
  runs := '{}';
  unknown_name := ai.unknown_run_filter(workspace, filter);
  -- Continues for an unknown app or member, because a deleted app or account can still have runs.
  if unknown_name in ('provider', 'keyId') then
    answer := jsonb_build_object('outcome', 'listed', 'unknown', unknown_name);
    return;
  end if;
  -- The request id has an index. The other filters have none, because each index slows down every gateway call.
  outer_filters := num_nonnulls(of_model, of_feature, of_status, of_key, of_app, of_member, of_provider, of_entity);
  if of_request is not null or outer_filters = 0 then
    scan_limit := null;
  end if;
  runs := array(
    select row(scanned.*)::ai.runs
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      -- Without a limit here, Postgres would plan to read all runs, because the outer limit does not reach this query.
      limit case when outer_filters = 0 then page_size else scan_limit end
    ) as scanned
    where (of_model is null or scanned.model_id = of_model)
      and (of_feature is null or scanned.feature = of_feature)
      and (of_status is null or scanned.status = of_status)
      and (of_key is null or scanned.key_id = of_key)
      and (of_app is null or scanned.app_id = of_app)
      and (of_member is null or scanned.actor_id = of_member)
      and (of_provider is null or ai.run_provider(scanned.routes, scanned.route) = of_provider)
      and (of_entity is null or scanned.entity_id = of_entity)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  );
  if scan_limit is null or cardinality(runs) >= page_size then
    answer := jsonb_build_object(
      'outcome', 'listed', 'unknown', case when before is null and runs = '{}' then unknown_name end
    );
    return;
  end if;
  select r.created_at, r.id into scanned_to
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= starts_at
    and r.created_at < ends_at
    and not (r.created_at = last_at and r.id >= last_id)
  order by r.created_at desc, r.id desc
  offset scan_limit - 1
  limit 1;
  older_than := ai.runs_may_exist_before(workspace, filter, scanned_to.created_at);
  answer := jsonb_build_object(
    'outcome', 'listed',
    'unknown', case when before is null and runs = '{}' and older_than is null then unknown_name end,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;

-- Checks the filters of ai.list_runs and returns the name of the first filter whose value does not exist. Returns null
-- if all values exist. Treats every provider as unknown if the workspace hides providers. Treats former members and
-- apps of the workspace as known, because they can have runs.
create or replace function ai.unknown_run_filter(workspace uuid, filter jsonb) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when filter ? 'provider' and not (
      ai.cost_visible(workspace) and exists (select from ai.model_prices p where p.provider_id = filter ->> 'provider')
    ) then 'provider'
    when filter ? 'keyId' and not exists (
      select from ai.keys k where k.id = (filter ->> 'keyId')::uuid and k.workspace_id = workspace
    ) then 'keyId'
    when filter ? 'appId' and not exists (select from private.apps a where a.id = (filter ->> 'appId')::uuid) then 'appId'
    when filter ? 'memberId' and not exists (
      select from public.profiles p where p.id = (filter ->> 'memberId')::uuid
    ) then 'memberId'
  end
$$;

-- Returns values by which a workspace's runs can be filtered, at most 100 of each kind, for a member with
-- use_ai_studio. Returns { outcome: listed, keys (newest first), apps, members, providers } or { outcome: not_allowed
-- }. providers is null if the workspace hides providers.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_filters(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'ended', k.revoked_at is not null or coalesce(k.expires_at <= now(), false)
      ) order by k.created_at desc, k.id), '[]')
      from (
        select * from ai.keys o where o.workspace_id = workspace order by o.created_at desc, o.id limit 100
      ) k
    ),
    'apps', (
      select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id), '[]')
      from (
        select o.id, o.display_name
        from private.app_workspaces l
        join private.apps o on o.id = l.app_id
        where l.workspace_id = workspace
        order by o.display_name, o.id
        limit 100
      ) a
    ),
    'members', (
      select coalesce(jsonb_agg(jsonb_build_object('id', m.user_id, 'name', m.name)), '[]')
      from public.list_workspace_members(workspace, page_size => 100) m
    ),
    'providers', case when ai.cost_visible(workspace) then (
      select coalesce(jsonb_agg(p.id order by p.id), '[]')
      from (
        select distinct r.provider_id as id
        from ai.model_routes r
        join ai.model_grants g on g.model_id = r.model_id
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
        order by 1
        limit 100
      ) p
    ) end
  );
end
$$;

-- Uses the daily sums to find where ai.list_runs can start to search backwards for runs that match its filter and are
-- older than the given moment. Returns a time that is not later than the moment, or null if no earlier run can match.
create or replace function ai.runs_may_exist_before(workspace uuid, filter jsonb, moment timestamptz) returns timestamptz
  language plpgsql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_day date := (moment at time zone 'UTC')::date;
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_app uuid := (filter ->> 'appId')::uuid;
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_lineage uuid := (select k.lineage_id from ai.keys k where k.id = of_key);
  of_provider text := filter ->> 'provider';
  day date;
begin
  -- Sums don't count open runs separately, and don't include all runs of the mark's day.
  if moment is null or of_status = 'running' or last_day >= (ai.usage_mark() at time zone 'UTC')::date then
    return moment;
  end if;
  select greatest(
    (
      select u.day
      from ai.usage_daily u
      where u.workspace_id = workspace
        and u.day <= last_day
        and (of_model is null or u.model_id = of_model)
        and (of_feature is null or u.feature = of_feature)
        and (of_app is null or u.app_id = of_app)
        and (of_key is null or u.key_lineage_id = of_lineage)
        and (of_provider is null or u.provider_id = of_provider)
        and (of_status is null or case of_status when 'failed' then u.failed > 0 else u.requests > u.failed end)
      order by u.day desc
      limit 1
    ),
    -- Days with changes that the sums don't include yet.
    (select max(c.day) from ai.usage_changes c where c.workspace_id = workspace and c.day <= last_day)
  ) into day;
  if day is null or day < (starts_at at time zone 'UTC')::date then
    return null;
  end if;
  return least(moment, (day + 1)::timestamp at time zone 'UTC');
end
$$;
