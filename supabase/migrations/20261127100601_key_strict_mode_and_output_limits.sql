-- Generated from supabase/schemas by npm run db:migration.

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
  is_strict boolean := false;
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

  if request.idempotency_key is not null then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = request.idempotency_key
      and i.expires_at > now();
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    case when earlier.key is null then offer.reserved_tokens else 0 end
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  if earlier.key is not null then
    return ai.idempotent_refusal(earlier, decode(request.fingerprint, 'hex'));
  end if;
  held := ai.reserve_limits(
    caller, offer.reserved_tokens, 1, offer.maximum_cost_usd, priced.account_id, maximum_credits
  );
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, offer.reserved_tokens);
    return ai.limit_refusal(held.refused, caller);
  end if;

  run_id := case
    when request.run_id_suffix is null then ai.run_id(now())
    else ai.new_run_id(request.run_id_suffix)
  end;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes,
    reserved_tokens, tokens_reserved_at
  )
  values (
    run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, request.feature, request.request_id,
    request.entity_id, request.idempotency_key, coalesce(request.streamed, false), offer.model_id, offer.routes,
    caller.markup, exempt, priced.account_id, offer.maximum_cost_usd, maximum_credits, held.budget_scopes,
    offer.reserved_tokens,
    case when offer.reserved_tokens is not null then greatest(key_window.started_at, (held.workspace_window).started_at) end
  );
  if request.idempotency_key is not null then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (caller.workspace_id, principal, request.idempotency_key, decode(request.fingerprint, 'hex'), now(), run_id)
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;

  if caller.key_id is not null then
    select k.name, k.is_strict into key_name, is_strict from ai.keys k where k.id = caller.key_id;
  end if;
  -- As text: building JSON from values looks up how each type is written.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,"credits_per_usd":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s}',
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
    coalesce(offer.reserved_tokens::text, 'null'),
    coalesce(offer.output_limit::text, 'null'),
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.call_limits(caller, key_window, held.workspace_window),
    coalesce(to_json(key_name), 'null'),
    is_strict::text
  );
end
$$;

-- Definer: as begin_run.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(request);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  listed jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  select coalesce(jsonb_agg(ai.model_listing(m, case when shows_prices then p.routes end) order by ai.model_order(m)), '[]') into listed
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  cross join lateral (
    select ai.priced_routes(m.id, request.providers) as routes
  ) p
  where p.routes is not null and (request.model is null or m.id = request.model);
  if request.model is null then
    return jsonb_build_object('object', 'list', 'data', listed);
  end if;
  return coalesce(listed -> 0, ai.refusal('model_not_found'));
end
$$;

create or replace function ai.listed_prices(tiers jsonb) returns jsonb
  language sql
  immutable
  security invoker
as $$
  select jsonb_agg(
    (
      select jsonb_object_agg(
        case
          when p.key in ('min_input_tokens', 'service_tier') then p.key
          when p.key = 'request_fee' then 'request_fee_usd'
          else p.key || '_usd_per_million'
        end,
        case when jsonb_typeof(p.value) = 'string' and p.key <> 'service_tier'
          then to_jsonb(trim_scale((p.value #>> '{}')::numeric))
          else p.value
        end
      )
      from jsonb_each(tier) as p
    )
    order by place
  )
  from jsonb_array_elements(tiers) with ordinality as t (tier, place)
$$;

-- Definer: as begin_run.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
  refusal jsonb := ai.call_refusal(caller);
  exempt boolean;
  cost_visible boolean;
begin
  if refusal is not null then
    return refusal;
  end if;
  exempt := caller.app_id is not null;
  cost_visible := exempt or caller.cost_visible;

  return jsonb_build_object(
    'source', caller.source,
    'workspaceId', caller.workspace_id,
    'userId', case when caller.source <> 'key' then caller.actor_id end,
    'key', (
      select jsonb_build_object(
        'id', k.id,
        'name', k.name,
        'prefix', 'ttr_ai_' || k.lookup,
        'environment', k.environment,
        'createdAt', ai.utc_text(k.created_at),
        'replaced', k.replaced_by is not null,
        'allowedModels', k.allowed_models,
        'allowedAddresses', k.allowed_addresses,
        'strict', k.is_strict
      )
      from ai.keys k where k.id = caller.key_id
    ),
    'app', (
      select jsonb_build_object('id', a.id, 'name', a.name, 'displayName', a.display_name)
      from private.apps a where a.id = caller.app_id
    ),
    'scopes', caller.scopes,
    'expiresAt', ai.utc_text(coalesce(
      (select k.expires_at from ai.keys k where k.id = caller.key_id),
      (
        select t.expires_at from ai.app_tokens t
        where caller.source = 'app_token' and t.token_hash = decode(call -> 'credential' ->> 'hash', 'hex')
      )
    )),
    'exempt', exempt,
    'limits', (
      select coalesce(jsonb_agg(l.value), '[]')
      from jsonb_array_elements(jsonb_build_array(
        ai.remaining_rate('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.remaining_rate(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- An app does not pay, and the holder of a key may not be the member who does.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller)
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;

create or replace function ai.find_offer(request ai.run_request, caller ai.caller, previous ai.priced_call) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  model ai.models;
  offer ai.route_offer;
  most ai.token_use;
  token_limit bigint := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
begin
  if request.model is null then
    select m.id into request.model from ai.models m where m.kind = request.kind and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  where m.id = request.model and m.kind = request.kind;
  if not found then
    offer.refusal := ai.refusal('model_not_found');
    return offer;
  end if;
  if request.voice is not null and not coalesce(request.voice = any (model.voices), false) then
    offer.refusal := ai.refusal('invalid_request', '{"param": "voice"}');
    return offer;
  end if;
  if model.kind = 'chat' and request.output_limit > model.output_limit and not coalesce(request.output_limit_assumed, false) then
    offer.refusal := ai.refusal('invalid_request', jsonb_build_object('model_output_limit', model.output_limit));
    return offer;
  end if;
  request.output_limit := least(request.output_limit, model.output_limit);
  most := ai.maximum_use(request);

  offer.model_id := model.id;
  offer.voice := coalesce(request.voice, model.voices[1]);
  offer.routes := case
    when model.id = (previous.offer).model_id and request.providers = (previous.request).providers then (previous.offer).routes
    else ai.priced_routes(model.id, request.providers)
  end;
  offer.context_window := model.context_window;
  offer.output_limit := case model.kind when 'chat' then request.output_limit end;
  if token_limit is not null then
    offer.reserved_tokens := ai.reserved_tokens(request, most, token_limit);
  end if;
  offer.maximum_cost_usd := ai.maximum_cost_usd(offer.routes, most, request.service_tier, model.kind = 'speech');
  offer.refusal := case
    when offer.routes is null then ai.refusal('model_not_found')
    when (most.audio > 0 or request.audio) and jsonb_path_exists(offer.routes, '$[*].prices[*] ? (!exists (@.audio_input))')
      then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when not ai.is_tier_priced(offer.routes, request.service_tier)
      then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
    when offer.maximum_cost_usd is null then ai.refusal('service_unavailable')
    when offer.reserved_tokens > token_limit then ai.token_limit_refusal(caller, most, offer.reserved_tokens)
  end;
  return offer;
end
$$;

-- Definer: the service role writes no keys, so that none is made past these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if (
    select count(*) >= 200 from ai.keys k
    where k.workspace_id = workspace and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
  ) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict
  )
  select
    id, id, workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'), issue_key.lookup,
    decode(issue_key.secret_hash, 'hex'), app,
    case when jsonb_typeof(key -> 'allowedModels') = 'array'
      then array(select jsonb_array_elements_text(key -> 'allowedModels')) end,
    case when jsonb_typeof(key -> 'allowedAddresses') = 'array'
      then array(select address::cidr from jsonb_array_elements_text(key -> 'allowedAddresses') as address) end,
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false)
  from (select gen_random_uuid() as id) as made_id
  returning * into made;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', made.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  perform private.log_workspace_change(workspace, 'key.created', made.id, made.name);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made));
end
$$;

-- Definer: as ai.issue_key.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  -- The new key will refer to the workspace, and an account's deletion locks that before its keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- One rotation of a key at a time; the second finds it replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict
  )
  returning * into made;
  update ai.keys k
  set
    replaced_by = made.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', made.id, made.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made));
end
$$;

create or replace function ai.key_summary(key ai.keys) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (key).id,
    'name', (key).name,
    'prefix', 'ttr_ai_' || (key).lookup,
    'environment', (key).environment,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', (key).last_used_at,
    'expiresAt', (key).expires_at,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when not ai.cost_visible(b.workspace_id) then null
          when b.period_start = date_trunc('month', now() at time zone 'UTC')::date then trim_scale(b.spent_usd)::text
          else '0'
        end
      )
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.limit_usd is not null
    )
  )
$$;

create or replace function ai.model_listing(model ai.models, routes jsonb) returns jsonb
  language sql
  immutable
  security invoker
as $$
  select jsonb_build_object(
    'id', model.id,
    'object', 'model',
    'created', floor(extract(epoch from model.created_at)),
    'owned_by', model.owned_by,
    'platform', jsonb_build_object(
      'name', model.display_name,
      'kind', model.kind,
      'context_window', model.context_window,
      'output_limit', model.output_limit,
      'prices', coalesce(ai.listed_prices(routes -> 0 -> 'prices'), '[]')
    ) || jsonb_strip_nulls(jsonb_build_object(
      'voices', model.voices,
      'default', nullif(model.is_default, false),
      'routes', (
        select jsonb_agg(
          jsonb_build_object(
            'provider', route -> 'provider',
            'model', route -> 'model',
            'prices', ai.listed_prices(route -> 'prices'),
            'tier_multipliers', route -> 'tier_multipliers'
          )
          order by place
        )
        from jsonb_array_elements(routes) with ordinality as r (route, place)
      )
    ))
  )
$$;

comment on function ai.find_offer(ai.run_request, ai.caller, ai.priced_call) is
  'Returns the model of a call with its routes, prices, output limit and maximum cost for a caller; or, in refusal, why there '
  'is none. '
  'Calls of a batch for one model read its routes once.';

comment on function ai.model_listing(ai.models, jsonb) is
  'Returns a model as OpenAI lists it, with its limits, its prices at the first route, and its routes with their prices. '
  'Without routes, prices are left out.';

comment on function ai.listed_prices(jsonb) is
  'Returns the prices of a route as the list of models has them: numbers with all their digits, and their unit in the name.';
