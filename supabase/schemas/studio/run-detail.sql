-- Shows one run to its workspace's members, with the facts that explain its price. Amounts are exact text.

-- Returns a run for a member with use_ai_studio: { outcome: read } merged with the fields of ai.run_detail, or {
-- outcome: not_found | not_allowed }. With a filter, also returns adjacent, its neighbours in the list of runs, unless it
-- filters by a provider that the workspace hides.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_run(
  member_id uuid, workspace uuid, run_id uuid, filter jsonb default null, sort text default 'time',
  scan_limit integer default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_run ai.runs := ai.find_run(run_id);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if found_run.workspace_id is distinct from workspace then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object('outcome', 'read') || ai.run_detail(found_run, visible) || case
    when filter is null or filter ? 'provider' and not visible then '{}'
    else jsonb_build_object('adjacent', ai.find_adjacent_runs(found_run, filter, sort, scan_limit, visible))
  end;
end
$$;

-- Returns the run with this id, in any workspace. Returns a row of nulls if the run does not exist.
create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql stable security invoker set search_path = ''
as $$
  select r
  from ai.runs r, ai.time_of_id(run_id) as run_time
  where r.id = run_id and r.created_at >= run_time - interval '1 second' and r.created_at < run_time + interval '1 second'
$$;

-- Returns the time that a UUIDv7 contains, which determines the partition of its row.
create or replace function ai.time_of_id(id uuid) returns timestamptz
  language sql immutable security invoker parallel safe
as $$
  select to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$$;

-- Returns the details of a run: { run, modelKind, steps, attempts, ledger, answeredBy, envelopeId, budgets }. run is the
-- summary. modelKind is null if the model is no longer in the catalogue. attempts are the
-- requests to providers. ledger contains the ledger entries, with charged credits as positive amounts. answeredBy is
-- the route that answered, with its prices at that time. attempts and answeredBy are null if provider cost is hidden.
create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible) || ai.run_pricing_facts(run, cost_visible),
    'modelKind', (select m.kind from ai.models m where m.id = (run).model_id),
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
        'region', jsonb_path_query_first(
          (run).routes, '$[*] ? (@.position == $position).region', jsonb_build_object('position', a.route)
        ),
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
    'ledger', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', l.kind, 'credits', trim_scale(-l.amount)::text, 'createdAt', l.created_at
      ) order by l.id), '[]')
      from ai.credit_ledger l
      where l.run_id = (run).id
    ),
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end,
    'envelopeId', (run).envelope_id,
    'budgets', ai.run_budgets(run, cost_visible)
  )
$$;

-- Returns the budgets that count a run, in the order in which the run lists them, with their current limits. limitUsd is
-- null if provider cost is hidden, and for budgets that were removed since.
create or replace function ai.run_budgets(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'scope', e.scope,
    'period', e.period,
    'subjectId', s.id,
    'name', case e.scope when 'label' then (run).entity_id else ai.budget_name(e.scope, s.id, (run).workspace_id) end,
    'isSet', num_nonnulls(b.limit_usd, b.max_calls) > 0,
    'limitUsd', case when cost_visible then trim_scale(b.limit_usd)::text end,
    'maxCalls', b.max_calls
  ) order by t.position), '[]')
  from unnest((run).budget_scopes) with ordinality as t (entry, position)
  cross join lateral (select split_part(t.entry, '/', 1) as scope, ai.entry_period(t.entry) as period) as e
  cross join lateral (
    select ai.budget_subject(
      e.scope, (run).workspace_id, (run).key_lineage_id, (run).app_id, (run).actor_id, (run).entity_id, (run).envelope_id
    ) as id
  ) as s
  left join ai.budgets b
    on b.scope = e.scope and b.subject_id = s.id and b.workspace_id = (run).workspace_id and b.period = e.period
$$;

-- Returns a run's summary for its workspace's members. servedTier, provider and costUsd are null if the policy hides
-- provider cost.
create or replace function ai.run_summary(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
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
    'appName', (select a.display_name from private.apps a where a.id = (run).app_id),
    'memberId', (run).actor_id,
    'memberName', (select p.display_name from public.profiles p where p.id = (run).actor_id),
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
    'latencyMs', (run).latency_ms,
    'provider', case when cost_visible then ai.run_provider((run).routes, (run).route) end
  )
$$;

-- Returns { priced }, the facts from which the web server explains a run's cost: whether credits were due and, if
-- provider cost is visible, the markup, the prices of the charged routes, and the requests to providers.
create or replace function ai.run_pricing_facts(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker
  -- Sets no search path and has no subselect, so that Postgres inlines it into its callers' plans.
as $$
  select jsonb_build_object('priced', jsonb_build_object(
    'cacheWrite1hTokens', (run).cache_write_1h_tokens,
    'exempt', (run).exempt,
    'swept', (run).swept,
    'idempotent', (run).idempotency_key is not null,
    'askedProvider', ai.has_provider_call((run).steps),
    'reservedCredits', case when (run).status = 'running' then trim_scale((run).reserved_credits)::text end
  ) || case when cost_visible then jsonb_build_object(
    'markup', trim_scale((run).markup)::text,
    'creditsPerUsd', trim_scale(ai.credits_per_usd((run).markup))::text,
    'route', (run).route,
    'routes', ai.charged_routes((run).routes, (run).route, (run).attempts),
    'attempts', coalesce((run).attempts, '[]')
  ) else '{}' end)
$$;

-- Returns whether a run made a request to a provider.
create or replace function ai.has_provider_call(steps jsonb) returns boolean
  language sql immutable security invoker parallel safe
as $$
  select jsonb_path_exists(coalesce(steps, '[]'), '$[*] ? (@.type == "model" || @.type == "retry")')
$$;

-- Returns the routes by which a run is priced: all if its attempts were charged separately, else the run's own.
create or replace function ai.charged_routes(routes jsonb, route smallint, attempts jsonb) returns jsonb
  -- Stable like jsonb_build_object, so that Postgres inlines it.
  language sql stable security invoker
as $$
  select case
    when jsonb_path_exists(attempts, '$[*].charged') then routes
    else jsonb_path_query_array(routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', route))
  end
$$;
