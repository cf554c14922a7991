-- Which models a caller may use, at what price, and the maximum cost of a call. ai.model_offers holds it prepared, one row
-- a price period; the catalogue itself answers where that is not a plain yes.

create or replace function ai.offer_for(call jsonb, caller ai.caller, input_tokens bigint, output_tokens bigint) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  offer ai.model_offers;
  offered ai.route_offer;
begin
  select o.* into offer
  from ai.model_offers o
  where o.model_id = call ->> 'model' and o.valid_from <= now() and o.valid_until > now();
  -- Text in and text out, by lists that all say yes: as nearly all calls are.
  if offer.kind = call ->> 'kind'
    and offer.kind <> 'speech'
    and caller.plan_id = any (offer.plans)
    and call ->> 'voice' is null
    and (call ->> 'audio')::boolean is not true
    and (caller.workspace_models is null or offer.model_id = any (caller.workspace_models))
    and (caller.denied_models is null or not offer.model_id = any (caller.denied_models))
    and (caller.key_models is null or offer.model_id = any (caller.key_models))
    and call -> 'providers' @> offer.providers
  then
    if cardinality(offer.input_usd) = 1 and offer.min_input_tokens[1] = 0 then
      -- As ai.offer_maximum_cost_usd has it, of the one price that nearly all models have.
      offered.maximum_cost_usd := (input_tokens * offer.input_usd[1] + output_tokens * offer.output_usd[1]) * 0.000001;
    else
      offered.maximum_cost_usd := ai.offer_maximum_cost_usd(offer, input_tokens, output_tokens);
    end if;
    if offered.maximum_cost_usd is not null then
      offered.model_id := offer.model_id;
      offered.routes := offer.routes;
      return offered;
    end if;
  end if;
  return ai.offer_from_catalogue(call, caller, input_tokens, output_tokens);
end
$$;
comment on function ai.offer_for(jsonb, ai.caller, bigint, bigint) is
  'What a caller gets the model of a call for: by what is prepared, and by the catalogue where that does not plainly '
  'say yes.';

create or replace function ai.offer_from_catalogue(call jsonb, caller ai.caller, input_tokens bigint, output_tokens bigint) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  wanted text := call ->> 'model';
  audio boolean := coalesce((call ->> 'audio')::boolean, false);
  model ai.models;
  offer record;
  offered ai.route_offer;
begin
  if wanted is null then
    select m.id into wanted from ai.models m where m.kind = call ->> 'kind' and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  where m.id = wanted and m.kind = call ->> 'kind';
  if not found then
    offered.refusal := ai.refusal('model_not_found');
    return offered;
  end if;
  if call ->> 'voice' is not null and not coalesce(call ->> 'voice' = any (model.voices), false) then
    offered.refusal := ai.refusal('invalid_request', '{"param": "voice"}');
    return offered;
  end if;
  if model.kind = 'speech' then
    output_tokens := least(output_tokens, model.output_limit);
  end if;

  select o.* into offer
  from ai.offers(wanted, call -> 'providers', input_tokens, output_tokens, audio, model.kind = 'speech') o;
  offered.refusal := case
    when offer.routes is null then ai.refusal('service_unavailable')
    when audio and not offer.hears then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when offer.maximum_cost_usd is null then ai.refusal('service_unavailable')
  end;
  offered.model_id := model.id;
  offered.voice := coalesce(call ->> 'voice', model.voices[1]);
  offered.routes := offer.routes;
  offered.output_tokens := output_tokens;
  offered.maximum_cost_usd := offer.maximum_cost_usd;
  return offered;
end
$$;
comment on function ai.offer_from_catalogue(jsonb, ai.caller, bigint, bigint) is
  'What a caller gets a model for, of whatever kind, by the catalogue itself; and the one that says why they get none.';

create or replace function ai.offers(
  model text, providers jsonb, input_tokens bigint, output_tokens bigint, audio boolean, speech boolean
)
  returns table (routes jsonb, maximum_cost_usd numeric, hears boolean)
  language sql
  stable
  security invoker
as $$
  select
    jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      order by r.position
    ),
    max(p.maximum_cost_usd),
    bool_and(p.hears)
  from ai.model_routes r
  cross join lateral (
    select
      jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers,
      max(
        (
          input_tokens * greatest(t.input_usd_per_million, case when audio then t.audio_input_usd_per_million end)
          + output_tokens
            * coalesce(case when speech then t.audio_output_usd_per_million end, t.output_usd_per_million)
        ) * 0.000001
      ) filter (where t.min_input_tokens <= input_tokens) as maximum_cost_usd,
      bool_and(t.audio_input_usd_per_million is not null) as hears
    from ai.model_prices t
    where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
  ) as p
  where r.model_id = model and r.enabled and p.tiers is not null and providers ? r.provider_id
$$;
comment on function ai.offers(text, jsonb, bigint, bigint, boolean, boolean) is
  'One row: a model''s routes as ai.priced_routes has them, the maximum cost of a call there as '
  'ai.maximum_cost_usd has it, and whether all of them take audio. Nulls where there is no route with a price.';

create or replace function ai.usable_models(workspace uuid, plan text, workspace_models text[], denied_models text[], key_models text[])
  returns setof ai.models
  language sql
  stable
  security invoker
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
comment on function ai.usable_models(uuid, text, text[], text[], text[]) is
  'The intersection of enabled catalogue, Studio defaults, workspace policy, plan or root grants, and the key''s list.';

create or replace function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      order by r.position
    )
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.min_input_tokens) as tiers
      from ai.model_prices t
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
    ) as p
    where r.model_id = model and r.enabled and p.tiers is not null and r.provider_id = any (providers)
  );
end
$$;
comment on function ai.priced_routes(text, text[]) is
  'A model''s routes in order with the prices of now, as far as they have one and lead to a provider of the list. Null '
  'when none does.';

create or replace function ai.reserved_input_tokens(call jsonb) returns bigint
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ((call ->> 'input_bytes')::bigint + 2) / 3 + 1500 * coalesce((call ->> 'images')::bigint, 0)
$$;
comment on function ai.reserved_input_tokens(jsonb) is
  'What a call''s input may count at most: a third of its bytes, and 1,500 an image.';

create or replace function ai.maximum_cost_usd(
  routes jsonb, input_tokens bigint, output_tokens bigint, audio boolean, speech boolean default false
) returns numeric
  language plpgsql
  immutable
  security invoker
  set search_path = ''
as $$
begin
  return (
    select max(
      (
        input_tokens * greatest((tier ->> 'input')::numeric, (tier ->> 'audio_input')::numeric * audio::integer)
        + output_tokens * coalesce(case when speech then tier ->> 'audio_output' end, tier ->> 'output')::numeric
      ) * 0.000001
    )
    from jsonb_array_elements(routes) as route
    cross join jsonb_array_elements(route -> 'prices') as tier
    where (tier ->> 'min_input_tokens')::bigint <= input_tokens
  );
end
$$;
comment on function ai.maximum_cost_usd is
  'The maximum cost of a provider call: the whole output, nothing cached, at any route, at any tier that the input may '
  'reach; with audio in the input, or with nothing but audio in the output.';

create or replace function ai.offer_maximum_cost_usd(offer ai.model_offers, input_tokens bigint, output_tokens bigint) returns numeric
  language plpgsql
  immutable
  security invoker
as $$
declare
  maximum numeric;
begin
  for tier in 1..cardinality(offer.min_input_tokens) loop
    if offer.min_input_tokens[tier] <= input_tokens then
      maximum := greatest(
        maximum, (input_tokens * offer.input_usd[tier] + output_tokens * offer.output_usd[tier]) * 0.000001
      );
    end if;
  end loop;
  return maximum;
end
$$;
comment on function ai.offer_maximum_cost_usd(ai.model_offers, bigint, bigint) is
  'The maximum cost of a text call, as ai.maximum_cost_usd computes it.';
