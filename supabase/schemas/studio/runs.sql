-- Lists a workspace's runs for its members: ids, counts, amounts and times. Amounts are exact text.

-- Returns a page of a workspace's runs for a member with use_ai_studio: { outcome: listed, runs, sort, sortValue,
-- unknown, continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature, status,
-- keyId, appId, memberId, provider, entityId, requestId. unknown names a filter with a value that does not exist.
-- sort is time (newest first) or cost, tokens or latency (largest first). If the range has more than scan_limit runs,
-- the answer is sorted by time, as its sort says. sortValue is that of the last run before the page's additional one,
-- and continues the list together with the run's createdAt and id. With scan_limit, a filter without an index examines
-- at most that many runs. In this case continueBefore is the position to continue from, or null if no older run can
-- match.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_runs(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit, sort, visible);
  sorted_by text := page.answer ->> 'sort';
begin
  return page.answer || case when page.runs is null then '{}' else jsonb_build_object('runs', (
    select coalesce(jsonb_agg(
      -- Calls ai.run_pricing_facts directly. A call inside ai.run_summary would make Postgres plan ai.run_pricing_facts
      -- again for each run.
      ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible)
      order by ai.run_sort_value(r, sorted_by, visible) desc, r.created_at desc, r.id desc
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
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns json
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit, sort, visible);
  sorted_by text := page.answer ->> 'sort';
begin
  return json_build_object(
    'outcome', page.answer -> 'outcome',
    'unknown', page.answer -> 'unknown',
    'continueBefore', page.answer -> 'continueBefore',
    'sort', page.answer -> 'sort',
    'sortValue', page.answer -> 'sortValue',
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
      ) order by ai.run_sort_value(r, sorted_by, visible) desc, r.created_at desc, r.id desc), '[]')
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
  sort text,
  cost_visible boolean,
  out answer jsonb,
  out runs ai.runs[]
)
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would use no index and read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filter ->> 'to')::timestamptz, 'infinity');
  of_request text := filter ->> 'requestId';
  has_outer_filter boolean := filter - '{from,to,requestId}'::text[] <> '{}';
  last_value numeric := (before ->> 'value')::numeric;
  last_at timestamptz;
  last_id uuid;
  unknown_name text;
  scanned_to record;
  older_than timestamptz;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    answer := '{"outcome": "not_allowed"}';
    return;
  end if;
  runs := '{}';
  if sort <> 'time' and ai.has_more_runs_than(scan_limit, workspace, starts_at, ends_at) then
    sort := 'time';
  end if;
  -- Starts over if the position belongs to another order, because the range now has more runs.
  if (sort = 'time') = (last_value is null) then
    last_at := (before ->> 'createdAt')::timestamptz;
    last_id := (before ->> 'id')::uuid;
  end if;
  last_at := coalesce(last_at, 'infinity');
  answer := jsonb_build_object('outcome', 'listed', 'sort', sort);
  unknown_name := ai.unknown_run_filter(workspace, filter);
  -- Continues for an unknown app or member, because a deleted app or account can still have runs.
  if unknown_name in ('provider', 'keyId') then
    answer := answer || jsonb_build_object('unknown', unknown_name);
    return;
  end if;
  if sort <> 'time' then
    runs := array(
      select row(r.*)::ai.runs
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and ai.matches_run_filter(r, filter)
        and (
          last_id is null
          or (ai.run_sort_value(r, sort, cost_visible), r.created_at, r.id) < (last_value, last_at, last_id)
        )
      order by ai.run_sort_value(r, sort, cost_visible) desc, r.created_at desc, r.id desc
      limit page_size
    );
    answer := answer || jsonb_build_object(
      'sortValue', ai.run_sort_value(runs[page_size - 1], sort, cost_visible)::text,
      'unknown', case when before is null and runs = '{}' then unknown_name end
    );
    return;
  end if;
  -- Compares created_at separately, because the row comparison (created_at, id) < (last_at, last_id) would prune no
  -- partition.
  ends_at := least(ends_at, last_at + interval '1 microsecond');
  -- The request id has an index. The other filters have none, because each index slows down every gateway call.
  if of_request is not null or not has_outer_filter then
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
      limit case when has_outer_filter then scan_limit else page_size end
    ) as scanned
    where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  );
  if scan_limit is null or cardinality(runs) >= page_size then
    answer := answer || jsonb_build_object('unknown', case when before is null and runs = '{}' then unknown_name end);
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
  answer := answer || jsonb_build_object(
    'unknown', case when before is null and runs = '{}' and older_than is null then unknown_name end,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;
