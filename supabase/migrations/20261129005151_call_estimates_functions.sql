-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

-- Returns a call with its caller, label, model, maximum cost and paying account, or with the reason why it is refused.
-- Locks nothing.
create or replace function ai.price_call(request ai.run_request, previous ai.priced_call) returns ai.priced_call
  language plpgsql stable security invoker
as $$
declare
  caller ai.caller := ai.find_caller(request);
  offer ai.route_offer;
  refusal jsonb := ai.call_refusal(caller, request.kind);
  account uuid;
begin
  if refusal is null and caller.plan_id is null then
    refusal := ai.refusal('service_unavailable');
  end if;
  if refusal is null and request.entity_id <> caller.entity_id then
    refusal := ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}');
  end if;
  request.entity_id := coalesce(caller.entity_id, request.entity_id, request.session_label);
  if request.is_free then
    caller.budgets := null;
  end if;
  if refusal is null then
    offer := ai.find_offer(request, caller, previous);
    refusal := offer.refusal;
  end if;
  if refusal is null then
    select a.id into account
    from ai.credit_accounts a
    where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller);
  end if;
  return row(refusal, request, caller, offer, account)::ai.priced_call;
end
$$;

-- Admits or refuses one call. The caller of this function has locked the rows that the call needs. Reserves the call's
-- maximum cost, opens its run and returns the result of ai.begin_run. Not granted to any role, because it trusts its
-- caller.
create or replace function ai.admit_call(priced ai.priced_call) returns text
  language plpgsql volatile security invoker
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
    caller, request.entity_id, offer.reserved_tokens, 1, offer.maximum_cost_usd,
    case when request.is_free then null else priced.account_id end, maximum_credits
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

  -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
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
    coalesce(to_json(caller.key_name), 'null'),
    coalesce(caller.is_strict, false)::text
  );
end
$$;

-- Returns the requested model with its routes, prices, output limit and maximum cost, or a refusal. If the caller
-- stated no output limit, the limit is the lower of the model's limit (2,048 if unknown) and the room left in the
-- context window. A free call reserves nothing. Calls of a batch for the same model and providers read the routes only once.
create or replace function ai.find_offer(request ai.run_request, caller ai.caller, previous ai.priced_call) returns ai.route_offer
  language plpgsql stable security invoker
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
  most := ai.maximum_use(request);
  request.output_limit := least(request.output_limit, model.output_limit);
  if request.output_limit_assumed then
    request.output_limit := least(
      request.output_limit, coalesce(model.output_limit, 2048),
      case when model.context_window is not null then
        greatest(2048, model.context_window - least(request.expected_tokens, most.text + most.image + most.audio))
      end
    );
  end if;
  -- No reading exceeds the context window.
  most.text := least(most.text, model.context_window * request.input_reads);
  most.output := request.output_limit * coalesce(request.choices, 1);

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
  offer.maximum_cost_usd := ai.maximum_cost_usd(offer.routes, most, request.service_tier, model.kind = 'speech')
    + ai.further_fees_usd(offer.routes, request.fee_requests);
  if request.is_free then
    offer.maximum_cost_usd := 0;
  end if;
  offer.refusal := case
    when offer.routes is null then ai.refusal('model_not_found')
    when (most.audio > 0 or request.audio) and jsonb_path_exists(offer.routes, '$[*].prices[*] ? (!exists (@.audio_input))')
      then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when request.fee_requests > 0 and jsonb_path_exists(offer.routes, '$[*].prices[*] ? (!exists (@.request_fee))')
      then ai.refusal('unsupported_parameter', '{"param": "tools"}')
    when not ai.is_tier_priced(offer.routes, request.service_tier)
      then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
    when offer.maximum_cost_usd is null then ai.refusal('service_unavailable')
    when offer.reserved_tokens > token_limit then ai.token_limit_refusal(caller, most, offer.reserved_tokens)
  end;
  return offer;
end
$$;

-- Returns the maximum number of tokens of a call: one for every three bytes of input (media excluded), 1,500 per image,
-- 50 per second of audio (Gemini counts 32, OpenAI 10), and the output limit for each choice.
create or replace function ai.maximum_use(request ai.run_request) returns ai.token_use
  language sql immutable security invoker parallel safe
as $$
  select row(
    ((request).input_bytes + 2) / 3, 1500 * coalesce((request).images, 0), 50 * coalesce((request).audio_seconds, 0),
    (request).output_limit * coalesce((request).choices, 1),
    -- Servers of 0.1.0 don't say whether a request caches for an hour.
    coalesce((request).hour_writes, true)
  )::ai.token_use
$$;

-- Returns the highest cost that a provider call can have, over all routes and all price tiers that the input can reach.
-- Assumes the whole output limit, no cached input, the higher of the input and cache-write prices, and one request fee.
create or replace function ai.maximum_cost_usd(routes jsonb, most ai.token_use, service_tier text, speech boolean default false)
  returns numeric
  language plpgsql immutable security invoker
as $$
begin
  return (
    select max(
      (
        most.text * greatest(
          (tier ->> 'input')::numeric, (tier ->> 'cache_write')::numeric,
          case when most.hour_writes then (tier ->> 'cache_write_1h')::numeric end
        )
        + most.image * greatest((tier ->> 'input')::numeric, (tier ->> 'image_input')::numeric)
        + most.audio * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
        + most.output * coalesce(case when speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
      * greatest(1, (route -> 'tier_multipliers' ->> maximum_cost_usd.service_tier)::numeric)
      + coalesce((tier ->> 'request_fee')::numeric, 0)
    )
    from jsonb_array_elements(routes) as route
    cross join jsonb_array_elements(route -> 'prices') as tier
    where (tier ->> 'min_input_tokens')::bigint <= most.text + most.image + most.audio
      and coalesce(tier ->> 'service_tier', 'default') in ('default', maximum_cost_usd.service_tier)
  );
end
$$;
