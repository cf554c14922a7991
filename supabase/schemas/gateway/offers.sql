-- Finds the models that a caller may use, their routes and prices, and the maximum cost of a call.

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
    with named as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        case
          when (c.caller).allowed_regions is null then (c.request).providers
          else ai.providers_in_regions((c.request).providers, (c.request).regions, (c.caller).allowed_regions)
        end as providers
      from ai.find_callers(calls, people) c
    ),
    requests as materialized (
      select
        n.*, l.model_requests, l.model_tokens,
        least((n.caller).key_tokens_per_minute, l.model_tokens, (n.caller).workspace_tokens_per_minute) as token_limit,
        coalesce((n.caller).entity_id, (n.request).entity_id, (n.request).session_label) as label
      from named n
      -- Most workspaces have no limits by model.
      cross join lateral (
        select
          ((n.caller).model_limits -> n.model_id ->> 'requests')::integer as model_requests,
          ((n.caller).model_limits -> n.model_id ->> 'tokens')::bigint as model_tokens
        offset 0
      ) as l
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, d.regions, p.routes
      from (select distinct r.model_id, r.providers, (r.request).regions from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers, d.regions) as p
    )
    select coalesce(array_agg(row(
      coalesce(
        ai.price_refusal(
          r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens, r.model_tokens
        ),
        case when (e.envelope).id is not null then ai.named_envelope_refusal(r.request, e.envelope) end
      ),
      r.request, r.caller, r.label,
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd,
      case
        when (r.request).is_free then null
        when (e.envelope).id is not null then '{envelope/*}'::text[] || (r.caller).budgets
        else (r.caller).budgets
      end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null, r.model_requests, r.model_tokens, (e.envelope).id,
      case when (e.envelope).id is not null then
        jsonb_build_object('id', (e.envelope).id, 'label', (e.envelope).label)
      end, null, null, null
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
    -- An envelope has a budget, so a workspace without budgets has no envelope.
    left join lateral (
      select e as envelope
      from ai.find_envelope(
        (r.caller).workspace_id, ai.envelope_principal(r.caller), r.label, (r.request).envelope is not null
      ) e
      where (r.caller).budgets is not null and (r.request).is_free is not true
      offset 0
    ) as e on true
  );
end
$$;

-- Returns the highest output limit of a call that states none: the model's limit (2,048 if the model has none), and the
-- room left in the context window.
create or replace function ai.assumed_output_limit(model ai.models, input_tokens bigint) returns bigint
  language sql immutable security invoker parallel safe
as $$
  select least(
    coalesce((model).output_limit, (model).default_output_limit, 2048),
    case when (model).context_window is not null then greatest(2048, (model).context_window - input_tokens) end
  )
$$;

-- Returns the reason why a call is refused before its limits are checked, or null.
create or replace function ai.price_refusal(
  request ai.run_request, caller ai.caller, model ai.models, routes jsonb, cost_usd numeric, audio_tokens bigint,
  input_tokens bigint, tokens bigint, model_tokens_per_minute bigint
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
      when tokens > least((caller).key_tokens_per_minute, model_tokens_per_minute, (caller).workspace_tokens_per_minute)
        then ai.token_limit_refusal(caller, model_tokens_per_minute, input_tokens, tokens)
    end
  )
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
    -- Looks the grants up by model.
    and (
      select true from ai.model_grants g where g.model_id = m.id and (g.plan_id = plan or g.workspace_id = workspace) limit 1
    )
$$;

-- Returns those of the given providers that are in an allowed region. A provider without a region is in none.
create or replace function ai.providers_in_regions(providers text[], regions jsonb, allowed_regions text[]) returns text[]
  language sql immutable security invoker parallel safe
as $$
  select array(select p.id from unnest(providers) as p (id) where regions ->> p.id = any (allowed_regions))
$$;

-- Returns the refusal of a call for a usable model that has no route. If the model has one outside the allowed regions,
-- the refusal says so.
create or replace function ai.route_refusal(model text, request ai.run_request, allowed_regions text[]) returns jsonb
  language sql stable security invoker
as $$
  select case
    when allowed_regions is not null
      and exists (select from ai.open_routes((request).providers) r where r.model_id = model)
      then ai.refusal('region_not_allowed', '{"param": "model"}')
    else ai.refusal('model_not_found')
  end
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

-- Returns all enabled routes to the given providers with their current prices: the default tier's prices first, and those
-- of a tier by min_input_tokens. Omits routes without a default-tier price.
create or replace function ai.open_routes(providers text[]) returns table (
  model_id text, place smallint, provider_id text, provider_model text, tier_multipliers jsonb,
  trusts_stated_cost boolean, first_byte_seconds smallint, idle_seconds smallint, total_seconds smallint, prices jsonb
)
  language sql stable security invoker
as $$
  select
    r.model_id, r.position, r.provider_id, r.provider_model, r.tier_multipliers,
    r.trusts_stated_cost, r.first_byte_seconds, r.idle_seconds, r.total_seconds, p.prices
  from ai.model_routes r
  cross join lateral (
    select jsonb_agg(t.as_offered order by nullif(t.service_tier, 'default') nulls first, t.min_input_tokens) as prices
    from ai.model_prices t
    where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
    -- Settlement charges the default tier's price for a service tier without its own price, so every route needs a
    -- default price.
    having bool_or(t.service_tier = 'default')
  ) as p
  where r.enabled and r.provider_id = any (providers)
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
      when exists (select from ai.provider_limits l where l.provider_id = r.provider_id) then jsonb '{"limited": true}'
      else jsonb '{}'
    end
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

-- Returns the maximum number of input tokens of a call: one for every three bytes of input (media excluded), 1,500 per
-- image, and 50 per second of audio (Gemini counts 32, OpenAI 10).
create or replace function ai.input_tokens(input_bytes bigint, images bigint, audio_seconds bigint)
  returns table (text_tokens bigint, image_tokens bigint, audio_tokens bigint)
  language sql immutable security invoker parallel safe
as $$
  select (input_bytes + 2) / 3, 1500 * coalesce(images, 0), 50 * coalesce(audio_seconds, 0)
$$;

-- Returns the highest cost that a provider call can have, over all routes and all price tiers that the input can reach.
-- Assumes the whole output limit, no cached input, the higher of the input and cache-write prices, and all request fees
-- that the call may cause. hour_writes is whether the request caches its input for an hour.
create or replace function ai.maximum_cost(
  routes jsonb, text_tokens bigint, image_tokens bigint, audio_tokens bigint, output_tokens bigint, hour_writes boolean,
  service_tier text, fee_requests bigint, is_speech boolean
) returns table (usd numeric)
  language sql immutable security invoker parallel safe
as $$
  select
    max(
      (
        text_tokens * greatest(
          (tier ->> 'input')::numeric, (tier ->> 'cache_write')::numeric,
          case when hour_writes then (tier ->> 'cache_write_1h')::numeric end
        )
        + image_tokens * greatest((tier ->> 'input')::numeric, (tier ->> 'image_input')::numeric)
        + audio_tokens * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
        + output_tokens * coalesce(case when is_speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
      * greatest(1, (route -> 'tier_multipliers' ->> service_tier)::numeric)
      + coalesce((tier ->> 'request_fee')::numeric, 0)
    ) filter (
      where (tier ->> 'min_input_tokens')::bigint <= text_tokens + image_tokens + audio_tokens
        and coalesce(tier ->> 'service_tier', 'default') in ('default', service_tier)
    )
    + greatest(coalesce(fee_requests, 0) - 1, 0) * coalesce(max((tier ->> 'request_fee')::numeric), 0)
  from jsonb_array_elements(routes) as route
  cross join jsonb_array_elements(route -> 'prices') as tier
$$;

-- Returns whether every route has a price for the requested service tier. Always true for auto and default.
create or replace function ai.is_tier_priced(routes jsonb, service_tier text) returns boolean
  language sql stable security invoker parallel safe
as $$
  select coalesce(service_tier, 'auto') in ('auto', 'default') or not jsonb_path_exists(
    routes,
    '$[*] ? (!exists (@.prices[*] ? (@.service_tier == $tier)) && !exists (@.tier_multipliers.keyvalue() ? (@.key == $tier)))',
    jsonb_build_object('tier', service_tier)
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
