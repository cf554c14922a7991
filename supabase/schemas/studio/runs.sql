-- What members read of their workspace's runs: ids, counts, amounts, times. Amounts are exact text.

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_runs(
  member_id uuid,
  workspace uuid,
  filter jsonb default '{}',
  before jsonb default null,
  page_size integer default 50,
  scan_limit integer default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
  -- A plan for every filter uses no index and reads every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  -- A comparison of rows, (created_at, id) < (last_at, last_id), would prune no partition.
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  of_model text := filter ->> 'model';
  of_feature text := filter ->> 'feature';
  of_status text := filter ->> 'status';
  of_key uuid := (filter ->> 'keyId')::uuid;
  of_app uuid := (filter ->> 'appId')::uuid;
  of_request text := filter ->> 'requestId';
  scanned_to record;
  older_than timestamptz;
  found_runs jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- A request id has an index. The other filters have none, which every call would pay for.
  if of_request is not null or num_nonnulls(of_model, of_feature, of_status, of_key, of_app) = 0 then
    scan_limit := null;
  end if;
  select coalesce(jsonb_agg(ai.run_summary(r, visible) order by r.created_at desc, r.id desc), '[]') into found_runs
  from (
    select *
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      limit scan_limit
    ) as scanned
    where (of_model is null or scanned.model_id = of_model)
      and (of_feature is null or scanned.feature = of_feature)
      and (of_status is null or scanned.status = of_status)
      and (of_key is null or scanned.key_id = of_key)
      and (of_app is null or scanned.app_id = of_app)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  ) r;
  if scan_limit is null or jsonb_array_length(found_runs) >= page_size then
    return jsonb_build_object('outcome', 'listed', 'runs', found_runs);
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
  return jsonb_build_object(
    'outcome', 'listed',
    'runs', found_runs,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;
comment on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer) is
  'A page of a workspace''s runs, newest first, for a member with use_ai_studio: { outcome: listed, runs, continueBefore } '
  'or { outcome: not_allowed }. filter names any of from, to (half-open), model, feature, status, keyId, appId, requestId. '
  'With scan_limit, a filter without an index looks at that many runs; continueBefore is then the position to continue '
  'from, and null when no older run can match.';

create or replace function ai.runs_may_exist_before(workspace uuid, filter jsonb, moment timestamptz) returns timestamptz
  language plpgsql
  stable
  security invoker
  set search_path = ''
  set plan_cache_mode = force_custom_plan
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
  day date;
begin
  -- Sums do not count open runs apart, and today has none.
  if moment is null or of_status = 'running' or last_day >= (select s.before from ai.usage_sealed_days s) then
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
        and (of_status is null or case of_status when 'failed' then u.failed > 0 else u.requests > u.failed end)
      order by u.day desc
      limit 1
    ),
    -- Days that changed since they were summed.
    (select max(c.day) from ai.usage_changed_days c where c.workspace_id = workspace and c.day <= last_day)
  ) into day;
  if day is null or day < (starts_at at time zone 'UTC')::date then
    return null;
  end if;
  return least(moment, (day + 1)::timestamp at time zone 'UTC');
end
$$;
comment on function ai.runs_may_exist_before(uuid, jsonb, timestamptz) is
  'Returns the moment before which a workspace may have runs that ai.list_runs'' filter names, by the sums of days: at most '
  'the given one; null when there are none.';

-- Definer: as ai.list_runs.
create or replace function ai.read_run(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  found_run ai.runs := ai.find_run(run_id);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if found_run.workspace_id is distinct from workspace then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object('outcome', 'read') || ai.run_detail(found_run, ai.cost_visible(workspace));
end
$$;
comment on function ai.read_run(uuid, uuid, uuid) is
  'Returns a run for a member with use_ai_studio: { outcome: read } with the members of ai.run_detail, or { outcome: '
  'not_found or not_allowed }.';

create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select r
  from ai.runs r,
    -- The id is a UUID version 7 of its creation, so that it names its partition.
    to_timestamp(('x' || substr(replace(run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) as begun
  where r.id = run_id and r.created_at >= begun - interval '1 second' and r.created_at < begun + interval '1 second'
$$;
comment on function ai.find_run(uuid) is 'Returns a run by its id alone; nulls where there is none.';

create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'step', s.step, 'type', s.type, 'name', s.name, 'status', s.status, 'latencyMs', s.latency_ms
      ) order by s.step), '[]')
      from jsonb_to_recordset((run).steps) as s (step smallint, type text, name text, status text, latency_ms integer)
    ),
    'attempts', case when cost_visible then (
      select coalesce(jsonb_agg(jsonb_build_object(
        'route', a.route,
        'provider', a.provider,
        'model', a.model,
        'status', a.status,
        'failure', a.failure,
        'upstreamRequestId', a.upstream_request_id,
        'mayHaveCharged', coalesce(a.may_have_charged, false),
        'latencyMs', a.latency_ms
      ) order by a.position), '[]')
      from rows from (jsonb_to_recordset((run).attempts) as (
        route smallint, provider text, model text, status smallint, failure text, upstream_request_id text,
        may_have_charged boolean, latency_ms integer
      )) with ordinality as a (
        route, provider, model, status, failure, upstream_request_id, may_have_charged, latency_ms, position
      )
    ) end,
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end
  )
$$;
comment on function ai.run_detail(ai.runs, boolean) is
  'Returns { run, steps, attempts, answeredBy }: a run''s summary, what it did, its requests to providers, and the route that '
  'answered with its prices of then. attempts and answeredBy are null where provider cost is hidden.';

create or replace function ai.run_summary(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (run).id,
    'requestId', (run).request_id,
    'createdAt', (run).created_at,
    'settledAt', (run).settled_at,
    'model', (run).model_id,
    'feature', (run).feature,
    'entityId', (run).entity_id,
    'credentialSource', (run).credential_source,
    'executionMode', (run).execution_mode,
    'keyId', (run).key_id,
    'keyName', (select k.name from ai.keys k where k.id = (run).key_id),
    'appId', (run).app_id,
    'userId', case when (run).credential_source <> 'key' then (run).actor_id end,
    'streamed', (run).streamed,
    'status', (run).status,
    'httpStatus', (run).http_status,
    'errorCode', (run).error_code,
    'usageSource', (run).usage_source,
    'inputTokens', (run).input_tokens,
    'cachedInputTokens', (run).cached_input_tokens,
    'outputTokens', (run).output_tokens,
    'reasoningTokens', (run).reasoning_tokens,
    'audioInputTokens', (run).audio_input_tokens,
    'audioOutputTokens', (run).audio_output_tokens,
    'cacheWriteTokens', (run).cache_write_tokens + (run).cache_write_1h_tokens,
    'imageInputTokens', (run).image_input_tokens,
    'feeRequests', (run).fee_requests,
    'servedTier', case when cost_visible then (run).served_tier end,
    'marks', (run).marks,
    'billedCredits', trim_scale((run).billed_credits)::text,
    'unmeteredCredits', trim_scale((run).unmetered_credits)::text,
    'costUsd', case when cost_visible then trim_scale((run).cost_usd)::text end,
    'firstByteMs', (run).first_byte_ms,
    'latencyMs', (run).latency_ms
  )
$$;
comment on function ai.run_summary(ai.runs, boolean) is
  'A run for its workspace''s members. servedTier and costUsd are null where the workspace''s policy hides what providers '
  'charge.';
