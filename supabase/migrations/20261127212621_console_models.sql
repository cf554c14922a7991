-- Generated from supabase/schemas by npm run db:migration.

create or replace function private.granted_workspaces(model text, most integer default 100)
  returns table (id uuid, name text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select w.id, w.name
  from ai.model_grants g
  join public.workspaces w on w.id = g.workspace_id and w.deleted_at is null
  where g.model_id = model
  order by w.name, w.id
  limit most
$$;

create or replace function private.set_model_grant(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  plan text := change ->> 'plan';
  workspace uuid := (change ->> 'workspace')::uuid;
  grants boolean := (change ->> 'granted')::boolean;
  grantee jsonb := jsonb_strip_nulls(jsonb_build_object('plan', plan, 'workspace', workspace));
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if exists (select from public.workspaces w where w.id = workspace and w.personal_user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if num_nonnulls(plan, workspace) <> 1
    or plan is not null and not exists (select from ai.plans p where p.id = plan)
    or workspace is not null and not exists (select from public.workspaces w where w.id = workspace and w.deleted_at is null)
  then
    return jsonb_build_object('refused', 'no_grantee');
  end if;
  if grants then
    insert into ai.model_grants (model_id, plan_id, workspace_id) values (model.id, plan, workspace) on conflict do nothing;
  else
    delete from ai.model_grants g
    where g.model_id = model.id and (g.plan_id, g.workspace_id) is not distinct from (plan, workspace);
  end if;
  if not found then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when grants then 'model.grant' else 'model.withdraw' end,
    'target', 'model ' || model.id,
    'before', grantee || jsonb_build_object('granted', not grants),
    'after', grantee || jsonb_build_object('granted', grants)
  ));
  return '{}';
end
$$;

create or replace function private.change_model_route(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  place integer := (change ->> 'place')::integer;
  fields jsonb := nullif(change -> 'route', 'null');
  before jsonb;
  others jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
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
  select coalesce(jsonb_agg(to_jsonb(r) order by r.position), '[]') into others
  from ai.model_routes r
  where r.model_id = model.id and r.position is distinct from place;
  if jsonb_path_exists(
    others, '$[*] ? (@.provider_id == $provider && @.provider_model == $model)',
    jsonb_build_object('provider', fields -> 'providerId', 'model', fields -> 'providerModel')
  ) then
    return jsonb_build_object('refused', 'route_taken');
  end if;

  begin
    delete from ai.model_routes r where r.model_id = model.id;
    insert into ai.model_routes
    select made.*
    from (
      select o.route, row_number() over (order by o.at) as position
      from (
        -- The new one is before the route that is at its position without it.
        select l.route, 2 * l.number as at from jsonb_array_elements(others) with ordinality as l (route, number)
        union all
        select
          jsonb_build_object(
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
          ),
          2 * (fields ->> 'position')::integer - 1
        where fields is not null
      ) as o
    ) as n
    cross join jsonb_populate_record(
      null::ai.model_routes, n.route || jsonb_build_object('model_id', model.id, 'position', n.position)
    ) as made;
  exception
    when check_violation or not_null_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when before is null then 'model.add_route' when fields is null then 'model.remove_route' else 'model.edit_route' end,
    'target', 'model ' || model.id,
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

create or replace function private.model_version(model text) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select md5(to_jsonb(m)::text || coalesce((
    select jsonb_agg(to_jsonb(r) order by r.position)::text from ai.model_routes r where r.model_id = m.id
  ), ''))
  from ai.models m
  where m.id = model
$$;

create or replace function private.was_never_enabled(model ai.models) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select not model.enabled and coalesce(bool_or(l.action = 'model.add') and not bool_or(l.action = 'model.enable'), false)
  from private.admin_audit_log l
  where l.target = 'model ' || model.id
$$;

create or replace function private.save_model(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  made ai.models;
  former ai.models;
  all_voices text[] := nullif(array(select jsonb_array_elements_text(change -> 'voices')), '{}');
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
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
      insert into ai.models (id, kind, display_name, owned_by, enabled, studio_default, context_window, output_limit, voices)
      values (
        change ->> 'model', change ->> 'kind', change ->> 'displayName', change ->> 'ownedBy', false,
        (change ->> 'studioDefault')::boolean, (change ->> 'contextWindow')::integer, (change ->> 'outputLimit')::integer,
        all_voices
      )
      on conflict (id) do nothing
      returning * into made;
      if not found then
        return jsonb_build_object('refused', 'id_taken');
      end if;
    else
      -- Only the default that the admin saw gives way: another one violates the unique index.
      if (change ->> 'isDefault')::boolean then
        update ai.models m set is_default = false
        where m.id = change ->> 'defaultOfKind' and m.id <> model.id and m.kind = model.kind and m.is_default
        returning * into former;
      end if;
      update ai.models m
      set
        display_name = change ->> 'displayName',
        owned_by = change ->> 'ownedBy',
        studio_default = (change ->> 'studioDefault')::boolean,
        context_window = (change ->> 'contextWindow')::integer,
        output_limit = (change ->> 'outputLimit')::integer,
        voices = all_voices,
        is_default = (change ->> 'isDefault')::boolean
      where m.id = model.id
      returning * into made;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'default_changed');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;

  perform private.record_admin_action(change, jsonb_build_object(
    'action', case when model.id is null then 'model.add' else 'model.edit' end,
    'target', 'model ' || made.id,
    'before', case when model.id is not null then to_jsonb(model) end,
    'after', to_jsonb(made)
  ));
  if former.id is not null then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'model.edit',
      'target', 'model ' || former.id,
      'before', jsonb_build_object('is_default', true),
      'after', jsonb_build_object('is_default', false)
    ));
  end if;
  return '{}';
end
$$;

create or replace function private.delete_model(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
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
    'action', 'model.delete', 'target', 'model ' || model.id, 'before', to_jsonb(model)
  ));
  return '{}';
end
$$;

create or replace function private.describe_price(price ai.model_prices) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', price.id,
    'providerId', price.provider_id,
    'serviceTier', price.service_tier,
    'minInputTokens', price.min_input_tokens,
    'from', lower(price.valid),
    'until', upper(price.valid),
    'current', price.valid @> now(),
    'inputUsd', price.input_usd_per_million::text,
    'cachedInputUsd', price.cached_input_usd_per_million::text,
    'cacheWriteUsd', price.cache_write_usd_per_million::text,
    'cacheWrite1hUsd', price.cache_write_1h_usd_per_million::text,
    'outputUsd', price.output_usd_per_million::text,
    'audioInputUsd', price.audio_input_usd_per_million::text,
    'audioOutputUsd', price.audio_output_usd_per_million::text,
    'imageInputUsd', price.image_input_usd_per_million::text,
    'requestFeeUsd', price.request_fee_usd::text
  )
$$;

create or replace function private.latest_price(model text, provider text, tier integer) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select max(p.id)::text
  from ai.model_prices p
  where p.model_id = model and p.provider_id = provider and p.min_input_tokens = tier
$$;

create or replace function private.list_route_prices() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'providerId', r.provider_id,
    'providerModel', r.provider_model,
    'prices', (
      select coalesce(jsonb_agg(
        private.describe_price(t)
          || jsonb_build_object('latest', private.latest_price(r.model_id, r.provider_id, t.min_input_tokens))
        order by t.service_tier <> 'default', t.service_tier, t.min_input_tokens
      ), '[]')
      from (
        select distinct on (p.service_tier, p.min_input_tokens) p.*
        from ai.model_prices p
        where p.model_id = r.model_id and p.provider_id = r.provider_id
        order by
          p.service_tier, p.min_input_tokens, p.valid @> now() desc, lower(p.valid) > now() desc,
          abs(extract(epoch from lower(p.valid) - now()))
      ) as t
    )
  ) order by m.id, r.provider_id, r.provider_model), '[]')
  from (select distinct l.model_id, l.provider_id, l.provider_model from ai.model_routes l) as r
  join ai.models m on m.id = r.model_id
$$;

create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  made ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- One price of a model at a time.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- What runs were charged at stays.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- The admin decided on the prices that they saw, of all service tiers.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier) then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  if lower(old.valid) = starts then
    return jsonb_build_object('refused', 'taken');
  end if;
  select min(lower(p.valid)) into ends
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and lower(p.valid) > starts;
  if old.id is not null then
    update ai.model_prices p set valid = tstzrange(lower(old.valid), starts) where p.id = old.id;
  end if;
  insert into ai.model_prices (
    model_id, provider_id, service_tier, min_input_tokens, valid, input_usd_per_million, cached_input_usd_per_million,
    cache_write_usd_per_million, cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million,
    audio_output_usd_per_million, image_input_usd_per_million, request_fee_usd
  )
  values (
    model.id, change ->> 'providerId', served, tier, tstzrange(starts, ends), (change ->> 'inputUsd')::numeric,
    (change ->> 'cachedInputUsd')::numeric, (change ->> 'cacheWriteUsd')::numeric, (change ->> 'cacheWrite1hUsd')::numeric,
    (change ->> 'outputUsd')::numeric, (change ->> 'audioInputUsd')::numeric, (change ->> 'audioOutputUsd')::numeric,
    (change ->> 'imageInputUsd')::numeric, (change ->> 'requestFeeUsd')::numeric
  )
  returning * into made;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(made)
  ));
  return jsonb_build_object('from', lower(made.valid), 'until', upper(made.valid));
end
$$;

create or replace function private.cancel_model_price(change jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  model ai.models;
  price ai.model_prices;
  old ai.model_prices;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into price from ai.model_prices p where p.id = (change ->> 'price')::bigint and p.model_id = model.id;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = price.provider_id and p.service_tier = price.service_tier
    and p.min_input_tokens = price.min_input_tokens and upper(p.valid) = lower(price.valid);
  -- The admin decided on the prices before and after it.
  if price.id is null or old.id::text is distinct from change ->> 'previous'
    or upper(price.valid) is distinct from (change ->> 'until')::timestamptz then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  -- No call may be charged at it before this commits. now() is from before the wait for the model.
  if lower_inf(price.valid) or lower(price.valid) <= clock_timestamp() + interval '1 minute' then
    return jsonb_build_object('refused', 'started');
  end if;
  delete from ai.model_prices p where p.id = price.id;
  update ai.model_prices p set valid = tstzrange(lower(old.valid), upper(price.valid)) where p.id = old.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.cancel_price',
    'target', 'model ' || model.id,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;

create or replace function private.list_catalogue_models(
  term text default '', only_id text default null, after text[] default null, page_size integer default null
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
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
    -- By the rule of calls, as if every provider were connected.
    'hasPrice', ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) is not null,
    'hasGrant', exists (
      select
      from ai.model_grants g
      left join public.workspaces w on w.id = g.workspace_id
      where g.model_id = m.id and (g.plan_id is not null or w.deleted_at is null)
    ),
    -- As calls go: open routes first, in their order.
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
      where p.model_id = m.id
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

create or replace function private.read_model(model text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select (private.list_catalogue_models(only_id => m.id) -> 0) || jsonb_build_object(
    'version', private.model_version(m.id),
    'contextWindow', m.context_window,
    'outputLimit', m.output_limit,
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
        'workspaces', (
          select count(*)
          from (select from public.workspaces w where w.plan_id = p.id and w.deleted_at is null limit 1001) as w
        )
      ) order by p.name, p.id), '[]')
      from ai.plans p
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object('id', w.id, 'name', w.name) order by w.name, w.id), '[]')
      from private.granted_workspaces(m.id) w
    )
  )
  from ai.models m
  where m.id = model
$$;

comment on function private.cancel_model_price(jsonb) is
  'Cancels a price up to a minute before it begins; the one before it holds on, until the next begins: { actor, model, price, '
  'previous (id of the price before it as seen, or null), until (its end as seen), reason, requestId, ip } → {} or { refused: '
  'forbidden | not_found | started | conflict (with last) }.';

comment on function private.change_model_route(jsonb) is
  'Adds, edits, moves or removes a route; the others keep their order, and positions count from 1: { actor, model, version '
  '(private.model_version), place (its position so far, null to add one), route: { position, providerId, providerModel, enabled, '
  'trustsStatedCost, tierMultipliers: { tier: factor as text }, firstByteSeconds, idleSeconds, totalSeconds } or null to remove '
  'it, reason, requestId, ip } → {} or { refused: forbidden | not_found | route_taken | invalid | conflict (with last) }. '
  'Prices of the provider stay.';

comment on function private.delete_model(jsonb) is
  'Deletes a model that was never enabled, with its routes, prices and grants: { actor, model, version, reason, requestId, ip } '
  '→ {} or { refused: forbidden | not_found | used | conflict (with last) }.';

comment on function private.describe_price(ai.model_prices) is
  'Returns a price as the console has it. Amounts are text, so that no digit is lost.';

comment on function private.granted_workspaces(text, integer) is
  'Returns the first workspaces, by name, that a model is granted to by themselves.';

comment on function private.latest_price(text, text, integer) is
  'Returns the id of the newest price of a model at a provider from a number of input tokens on, of all service tiers, or '
  'null. An admin who adds a price names the newest one that they saw.';

comment on function private.list_route_prices() is
  'Returns the routes of all models with their prices: [{ model, displayName, providerId, providerModel, prices: '
  '[private.describe_price and latest (private.latest_price)] }]. A service tier from a number of input tokens on has one '
  'price: the current one, else the next, else the last.';

comment on function private.model_version(text) is
  'Returns a digest of a model''s settings and routes. An admin who changes them names the version that they saw.';

comment on function private.read_model(text) is
  'Returns a model as private.list_catalogue_models has it, with its version (private.model_version), settings, routes in '
  'order, all plans with whether they have it and their workspaces, counted up to 1,001, and the first 100 workspaces that it is '
  'granted to by themselves.';

comment on function private.save_model(jsonb) is
  'Edits a model, or adds a disabled one where version is null: { actor, model, version (private.model_version), displayName, '
  'ownedBy, studioDefault, contextWindow, outputLimit, voices, reason, requestId, ip } and to add one kind, to edit one '
  'isDefault and defaultOfKind (the id of the default that it replaces, or null) → {} or { refused: forbidden | not_found | '
  'id_taken | invalid | default_changed | conflict (with last) }.';

comment on function private.set_model_grant(jsonb) is
  'Grants a model to a plan or to one workspace, or withdraws the grant: { actor, model, plan or workspace, granted, reason, '
  'requestId, ip } → {} or { refused: forbidden | not_found | no_grantee | oneself (the actor''s personal workspace) | conflict '
  '(it is so already, with last) }.';

comment on function private.was_never_enabled(ai.models) is
  'Returns whether a model was added in the console and never enabled there, so that no run is of it.';

grant execute on function private.cancel_model_price(jsonb) to service_role;

grant execute on function private.change_model_route(jsonb) to service_role;

grant execute on function private.delete_model(jsonb) to service_role;

grant execute on function private.describe_price(ai.model_prices) to service_role;

grant execute on function private.granted_workspaces(text, integer) to service_role;

grant execute on function private.latest_price(text, text, integer) to service_role;

grant execute on function private.list_route_prices() to service_role;

grant execute on function private.model_version(text) to service_role;

grant execute on function private.read_model(text) to service_role;

grant execute on function private.save_model(jsonb) to service_role;

grant execute on function private.set_model_grant(jsonb) to service_role;

grant execute on function private.was_never_enabled(ai.models) to service_role;
