-- Finds the models that a caller may use, their routes and prices, and the maximum cost of a call.

-- Returns the requested model with its routes, prices, output limit and maximum cost, or a refusal. If the caller
-- stated no output limit, the model's own default replaces the assumed limit. It is lowered to the model's limit (2,048
-- if both are unknown) and to the room left in the context window. A free call reserves nothing. Calls of a batch for the same model and providers read the routes only once.
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
  if request.output_limit_assumed then
    request.output_limit := coalesce(model.default_output_limit, request.output_limit);
  end if;
  request.output_limit := least(request.output_limit, model.output_limit);
  if request.output_limit_assumed then
    request.output_limit := least(
      request.output_limit, coalesce(model.output_limit, model.default_output_limit, 2048),
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
  offer.maximum_cost_usd := ai.maximum_cost_usd(offer.routes, most, request.service_tier, model.kind = 'speech')
    + ai.further_fees_usd(offer.routes, request.fee_requests);
  if request.is_free then
    offer.maximum_cost_usd := 0;
  end if;
  -- Token limits count one reading, of average size: few calls use a server tool as often as they may.
  most.text := most.text / coalesce(request.input_reads, 1);
  most.image := most.image / coalesce(request.input_reads, 1);
  if token_limit is not null then
    offer.reserved_tokens := ai.reserved_tokens(request, most, token_limit);
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

-- Returns the models that are enabled in the catalogue and in the Studio defaults, allowed by the workspace's policy
-- and by the key, and granted to the plan or to the workspace.
create or replace function ai.usable_models(workspace uuid, plan text, workspace_models text[], denied_models text[], key_models text[])
  returns setof ai.models
  language sql stable security invoker
as $$
  select m.*
  from ai.models m
  where m.enabled
    and m.studio_default
    and (workspace_models is null or m.id = any (workspace_models))
    and not m.id = any (coalesce(denied_models, '{}'))
    and (key_models is null or m.id = any (key_models))
    and exists (
      select from ai.model_grants g where g.model_id = m.id and (g.plan_id = plan or g.workspace_id = workspace)
    )
$$;

-- Returns the names that match no model id in the catalogue; null if every name matches. Disabled models count as
-- matches. Ids are compared exactly, the same as for calls. Use it to check a list of models before saving the list.
create or replace function ai.unknown_models(names text[]) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select nullif(array(
    select n.name
    from unnest(names) with ordinality as n (name, place)
    where not exists (select from ai.models m where m.id = n.name)
    order by n.place
  ), '{}')
$$;

-- Returns the current prices of all enabled routes to the given providers, each with its route. Omits routes without a
-- default-tier price. Callers sort the prices of a route by sorts_as with nulls (the default tier) first, then by
-- min_input_tokens.
create or replace function ai.open_prices(providers text[]) returns table (
  model_id text, place smallint, provider_id text, provider_model text, tier_multipliers jsonb,
  trusts_stated_cost boolean, first_byte_seconds smallint, idle_seconds smallint, total_seconds smallint,
  sorts_as text, min_input_tokens integer, as_offered jsonb
)
  language sql stable security invoker
as $$
  select
    r.model_id, r.position, r.provider_id, r.provider_model, r.tier_multipliers,
    r.trusts_stated_cost, r.first_byte_seconds, r.idle_seconds, r.total_seconds,
    nullif(t.service_tier, 'default'), t.min_input_tokens, t.as_offered
  from ai.model_routes r
  join ai.model_prices t on t.model_id = r.model_id and t.provider_id = r.provider_id
  where r.enabled and r.provider_id = any (providers) and t.valid @> now()
    -- Settlement charges the default tier's price for a service tier without its own price, so every route needs a
    -- default price.
    and exists (
      select
      from ai.model_prices b
      where b.model_id = r.model_id and b.provider_id = r.provider_id and b.service_tier = 'default' and b.valid @> now()
    )
$$;

-- Returns a model's routes to the given providers in order, with their current prices. Omits routes without a price.
-- Returns null if no route is left.
create or replace function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql stable security invoker
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.tiers)
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
    from (
      select
        p.place, p.provider_id, p.provider_model, p.tier_multipliers, p.trusts_stated_cost,
        p.first_byte_seconds, p.idle_seconds, p.total_seconds,
        jsonb_agg(p.as_offered order by p.sorts_as nulls first, p.min_input_tokens) as tiers
      from ai.open_prices(providers) p
      where p.model_id = model
      group by
        p.place, p.provider_id, p.provider_model, p.tier_multipliers, p.trusts_stated_cost,
        p.first_byte_seconds, p.idle_seconds, p.total_seconds
    ) r
  );
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

-- Returns the request fees of a call beyond the first fee, which ai.maximum_cost_usd already includes. fee_requests is
-- the maximum number of requests with a fee that the call may make.
create or replace function ai.further_fees_usd(routes jsonb, fee_requests bigint) returns numeric
  language sql immutable security invoker parallel safe
as $$
  select greatest(coalesce(fee_requests, 0) - 1, 0) * coalesce(max((tier ->> 'request_fee')::numeric), 0)
  from jsonb_array_elements(routes) as route
  cross join jsonb_array_elements(route -> 'prices') as tier
$$;

-- Returns whether every route has a price for the requested service tier. Always true for auto and default.
create or replace function ai.is_tier_priced(routes jsonb, service_tier text) returns boolean
  language sql immutable security invoker parallel safe
as $$
  select coalesce(service_tier, 'auto') in ('auto', 'default') or not exists (
    select from jsonb_array_elements(routes) as route
    where not coalesce(route -> 'tier_multipliers' ? service_tier, false)
      and not jsonb_path_exists(
        route, '$.prices[*] ? (@.service_tier == $tier)', jsonb_build_object('tier', service_tier)
      )
  )
$$;

-- Rejects every change to a price, because runs may have been charged this price. Only the end of its validity may
-- change, until that end has passed.
create or replace function ai.reject_price_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if new.valid is distinct from old.valid
    and (lower(new.valid) is distinct from lower(old.valid) or (upper(old.valid) is not null and upper(old.valid) <= now())) then
    raise exception 'a price''s past cannot be rewritten' using errcode = 'restrict_violation';
  end if;
  -- Ignores generated columns, because Postgres computes them only after BEFORE triggers.
  if (to_jsonb(new) - array['valid', 'as_offered']) is distinct from (to_jsonb(old) - array['valid', 'as_offered']) then
    raise exception 'a price never changes: close its range and add a new one' using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;

create or replace trigger reject_price_change before update on ai.model_prices
  for each row execute function ai.reject_price_change();
