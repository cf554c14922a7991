-- Lists and changes the model catalogue in the console. A model's id and kind never change, and only a model that was
-- never enabled can be deleted.

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

-- Returns one model: its fields from private.list_catalogue_models, and its version (private.model_version), settings,
-- routes in order, plans and workspaces. plans has all plans, whether each is granted the model, and the number of its
-- workspaces. workspaces has the first 100 workspaces that were granted the model separately from their plan.
create or replace function private.read_model(model text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select (private.list_catalogue_models(only_id => m.id) -> 0) || jsonb_build_object(
    'version', private.model_version(m.id),
    'contextWindow', m.context_window,
    'outputLimit', m.output_limit,
    'defaultOutputLimit', m.default_output_limit,
    'voices', coalesce(to_jsonb(m.voices), '[]'),
    'isDefault', m.is_default,
    'defaultOfKind', (select d.id from ai.models d where d.kind = m.kind and d.is_default),
    'canDelete', private.was_never_enabled(m),
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'providerId', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'trustsStatedCost', r.trusts_stated_cost,
        'tierMultipliers', (
          select coalesce(jsonb_object_agg(t.key, t.value), '{}') from jsonb_each_text(r.tier_multipliers) as t
        ),
        'firstByteSeconds', r.first_byte_seconds,
        'idleSeconds', r.idle_seconds,
        'totalSeconds', r.total_seconds
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    ),
    'plans', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'name', p.name,
        'granted', exists (select from ai.model_grants g where g.model_id = m.id and g.plan_id = p.id),
        'workspaces', coalesce(u.workspaces, 0)
      ) order by p.name, p.id), '[]')
      from ai.plans p
      left join (
        select w.plan_id, count(*) as workspaces from public.workspaces w where w.deleted_at is null group by w.plan_id
      ) u on u.plan_id = p.id
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name) order by w.name, w.id), '[]')
      from private.granted_workspaces(m.id) w
    )
  )
  from ai.models m
  where m.id = model
$$;

-- Returns a digest of a model's settings and routes. A change to the settings or routes includes the digest that the
-- admin saw, so that a concurrent change is detected.
create or replace function private.model_version(model text) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(to_jsonb(m)::text || coalesce((
    select jsonb_agg(to_jsonb(r) order by r.position)::text from ai.model_routes r where r.model_id = m.id
  ), ''))
  from ai.models m
  where m.id = model
$$;

-- Returns whether a model was added in the console and never enabled. Such a model was never used by a run.
create or replace function private.was_never_enabled(model ai.models) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select not model.enabled and coalesce(
    bool_or(l.action = 'model.add') and not bool_or(l.action in ('model.enable', 'model.disable')), false
  )
  from private.admin_audit_log l
  where l.target = 'model ' || model.id
$$;

-- Edits a model, or adds a disabled model if version is null. The change is { actor, model, version
-- (private.model_version), displayName, ownedBy, studioDefault, contextWindow, outputLimit, defaultOutputLimit, voices, reason, requestId,
-- ip }. A new model also has kind. An edit also has isDefault and defaultOfKind. defaultOfKind is the id of the default
-- model that the admin saw, or null. Returns {} or { refused: forbidden | not_found | id_taken | invalid |
-- default_changed | conflict (with last) }.
create or replace function private.save_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  saved_model ai.models;
  old_default ai.models;
  all_voices text[] := nullif(array(select jsonb_array_elements_text(change -> 'voices')), '{}');
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if change ->> 'version' is not null then
    select * into model from ai.models m where m.id = change ->> 'model' for update;
    if not found then
      return jsonb_build_object('refused', 'not_found');
    end if;
    if private.model_version(model.id) <> change ->> 'version' then
      return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
    end if;
  end if;

  begin
    if model.id is null then
      insert into ai.models (
        id, kind, display_name, owned_by, enabled, studio_default, context_window, output_limit, default_output_limit, voices
      )
      values (
        change ->> 'model', change ->> 'kind', change ->> 'displayName', change ->> 'ownedBy', false,
        (change ->> 'studioDefault')::boolean, (change ->> 'contextWindow')::integer, (change ->> 'outputLimit')::integer,
        (change ->> 'defaultOutputLimit')::integer, all_voices
      )
      on conflict (id) do nothing
      returning * into saved_model;
      if not found then
        return jsonb_build_object('refused', 'id_taken');
      end if;
    else
      -- Unsets only the default that the admin saw. If another model has become the default, the update below violates
      -- the unique index.
      if (change ->> 'isDefault')::boolean then
        update ai.models m set is_default = false
        where m.id = change ->> 'defaultOfKind' and m.id <> model.id and m.kind = model.kind and m.is_default
        returning * into old_default;
      end if;
      update ai.models m
      set
        display_name = change ->> 'displayName',
        owned_by = change ->> 'ownedBy',
        studio_default = (change ->> 'studioDefault')::boolean,
        context_window = (change ->> 'contextWindow')::integer,
        output_limit = (change ->> 'outputLimit')::integer,
        default_output_limit = (change ->> 'defaultOutputLimit')::integer,
        voices = all_voices,
        is_default = (change ->> 'isDefault')::boolean
      where m.id = model.id
      returning * into saved_model;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'default_changed');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when model.id is null then 'model.add' else 'model.edit' end,
    'target', 'model ' || saved_model.id,
    'targetName', saved_model.display_name,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(saved_model)
  ));
  if old_default.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || old_default.id,
      'targetName', old_default.display_name,
      'before', jsonb_build_object('is_default', true),
      'after', jsonb_build_object('is_default', false)
    ));
  end if;
  return '{}';
end
$$;

-- Enables a model for callers with a plan that grants it, or disables it for all callers. The change is { actor, model,
-- enabled, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict }. conflict means that
-- there is nothing to change. It comes with last, the last admin action on the model.
create or replace function private.set_model_enabled(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  enable boolean := (change ->> 'enabled')::boolean;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if model.enabled = enable then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  update ai.models m set enabled = enable where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when enable then 'model.enable' else 'model.disable' end,
    'target', 'model ' || model.id,
    'targetName', model.display_name,
    'before', jsonb_build_object('enabled', model.enabled),
    'after', jsonb_build_object('enabled', enable)
  ));
  return '{}';
end
$$;

-- Deletes a model that was never enabled, with its routes, prices and grants. The change is { actor, model, version,
-- reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | used | conflict }. conflict comes with
-- last, the last admin action on the model.
create or replace function private.delete_model(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.model_version(model.id) <> change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if not private.was_never_enabled(model) then
    return jsonb_build_object('refused', 'used');
  end if;
  delete from ai.model_prices p where p.model_id = model.id;
  delete from ai.models m where m.id = model.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.delete', 'target', 'model ' || model.id, 'targetName', model.display_name, 'before', to_jsonb(model)
  ));
  return '{}';
end
$$;
