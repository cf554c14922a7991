-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

drop function ai.priced_routes(text, text[]);

-- Returns the models that a credential may use now, in OpenAI's format and in the order of ai.model_order, or {refused:
-- code}. A model is left out if no provider can serve it or its calls have no price. If the call has model, returns
-- only that model. If the call has paths, [{ path, kind, providers }], returns the list as text and adds endpoints.
-- endpoints has, for each model, the paths of the model's kind that at least one of its providers serves. regions has the
-- regions of a model's providers, and unknown for a provider without one. Gateways of release 0.2.0 state no regions.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  usable_providers text[] := case
    when caller.allowed_regions is null then request.providers
    else ai.providers_in_regions(request.providers, request.regions, caller.allowed_regions)
  end;
  -- The models as JSON text, because building one jsonb from all models would be slow.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- Reads all models in one pass. With a large catalogue, calling a function for each model would take most of the
  -- query's time.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', (
          select jsonb_agg(ai.listed_price(t.price) order by t.place)
          from jsonb_array_elements(p.prices) with ordinality as t (price, place)
        )
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_routes(usable_providers) p
    where request.model is null or p.model_id = request.model
  ),
  served as (
    select
      r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers,
      jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown')) as regions
    from routes r
    group by r.model_id
  ),
  paths as materialized (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'default_output_limit', u.default_output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when request.regions is null then jsonb '{}' else jsonb_build_object('regions', s.regions) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case when shows_prices then jsonb_build_object('routes', s.routes) else jsonb '{}' end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found');
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

-- Returns each call with its caller, its routes and its maximum cost, or with the reason why it is refused, in the order
-- of the calls. Locks nothing. If the caller stated no output limit, the model's own default replaces the assumed limit.
-- It is lowered to the model's limit (2,048 if both are unknown) and to the room left in the context window. A free call
-- reserves nothing.
create or replace function ai.price_calls(calls jsonb) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  people ai.caller[] := ai.user_callers(calls);
begin
  return (
    -- Each subquery with `offset 0` computes its columns once, for all the expressions that read them.
    with requests as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        least((c.caller).key_tokens_per_minute, (c.caller).workspace_tokens_per_minute) as token_limit,
        case
          when (c.caller).allowed_regions is null then (c.request).providers
          else ai.providers_in_regions((c.request).providers, (c.request).regions, (c.caller).allowed_regions)
        end as providers
      from ai.find_callers(calls, people) c
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, d.regions, p.routes
      from (select distinct r.model_id, r.providers, (r.request).regions from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers, d.regions) as p
    )
    select coalesce(array_agg(row(
      ai.price_refusal(r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens),
      r.request, r.caller, coalesce((r.caller).entity_id, (r.request).entity_id, (r.request).session_label),
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd, case when (r.request).is_free is not true then (r.caller).budgets end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null
    )::ai.claim order by r.place), '{}')
    from requests r
    left join lateral (
      select m as model
      from ai.usable_models(
        (r.caller).workspace_id, (r.caller).plan_id, (r.caller).workspace_models, (r.caller).denied_models,
        (r.caller).key_models
      ) m
      where m.id = r.model_id and m.kind = (r.request).kind
      offset 0
    ) as m on true
    left join offers o on o.model_id = (m.model).id and o.providers = r.providers
      and o.regions is not distinct from (r.request).regions
    cross join lateral (
      select
        i.image_tokens, i.audio_tokens,
        -- No reading exceeds the context window.
        least(i.text_tokens, (m.model).context_window * (r.request).input_reads) as text_tokens,
        least(
          case when (r.request).output_limit_assumed then
            coalesce((m.model).default_output_limit, (r.request).output_limit)
          else (r.request).output_limit end,
          (m.model).output_limit,
          case when (r.request).output_limit_assumed then ai.assumed_output_limit(
            m.model, least((r.request).expected_tokens, i.text_tokens + i.image_tokens + i.audio_tokens)
          ) end
        ) as output_limit
      from ai.input_tokens((r.request).input_bytes, (r.request).images, (r.request).audio_seconds) as i
      offset 0
    ) as u
    cross join lateral (
      select case when (r.request).is_free then 0 else x.usd end::numeric(24, 12) as usd
      from ai.maximum_cost(
        o.routes, u.text_tokens, u.image_tokens, u.audio_tokens, u.output_limit * coalesce((r.request).choices, 1),
        (r.request).hour_writes, (r.request).service_tier, (r.request).fee_requests, (r.request).kind = 'speech'
      ) as x
      offset 0
    ) as x
    cross join lateral (
      select
        i.input_tokens,
        case when r.token_limit is not null then ai.reserved_tokens(
          i.input_tokens, u.output_limit, (r.request).choices, (r.request).output_limit_assumed, r.token_limit
        ) end as reserved_tokens
      from (
        -- Token limits count one reading, of average size: few calls use a server tool as often as they may.
        select u.text_tokens / coalesce((r.request).input_reads, 1) + u.image_tokens / coalesce((r.request).input_reads, 1)
          + u.audio_tokens as input_tokens
      ) as i
      offset 0
    ) as t
    left join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = ai.payer_id(r.caller) offset 0
    ) as a on true
  );
end
$$;

-- Returns those of the given providers that are in an allowed region. A provider without a region is in none.
create or replace function ai.providers_in_regions(providers text[], regions jsonb, allowed_regions text[]) returns text[]
  language sql immutable security invoker parallel safe
as $$
  select array(select p.id from unnest(providers) as p (id) where regions ->> p.id = any (allowed_regions))
$$;

-- Returns the refusal of a call for a usable model that has no route. If the model has one outside the allowed regions,
-- the refusal says so. Gateways of release 0.2.0 state no regions, and don't know that refusal.
create or replace function ai.route_refusal(model text, request ai.run_request, allowed_regions text[]) returns jsonb
  language sql stable security invoker
as $$
  select case
    when allowed_regions is not null and (request).regions is not null
      and exists (select from ai.open_routes((request).providers) r where r.model_id = model)
      then ai.refusal('region_not_allowed', '{"param": "model"}')
    else ai.refusal('model_not_found')
  end
$$;

-- Returns a model's routes to the given providers in order, with their current prices and the providers' regions, in
-- the form in which runs store them. Returns null if there is none. A run uses no other routes.
create or replace function ai.priced_routes(model text, providers text[], regions jsonb) returns table (routes jsonb)
  language sql stable security invoker
as $$
  select jsonb_agg(
    jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.prices)
    || case when regions ? r.provider_id then jsonb_build_object('region', regions -> r.provider_id) else jsonb '{}' end
    || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
    || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
    || case
      when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
      else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
        'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
      )))
    end
    order by r.place
  )
  from ai.open_routes(providers) r
  where r.model_id = model
$$;

-- Changes the given fields of a workspace's policy, for a member with manage_ai_policy: allowedModels, deniedModels,
-- allowedRegions, requestsPerMinute, tokensPerMinute, providerCostVisible, contentCapture, contentRetentionDays,
-- monthlyBudgetUsd, appBudgets [{ appId, monthlyBudgetUsd }]. null removes a limit. readAt is the updatedAt of the
-- policy that the member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy),
-- changed_meanwhile (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are
-- already in either list are never unknown. Each change adds an entry to the workspace's audit log.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels');
  foreach param in array array['allowedModels', 'deniedModels'] loop
    unknown := ai.unknown_models(array(
      select n.name from unnest(ai.text_list(changes -> param)) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    allowed_regions = case
      when changes ? 'allowedRegions' then ai.text_list(changes -> 'allowedRegions') else p.allowed_regions
    end,
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
  where p.workspace_id = workspace;
  -- Locks apps before the workspace, which is the common lock order.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

-- Returns a workspace's policy as its members see it, or the defaults if the workspace has not set a policy.
create or replace function ai.workspace_policy_summary(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'allowedModels', to_jsonb(p.allowed_models),
    'deniedModels', coalesce(to_jsonb(p.denied_models), '[]'),
    'allowedRegions', to_jsonb(p.allowed_regions),
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'providerCostVisible', coalesce(p.provider_cost_visible, true),
    'contentCapture', coalesce(p.content_capture, false),
    'contentRetentionDays', coalesce(p.content_retention_days, 30),
    'budget', (
      select ai.budget_summary(b, ai.cost_visible(w.id)) from ai.budgets b
      where b.scope = 'workspace' and b.subject_id = w.id and b.workspace_id = w.id and b.limit_usd is not null
    ),
    'appBudgets', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('appId', a.id, 'app', a.display_name) || ai.budget_summary(b, ai.cost_visible(w.id))
          order by a.display_name, a.id
        ),
        '[]'
      )
      from ai.budgets b
      join private.apps a on a.id = b.subject_id
      where b.scope = 'app' and b.workspace_id = w.id and b.limit_usd is not null
    ),
    'updatedAt', p.updated_at,
    'updatedBy', (select u.display_name from public.profiles u where u.id = p.updated_by)
  )
  from (select workspace as id) w
  left join ai.workspace_policies p on p.workspace_id = w.id
$$;

-- Returns the details of a run: { run, steps, attempts, ledger, answeredBy }. run is the summary. attempts are the
-- requests to providers. ledger contains the ledger entries, with charged credits as positive amounts. answeredBy is
-- the route that answered, with its prices at that time. attempts and answeredBy are null if provider cost is hidden.
create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible) || ai.run_pricing_facts(run, cost_visible),
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
    end
  )
$$;

-- Returns a page of the models whose id or name contains the term, or only the model only_id. Each model has its
-- prices, and its providers in the order in which calls try them. Amounts are text, so no digit is lost. With
-- page_size, each model has only its current prices. Without page_size, returns all models with all their prices. To
-- read the next page, pass the sortsAs of the last model as after.
create or replace function private.list_catalogue_models(
  term text default '', only_id text default null, after text[] default null, page_size integer default null
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'studioDefault', m.studio_default,
    'sortsAs', m.sorts_as,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- Checks prices like a call does, but assumes that every provider is connected.
    'hasPrice', (
      select p.routes is not null
      from ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id), null) p
    ),
    'hasGrant', exists (
      select
      from ai.model_grants g
      left join public.workspaces w on w.id = g.workspace_id
      where g.model_id = m.id and (g.plan_id is not null or w.deleted_at is null)
    ),
    -- In the order in which calls try them: open routes first.
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
      select coalesce(jsonb_agg(private.describe_price(p)
        order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id and (page_size is null or p.valid @> now())
    )
  ) order by m.sorts_as), '[]')
  from (
    select l.*, ai.model_order(l) as sorts_as
    from ai.models l
    where (only_id is null or l.id = only_id)
      and (position(lower(term) in lower(l.id)) > 0 or position(lower(term) in lower(l.display_name)) > 0)
      and (after is null or ai.model_order(l) > after)
    order by ai.model_order(l)
    limit page_size
  ) m
$$;

-- Returns the reason why a call is refused before its limits are checked, or null.
create or replace function ai.price_refusal(
  request ai.run_request, caller ai.caller, model ai.models, routes jsonb, cost_usd numeric, audio_tokens bigint,
  input_tokens bigint, tokens bigint
) returns jsonb
  language sql stable security invoker
as $$
  select coalesce(
    ai.call_refusal(caller, (request).kind),
    case
      when (caller).plan_id is null then ai.refusal('service_unavailable')
      when (request).entity_id <> (caller).entity_id then ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}')
      when (model).id is null then ai.refusal('model_not_found')
      when not coalesce((request).voice = any ((model).voices), (request).voice is null)
        then ai.refusal('invalid_request', '{"param": "voice"}')
      when (request).kind = 'chat' and (request).output_limit > (model).output_limit
        and (request).output_limit_assumed is not true
        then ai.refusal('invalid_request', jsonb_build_object('model_output_limit', (model).output_limit))
      when routes is null then ai.route_refusal((model).id, request, (caller).allowed_regions)
      when (audio_tokens > 0 or (request).audio) and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.audio_input))')
        then ai.refusal('unsupported_parameter', '{"param": "messages"}')
      when (request).fee_requests > 0 and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.request_fee))')
        then ai.refusal('unsupported_parameter', '{"param": "tools"}')
      when not ai.is_tier_priced(routes, (request).service_tier)
        then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
      when cost_usd is null then ai.refusal('service_unavailable')
      when tokens > least((caller).key_tokens_per_minute, (caller).workspace_tokens_per_minute)
        then ai.token_limit_refusal(caller, input_tokens, tokens)
    end
  )
$$;

grant execute on function ai.priced_routes(text, text[], jsonb) to service_role;

notify pgrst, 'reload schema';
