-- Saves a whole model from the console in one transaction: settings, routes, prices, grants to plans, and whether it is
-- enabled. Each difference is saved by the function for that single change, with the same audit line.

-- Saves all of a model's differences, or none of them. The change is { actor or serviceAccount, model, version (null
-- for a new model, otherwise the private.model_version that the admin saw), kind (of a new model), the settings of
-- private.save_model with isDefault and defaultOfKind, routes, prices, plans, seenPlans, enabled, reason, requestId, ip
-- }. Routes, prices, plans and enabled stay as they are if they are missing or null:
-- - routes: all routes in the order in which calls try them, each with the fields of private.change_model_route except
--   position. A provider and its name of the model identify a route.
-- - prices: prices for private.add_model_price that begin now. Adds those whose amounts differ from the amounts in
--   force. Removes none.
-- - plans: all plans that are granted the model. seenPlans has those that the admin saw. Grants to single workspaces
--   stay as they are.
-- Returns {} or { refused, part, last }. refused is too_many (at most 100 routes, 100 prices and 1,000 plans) or a
-- refusal of a single function. part is settings, routes, routes.<index>, prices, prices.<index>, plans, plans.<id> or
-- enabled. forbidden and not_found have no part.
create or replace function private.save_model_setup(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  -- Merged last into each change, so that no route or price replaces these.
  author jsonb := jsonb_build_object(
    'actor', change -> 'actor', 'serviceAccount', change -> 'serviceAccount',
    'serviceAccountScopes', change -> 'serviceAccountScopes', 'model', change -> 'model',
    'reason', change -> 'reason', 'requestId', change -> 'requestId', 'ip', change -> 'ip'
  );
  routes jsonb := nullif(change -> 'routes', 'null');
  prices jsonb := nullif(change -> 'prices', 'null');
  plans jsonb := nullif(change -> 'plans', 'null');
  is_enabled boolean;
  answer jsonb;
  refusal text;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  answer := case
    when jsonb_array_length(routes) > 100 then jsonb_build_object('refused', 'too_many', 'part', 'routes')
    when jsonb_array_length(prices) > 100 then jsonb_build_object('refused', 'too_many', 'part', 'prices')
    when jsonb_array_length(plans) > 1000 then jsonb_build_object('refused', 'too_many', 'part', 'plans')
    else private.apply_model_settings(change, author)
  end;
  if routes is not null and not answer ? 'refused' then
    answer := private.apply_model_routes(routes, author);
  end if;
  if prices is not null and not answer ? 'refused' then
    answer := private.apply_model_prices(prices, author);
  end if;
  if plans is not null and not answer ? 'refused' then
    answer := private.apply_model_plans(change, author);
  end if;
  select m.enabled into is_enabled from ai.models m where m.id = change ->> 'model';
  if (change ->> 'enabled')::boolean <> is_enabled and not answer ? 'refused' then
    answer := private.set_model_enabled(author || jsonb_build_object('enabled', change -> 'enabled'))
      || jsonb_build_object('part', 'enabled');
  end if;
  if answer ? 'refused' then
    -- Undoes what the earlier parts saved.
    raise exception using errcode = 'GHP01', message = 'refused', detail = answer::text;
  end if;
  return '{}';
exception
  when sqlstate 'GHP01' then
    get stacked diagnostics refusal = pg_exception_detail;
    -- The changes of this setup are undone by now, so the last one is somebody else's.
    return refusal::jsonb || case
      when refusal::jsonb ? 'last'
        then jsonb_build_object('last', private.last_admin_action('model ' || (change ->> 'model')))
      else '{}'
    end;
end
$$;

-- Locks a model and saves the settings of a setup that differ from the model's, or adds the model. Returns {} or
-- { refused, part, last }.
create or replace function private.apply_model_settings(setup jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := setup ->> 'model';
  names text[] := array[
    'displayName', 'ownedBy', 'studioDefault', 'contextWindow', 'outputLimit', 'defaultOutputLimit', 'voices',
    'isDefault'
  ];
  -- Without nulls, so that a missing setting is the same as null. Without voices, the list is empty.
  settings jsonb := jsonb_build_object('voices', '[]'::jsonb) || jsonb_strip_nulls(setup);
  saved_settings jsonb;
  answer jsonb := '{}';
begin
  if not settings ? 'version' then
    answer := private.save_model(settings || author);
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'settings');
    end if;
  else
    perform from ai.models m where m.id = model for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model) <> settings ->> 'version' then
      return jsonb_build_object(
        'refused', 'conflict', 'part', 'settings', 'last', private.last_admin_action('model ' || model)
      );
    end if;
  end if;
  -- A new model has all its settings by now, except that it is not yet the default of its kind.
  saved_settings := jsonb_strip_nulls(private.read_model(model));
  if exists (
    select from unnest(names) as n (name) where saved_settings -> n.name is distinct from settings -> n.name
  ) then
    answer := private.save_model(settings || author || jsonb_build_object('version', private.model_version(model)));
  end if;
  return case when answer ? 'refused' then answer || jsonb_build_object('part', 'settings') else '{}' end;
end
$$;

-- Removes, adds, edits and moves routes until a model has exactly the given ones. Returns {} or
-- { refused, part, last }.
create or replace function private.apply_model_routes(routes jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := author ->> 'model';
  wanted jsonb;
  nth bigint;
  place integer;
  saved_route jsonb;
  answer jsonb;
begin
  -- Begins with the last route, because the routes after a removed one move up.
  for place in
    select r.position
    from ai.model_routes r
    where r.model_id = model and not exists (
      select
      from jsonb_array_elements(routes) as w
      where w.value ->> 'providerId' = r.provider_id and w.value ->> 'providerModel' = r.provider_model
    )
    order by r.position desc
  loop
    answer := private.change_model_route(
      author || jsonb_build_object('version', private.model_version(model), 'place', place, 'route', null)
    );
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'routes');
    end if;
  end loop;
  -- Invariant: the first nth - 1 routes are those of the list.
  for wanted, nth in select w.value, w.ordinality from jsonb_array_elements(routes) with ordinality as w loop
    select r.position, to_jsonb(r) - array['model_id', 'position'] into place, saved_route
    from ai.model_routes r
    where r.model_id = model and r.provider_id = wanted ->> 'providerId'
      and r.provider_model = wanted ->> 'providerModel'
    order by r.position
    limit 1;
    if place < nth then
      answer := jsonb_build_object('refused', 'route_taken');
    elsif place = nth and saved_route = private.route_columns(wanted) then
      answer := '{}';
    else
      answer := private.change_model_route(author || jsonb_build_object(
        'version', private.model_version(model), 'place', place, 'route', wanted || jsonb_build_object('position', nth)
      ));
    end if;
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'routes.' || (nth - 1));
    end if;
  end loop;
  return '{}';
end
$$;

-- Adds the prices whose amounts differ from those in force. Returns {} or { refused, part, last }.
create or replace function private.apply_model_prices(prices jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := author ->> 'model';
  wanted jsonb;
  nth bigint;
  tier integer;
  -- The provider and input size of a price. All service tiers of a scope share their newest price.
  scope text;
  basis jsonb;
  -- By scope, the newest price and the number of prices that the admin saw.
  seen jsonb := '{}';
  answer jsonb;
begin
  for wanted, nth in select w.value, w.ordinality from jsonb_array_elements(prices) with ordinality as w loop
    tier := coalesce((wanted ->> 'minInputTokens')::integer, 0);
    continue when exists (
      select
      from ai.model_prices p
      where p.model_id = model and p.provider_id = wanted ->> 'providerId' and p.min_input_tokens = tier
        and p.service_tier = coalesce(wanted ->> 'serviceTier', 'default') and p.valid @> now()
        and (
          p.input_usd_per_million, p.cached_input_usd_per_million, p.cache_write_usd_per_million,
          p.cache_write_1h_usd_per_million, p.output_usd_per_million, p.audio_input_usd_per_million,
          p.audio_output_usd_per_million, p.image_input_usd_per_million, p.request_fee_usd
        ) is not distinct from (
          (wanted ->> 'inputUsd')::numeric, (wanted ->> 'cachedInputUsd')::numeric,
          (wanted ->> 'cacheWriteUsd')::numeric, (wanted ->> 'cacheWrite1hUsd')::numeric,
          (wanted ->> 'outputUsd')::numeric, (wanted ->> 'audioInputUsd')::numeric,
          (wanted ->> 'audioOutputUsd')::numeric, (wanted ->> 'imageInputUsd')::numeric,
          (wanted ->> 'requestFeeUsd')::numeric
        )
    );
    scope := jsonb_build_array(wanted -> 'providerId', tier)::text;
    basis := jsonb_build_array(wanted ->> 'latest', wanted ->> 'seen');
    if not seen ? scope then
      seen := seen || jsonb_build_object(scope, basis);
      answer := private.add_model_price((wanted - 'from') || author);
    elsif seen -> scope <> basis then
      answer := jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model));
    else
      -- The first price of the scope has changed both.
      answer := private.add_model_price((wanted - array['from', 'seen']) || author || jsonb_build_object(
        'latest', private.latest_price(model, wanted ->> 'providerId', tier)
      ));
    end if;
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'prices.' || (nth - 1));
    end if;
  end loop;
  return '{}';
end
$$;

-- Grants a model to exactly the plans of a setup, unless the granted plans have changed since the admin saw them.
-- Returns {} or { refused, part, last }.
create or replace function private.apply_model_plans(setup jsonb, author jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model text := author ->> 'model';
  granted text[] := array(
    select g.plan_id from ai.model_grants g where g.model_id = model and g.plan_id is not null order by g.plan_id
  );
  wanted text[] := array(
    select distinct p.value from jsonb_array_elements_text(setup -> 'plans') as p order by p.value
  );
  seen text[] := array(
    select distinct p.value
    from jsonb_array_elements_text(coalesce(nullif(setup -> 'seenPlans', 'null'), '[]')) as p
    order by p.value
  );
  plan text;
  is_wanted boolean;
  answer jsonb;
begin
  if wanted = granted then
    return '{}';
  end if;
  if seen <> granted then
    return jsonb_build_object(
      'refused', 'conflict', 'part', 'plans', 'last', private.last_admin_action('model ' || model)
    );
  end if;
  for plan, is_wanted in
    select p.id, p.id = any (wanted)
    from unnest(wanted || granted) as p (id)
    group by p.id
    having (p.id = any (wanted)) <> (p.id = any (granted))
    order by p.id
  loop
    answer := private.set_model_grant(author || jsonb_build_object('plan', plan, 'granted', is_wanted));
    if answer ? 'refused' then
      return answer || jsonb_build_object('part', 'plans.' || plan);
    end if;
  end loop;
  return '{}';
end
$$;
