-- Generated from supabase/schemas by npm run db:migration.

create or replace function private.list_catalogue_models() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- As calls are priced, whichever providers are connected.
    'hasPrice', ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) is not null,
    -- As calls go: open routes first, in their order.
    'providers', (
      select coalesce(jsonb_agg(p.provider_id order by p.is_shut, p.position), '[]')
      from (
        select distinct on (r.provider_id) r.provider_id, not r.enabled as is_shut, r.position
        from ai.model_routes r
        where r.model_id = m.id
        order by r.provider_id, r.enabled desc, r.position
      ) as p
    ),
    'prices', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'providerId', p.provider_id,
        'serviceTier', p.service_tier,
        'minInputTokens', p.min_input_tokens,
        'from', lower(p.valid),
        'until', upper(p.valid),
        'current', p.valid @> now(),
        'inputUsd', p.input_usd_per_million::text,
        'cachedInputUsd', p.cached_input_usd_per_million::text,
        'cacheWriteUsd', p.cache_write_usd_per_million::text,
        'cacheWrite1hUsd', p.cache_write_1h_usd_per_million::text,
        'outputUsd', p.output_usd_per_million::text,
        'audioInputUsd', p.audio_input_usd_per_million::text,
        'audioOutputUsd', p.audio_output_usd_per_million::text,
        'imageInputUsd', p.image_input_usd_per_million::text,
        'requestFeeUsd', p.request_fee_usd::text
      ) order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id
    )
  ) order by ai.model_order(m)), '[]')
  from ai.models m
$$;

create or replace function private.list_provider_routes() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'provider', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'hasPrice', exists (
          select from ai.model_prices p
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.valid @> now()
        ),
        'failedLastHour', (
          select count(*)
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
            and f.at > now() - interval '1 hour'
        ),
        'lastFailure', (
          select jsonb_build_object(
            'at', f.at,
            'failure', f.failure,
            'status', f.status,
            'upstreamRequestId', f.upstream_request_id,
            'runId', f.run_id
          )
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
          order by f.at desc, f.id desc
          limit 1
        )
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    )
  ) order by ai.model_order(m)), '[]')
  from ai.models m
  where m.enabled
$$;

create or replace function ai.admit_call(priced ai.priced_call) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  request ai.run_request := priced.request;
  caller ai.caller := priced.caller;
  offer ai.route_offer := priced.offer;
  principal uuid := ai.principal_id(caller);
  exempt boolean := ai.payer_id(caller) is null;
  maximum_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  earlier ai.idempotency_keys;
  run_id uuid;
  key_name text;
begin
  if priced.refusal is not null then
    return priced.refusal;
  end if;
  if not exempt then
    maximum_credits := ai.usd_to_credits(offer.maximum_cost_usd, caller.markup);
  end if;
  if ai.is_key_use_due(caller) then
    perform ai.record_key_use(caller);
  end if;

  key_window := ai.consume_rate_limit(
    'key', principal, caller.key_requests_per_minute, caller.key_tokens_per_minute, offer.reserved_tokens
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', ai.call_limits(caller, key_window, null));
  end if;
  if request.idempotency_key is not null then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = request.idempotency_key
      and i.expires_at > now();
    if found then
      return ai.idempotent_refusal(earlier, decode(request.fingerprint, 'hex'));
    end if;
  end if;
  held := ai.reserve_limits(
    caller, offer.reserved_tokens, 1, offer.maximum_cost_usd, priced.account_id, maximum_credits
  );
  if held.refused is not null then
    return ai.limit_refusal(held.refused, ai.call_limits(caller, key_window, held.workspace_window));
  end if;

  run_id := case
    when request.run_id_suffix is null then ai.run_id(now())
    else ai.new_run_id(request.run_id_suffix)
  end;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes
  )
  values (
    run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, request.feature, request.request_id,
    request.entity_id, request.idempotency_key, coalesce(request.streamed, false), offer.model_id, offer.routes,
    caller.markup, exempt, priced.account_id, offer.maximum_cost_usd, maximum_credits, held.budget_scopes
  );
  if request.idempotency_key is not null then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (caller.workspace_id, principal, request.idempotency_key, decode(request.fingerprint, 'hex'), now(), run_id)
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;

  if caller.key_id is not null then
    select k.name into key_name from ai.keys k where k.id = caller.key_id;
  end if;
  -- As text: building JSON from values looks up how each type is written.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,"credits_per_usd":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s}',
    run_id,
    to_json(now()),
    caller.workspace_id,
    to_json(offer.model_id),
    coalesce(to_json(offer.context_window), 'null'),
    coalesce(to_json(offer.voice), 'null'),
    offer.routes,
    ai.credits_per_usd(caller.markup),
    exempt::text,
    offer.maximum_cost_usd,
    maximum_credits,
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.call_limits(caller, key_window, held.workspace_window),
    coalesce(to_json(key_name), 'null')
  );
end
$$;

create or replace function ai.settle_batch(reports ai.run_report[], idle_since timestamptz) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  report ai.run_report;
  closed_run ai.closed_run;
  closed ai.closed_run[] := '{}';
  last_id uuid;
  first_begun timestamptz;
  last_begun timestamptz;
  have_keys boolean := false;
  have_budgets boolean := false;
  have_failures boolean := false;
  ended jsonb := '[]';
begin
  foreach report in array reports loop
    closed_run := ai.compute_settlement(jsonb_populate_record(null::ai.run_outcome, report.outcome), report.run, idle_since);
    -- A run may be reported twice in one batch.
    continue when closed_run.kind is null or (report.run).id = last_id;
    last_id := (report.run).id;
    closed := closed || closed_run;
    first_begun := least(first_begun, (report.run).created_at);
    last_begun := greatest(last_begun, (report.run).created_at);
    have_keys := have_keys or (report.run).idempotency_key is not null;
    have_budgets := have_budgets or (report.run).budget_scopes <> '{}';
    have_failures := have_failures or coalesce(jsonb_path_exists((closed_run.run).attempts, '$[*].failure'), false);
    ended := ended || jsonb_build_object(
      'id', last_id, 'kind', closed_run.kind, 'billed_credits', (closed_run.run).billed_credits::text
    );
  end loop;
  if last_id is null then
    return ended;
  end if;

  if have_budgets then
    perform ai.settle_budgets(closed);
  end if;
  perform ai.settle_credits(closed);
  update ai.runs r
  set
    status = (c.run).status,
    http_status = (c.run).http_status,
    error_code = (c.run).error_code,
    usage_source = (c.run).usage_source,
    route = (c.run).route,
    input_tokens = (c.run).input_tokens,
    cached_input_tokens = (c.run).cached_input_tokens,
    audio_input_tokens = (c.run).audio_input_tokens,
    output_tokens = (c.run).output_tokens,
    reasoning_tokens = (c.run).reasoning_tokens,
    audio_output_tokens = (c.run).audio_output_tokens,
    cache_write_tokens = (c.run).cache_write_tokens,
    cache_write_1h_tokens = (c.run).cache_write_1h_tokens,
    image_input_tokens = (c.run).image_input_tokens,
    fee_requests = (c.run).fee_requests,
    served_tier = (c.run).served_tier,
    marks = (c.run).marks,
    billing_name = (c.run).billing_name,
    billing_account = (c.run).billing_account,
    cost_usd = (c.run).cost_usd,
    billed_credits = (c.run).billed_credits,
    unmetered_credits = (c.run).unmetered_credits,
    first_byte_ms = (c.run).first_byte_ms,
    latency_ms = (c.run).latency_ms,
    steps = (c.run).steps,
    attempts = (c.run).attempts,
    touched_at = now(),
    settled_at = now(),
    swept = idle_since is not null
  from unnest(closed) as c
  where r.created_at = (c.run).created_at and r.id = (c.run).id
    and r.created_at >= first_begun and r.created_at <= last_begun;
  if have_failures then
    perform ai.record_failed_attempts(closed);
  end if;
  if have_keys then
    perform ai.complete_idempotency_keys(closed);
  end if;
  return ended;
end
$$;

create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.runs, idle_since timestamptz) returns ai.closed_run
  language plpgsql
  stable
  security invoker
as $$
declare
  open boolean := run.status = 'running';
  before ai.runs := run;
  cost_usd numeric(24, 12) := coalesce(outcome.cost_usd, 0);
  credits numeric(24, 8) := coalesce(outcome.credits, 0);
  billed_credits numeric(24, 8) := case when run.exempt then 0 else credits end;
begin
  -- Open runs; and those that the sweep closed, when the provider's own counts arrive later.
  if open then
    if run.touched_at >= idle_since then
      return null;
    end if;
  elsif idle_since is not null or not run.swept
    or outcome.usage_source is null or outcome.usage_source not in ('provider', 'provider_partial')
  then
    return null;
  end if;

  if outcome.estimated and not open then
    return null;
  end if;
  if outcome.usage_source is null or outcome.status = 'running'
    or outcome.usage_source <> 'unavailable' and (outcome.cost_usd is null or outcome.credits is null)
    or least(
    outcome.cost_usd, outcome.credits, outcome.input_tokens, outcome.cached_input_tokens, outcome.audio_input_tokens,
    outcome.output_tokens, outcome.reasoning_tokens, outcome.audio_output_tokens,
    outcome.cache_write_tokens, outcome.cache_write_1h_tokens, outcome.image_input_tokens, outcome.fee_requests
  ) < 0 then
    raise exception 'a run ends with a status, a usage source, a cost and counts of at least 0' using errcode = 'check_violation';
  end if;

  run.status := outcome.status;
  run.http_status := outcome.http_status;
  run.error_code := outcome.error_code;
  run.usage_source := outcome.usage_source;
  run.route := coalesce(outcome.route, run.route);
  run.input_tokens := coalesce(outcome.input_tokens, 0);
  run.cached_input_tokens := coalesce(outcome.cached_input_tokens, 0);
  run.audio_input_tokens := coalesce(outcome.audio_input_tokens, 0);
  run.output_tokens := coalesce(outcome.output_tokens, 0);
  run.reasoning_tokens := coalesce(outcome.reasoning_tokens, 0);
  run.audio_output_tokens := coalesce(outcome.audio_output_tokens, 0);
  run.cache_write_tokens := coalesce(outcome.cache_write_tokens, 0);
  run.cache_write_1h_tokens := coalesce(outcome.cache_write_1h_tokens, 0);
  run.image_input_tokens := coalesce(outcome.image_input_tokens, 0);
  run.fee_requests := coalesce(outcome.fee_requests, 0);
  run.served_tier := outcome.served_tier;
  run.marks := coalesce(outcome.marks, '{}');
  run.billing_name := outcome.billing_name;
  run.billing_account := outcome.billing_account;
  run.cost_usd := cost_usd;
  run.billed_credits := billed_credits;
  run.unmetered_credits := case
    -- Closed without any count: the reservation is shown, not charged.
    when idle_since is not null and outcome.usage_source = 'unavailable' then ai.usd_to_credits(run.reserved_usd, run.markup)
    when run.exempt then credits
    else 0
  end;
  run.first_byte_ms := coalesce(outcome.first_byte_ms, run.first_byte_ms);
  run.latency_ms := outcome.latency_ms;
  run.steps := outcome.steps;
  run.attempts := outcome.attempts;
  if open then
    return row(
      run, 'usage', billed_credits, run.reserved_credits, cost_usd, run.reserved_usd, coalesce(outcome.key_unused, false)
    )::ai.closed_run;
  end if;
  return row(
    run, 'adjustment', billed_credits - before.billed_credits, 0, cost_usd - before.cost_usd, 0, coalesce(outcome.key_unused, false)
  )::ai.closed_run;
end
$$;

create or replace function ai.record_failed_attempts(closed ai.closed_run[]) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into ai.failed_attempts (
    run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
    upstream_request_id
  )
  select
    (c.run).created_at, (c.run).id, (c.run).request_id, (c.run).workspace_id, (c.run).model_id, a.provider, a.model, a.route,
    a.status, a.failure, a.upstream_request_id
  from unnest(closed) as c
  cross join lateral jsonb_to_recordset((c.run).attempts) as a (
    route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
  )
  -- A skipped route was not asked, and a client that left is not the provider's failure.
  where a.failure not in ('skipped', 'cancelled')
$$;

-- Definer: the server's service role holds no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 10000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  -- Rows that are in use stay.
  delete from ai.idempotency_keys i
  using (
    select e.workspace_id, e.principal_id, e.key
    from ai.idempotency_keys e
    where e.expires_at <= now()
    order by e.expires_at
    limit at_most
    for update skip locked
  ) as expired
  where i.workspace_id = expired.workspace_id and i.principal_id = expired.principal_id and i.key = expired.key;
  get diagnostics keys = row_count;

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

  delete from ai.failed_attempts f
  using (
    select o.id
    from ai.failed_attempts o
    where o.at < now() - interval '7 days'
    order by o.at
    limit at_most
    for update skip locked
  ) as old
  where f.id = old.id;
  get diagnostics attempts = row_count;
  return keys + windows + attempts;
end
$$;

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

create or replace function private.find_runs(term text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', r.id,
    'createdAt', r.created_at,
    'workspaceId', r.workspace_id,
    'workspaceName', w.name,
    'model', r.model_id,
    'status', r.status,
    'errorCode', r.error_code
  ) order by r.created_at desc, r.id desc), '[]')
  from (
    select f.* from ai.find_run(private.uuid_or_null(term)) as f where f.id is not null
    union
    (
      select of_workspace.*
      from public.workspaces s
      -- The index of request ids begins with the workspace.
      cross join lateral (
        select * from ai.runs r
        where r.workspace_id = s.id and r.request_id = term and r.created_at > now() - interval '31 days'
      ) as of_workspace
      order by of_workspace.created_at desc
      limit 20
    )
  ) as r
  left join public.workspaces w on w.id = r.workspace_id
$$;

create or replace function private.read_run(run_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select ai.run_detail(r, true) || jsonb_build_object(
    'workspace', jsonb_build_object('id', r.workspace_id, 'name', w.name),
    'billing', jsonb_build_object('name', r.billing_name, 'account', r.billing_account)
  )
  from ai.find_run(run_id) as r
  left join public.workspaces w on w.id = r.workspace_id
  where r.id is not null
$$;

comment on function ai.delete_expired(integer) is
  'Deletes up to at_most expired idempotency keys, as many rate windows older than an hour and as many failed attempts older '
  'than seven days. Returns their number; 0 while another deletion runs.';

comment on function ai.read_run(uuid, uuid, uuid) is
  'Returns a run for a member with use_ai_studio: { outcome: read } with the members of ai.run_detail, or { outcome: '
  'not_found or not_allowed }.';

comment on function ai.run_summary(ai.runs, boolean) is
  'A run for its workspace''s members. servedTier and costUsd are null where the workspace''s policy hides what providers '
  'charge.';

comment on function ai.find_run(uuid) is 'Returns a run by its id alone; nulls where there is none.';

comment on function ai.record_failed_attempts(ai.closed_run[]) is
  'Copies the failed attempts of closed runs to ai.failed_attempts.';

comment on function ai.run_detail(ai.runs, boolean) is
  'Returns { run, steps, attempts, answeredBy }: a run''s summary, what it did, its requests to providers, and the route that '
  'answered with its prices of then. attempts and answeredBy are null where provider cost is hidden.';

comment on function private.find_runs(text) is
  'Returns the run with an id, and the newest 20 runs of the last 31 days with a request id.';

comment on function private.list_provider_routes() is
  'Returns each enabled model with its routes in order: whether they have a current price, and what failed in the last seven days.';

comment on function private.read_run(uuid) is
  'Returns ai.run_detail of any run with its workspace and who bills it, whatever the workspace''s policy hides from its members; '
  'null where there is none.';

grant execute on function ai.find_run(uuid) to service_role;

grant execute on function ai.priced_routes(text, text[]) to service_role;

grant execute on function ai.run_detail(ai.runs, boolean) to service_role;

grant execute on function ai.run_summary(ai.runs, boolean) to service_role;

grant execute on function private.find_runs(text) to service_role;

grant execute on function private.list_provider_routes() to service_role;

grant execute on function private.read_run(uuid) to service_role;

grant execute on function private.uuid_or_null(text) to service_role;
