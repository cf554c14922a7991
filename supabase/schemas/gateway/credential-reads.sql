-- What a credential may do and use, without a call.

-- Definer: as begin_run.
create or replace function ai.check_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
  refusal jsonb := ai.call_refusal(caller, call ->> 'kind');
begin
  if refusal is not null then
    return refusal;
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;
comment on function ai.check_credential(jsonb) is
  'For a call whose body is no good, or large: whoever has no credential, or may not make calls of that kind where one is '
  'named, is told that, and nothing of the body. Returns whose it is, or {refused: code}.';

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
comment on function ai.list_models(jsonb) is
  'The models that a credential may use and that can be reached and charged now, as OpenAI lists them, in the order of '
  'ai.model_order; with model in the call that one alone; or {refused: code}.';

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
comment on function ai.model_listing(ai.models, jsonb) is
  'Returns a model as OpenAI lists it, with its limits, its prices at the first route, and its routes with their prices. '
  'Without routes, prices are left out.';

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
comment on function ai.listed_prices(jsonb) is
  'Returns the prices of a route as the list of models has them: numbers with all their digits, and their unit in the name.';

create or replace function ai.model_order(model ai.models) returns text[]
  language sql
  immutable
  security invoker
as $$
  -- The names of the kinds happen to sort well: chat, embedding, speech.
  select array[model.kind, case when model.is_default then '' else lower(model.display_name) end, model.id]
$$;
comment on function ai.model_order(ai.models) is
  'Sorts every list of models: by kind, the default of each kind first, then by name.';
