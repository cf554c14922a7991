-- Changes the routes of models from the console.

-- Returns the columns of a route, without its model and position, from the fields of private.change_model_route.
create or replace function private.route_columns(fields jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'provider_id', fields -> 'providerId',
    'provider_model', fields -> 'providerModel',
    'enabled', fields -> 'enabled',
    'trusts_stated_cost', fields -> 'trustsStatedCost',
    'tier_multipliers', (
      select coalesce(jsonb_object_agg(t.key, t.value::numeric), '{}')
      from jsonb_each_text(fields -> 'tierMultipliers') as t
    ),
    'first_byte_seconds', fields -> 'firstByteSeconds',
    'idle_seconds', fields -> 'idleSeconds',
    'total_seconds', fields -> 'totalSeconds'
  )
$$;

-- Adds, edits, moves or removes a route. The other routes keep their order. Positions count from 1. The change is {
-- actor, model, version (private.model_version), place (the route's current position, or null to add a route), route,
-- reason, requestId, ip }. route is null to remove the route, otherwise { position, providerId, providerModel, enabled,
-- trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds }. Does not
-- change the provider's prices. Returns {} or { refused: forbidden | not_found | route_taken | invalid }, or { refused:
-- conflict, last (private.last_admin_action) }.
create or replace function private.change_model_route(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  place integer := (change ->> 'place')::integer;
  fields jsonb := nullif(change -> 'route', 'null');
  before jsonb;
  other_routes jsonb;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  select to_jsonb(r) into before from ai.model_routes r where r.model_id = model.id and r.position = place;
  if (place is not null and before is null) or (place is null and fields is null) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select coalesce(jsonb_agg(to_jsonb(r) order by r.position), '[]') into other_routes
  from ai.model_routes r
  where r.model_id = model.id and r.position is distinct from place;
  if jsonb_path_exists(
    other_routes, '$[*] ? (@.provider_id == $provider && @.provider_model == $model)',
    jsonb_build_object('provider', fields -> 'providerId', 'model', fields -> 'providerModel')
  ) then
    return jsonb_build_object('refused', 'route_taken');
  end if;

  begin
    delete from ai.model_routes r where r.model_id = model.id;
    insert into ai.model_routes
    select new_route.*
    from (
      select o.route, row_number() over (order by o.at) as position
      from (
        -- Inserts the route before the other route that holds the requested position.
        select l.route, 2 * l.number as at from jsonb_array_elements(other_routes) with ordinality as l (route, number)
        union all
        select private.route_columns(fields), 2 * (fields ->> 'position')::integer - 1 where fields is not null
      ) as o
    ) as n
    cross join jsonb_populate_record(
      null::ai.model_routes, n.route || jsonb_build_object('model_id', model.id, 'position', n.position)
    ) as new_route;
  exception
    when check_violation or not_null_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when before is null then 'model.add_route' when fields is null then 'model.remove_route' else 'model.edit_route' end,
    'target', 'model ' || model.id,
    'targetName', model.display_name,
    'before', before,
    'after', (
      select to_jsonb(r)
      from ai.model_routes r
      where r.model_id = model.id and r.provider_id = fields ->> 'providerId' and r.provider_model = fields ->> 'providerModel'
    )
  ));
  return '{}';
end
$$;
