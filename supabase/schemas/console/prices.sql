-- Shows and changes the price book in the console. A price is never edited. A price that has not begun can be
-- cancelled.

-- Returns a price for the console. Amounts are text, so no digit is lost.
create or replace function private.describe_price(price ai.model_prices) returns jsonb
  language sql stable security invoker set search_path = ''
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

-- Returns the id of a model's newest price at a provider for a minimum number of input tokens, in any service tier.
-- Returns null if there is none. A request to add a price names the newest price that the admin saw, so a concurrent
-- change is detected.
create or replace function private.latest_price(model text, provider text, tier integer) returns text
  language sql stable security invoker set search_path = ''
as $$
  select max(p.id)::text
  from ai.model_prices p
  where p.model_id = model and p.provider_id = provider and p.min_input_tokens = tier
$$;

-- Returns the routes of all models with their prices: [{ model, displayName, limits, providerId, providerModel, prices
-- }]. limits is null unless the model is for chats. For each service tier and input size, prices has the current price,
-- or else the next price, or else the last price. Each price has the fields of private.describe_price and a field
-- latest, the result of private.latest_price.
create or replace function private.list_route_prices() returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'limits', case m.kind when 'chat' then jsonb_build_object(
      'contextWindow', m.context_window, 'outputLimit', m.output_limit, 'defaultOutputLimit', m.default_output_limit
    ) end,
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

-- Adds a price, which begins immediately unless from has a later time. The new price ends the previous price, and ends
-- when the next price begins. The change is { actor, model, providerId, serviceTier, minInputTokens, latest (id of the
-- newest price that the admin saw, or null), seen (number of prices that the admin saw), from, inputUsd,
-- cachedInputUsd, cacheWriteUsd, cacheWrite1hUsd, outputUsd, audioInputUsd, audioOutputUsd, imageInputUsd,
-- requestFeeUsd, reason, requestId, ip }. Returns { from, until } or { refused: forbidden | not_found | no_route | past
-- | taken | conflict (with last) }.
create or replace function private.add_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  starts timestamptz := coalesce((change ->> 'from')::timestamptz, now());
  tier integer := coalesce((change ->> 'minInputTokens')::integer, 0);
  served text := coalesce(change ->> 'serviceTier', 'default');
  ends timestamptz;
  old ai.model_prices;
  new_price ai.model_prices;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- Serializes price changes of a model.
  select * into model from ai.models m where m.id = change ->> 'model' for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not exists (
    select from ai.model_routes r where r.model_id = model.id and r.provider_id = change ->> 'providerId'
  ) then
    return jsonb_build_object('refused', 'no_route');
  end if;
  -- A price can't start in the past, because runs keep the prices they were charged at.
  if starts < now() then
    return jsonb_build_object('refused', 'past');
  end if;
  select * into old
  from ai.model_prices p
  where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier and p.service_tier = served
    and p.valid @> starts;
  -- Refuses the change if prices of any service tier have changed since the admin saw them. Also compares the number of
  -- prices, because cancelling an older price leaves the newest one the same, and the price to replace, because a
  -- scheduled price may have taken effect.
  if change ->> 'latest' is distinct from private.latest_price(model.id, change ->> 'providerId', tier)
    or (change ->> 'seen')::integer <> (
      select count(*)
      from ai.model_prices p
      where p.model_id = model.id and p.provider_id = change ->> 'providerId' and p.min_input_tokens = tier
    )
    or (change ? 'replaces' and change ->> 'replaces' is distinct from old.id::text) then
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
  returning * into new_price;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.add_price',
    'target', 'model ' || model.id,
    'targetName', model.display_name,
    'before', case when old.id is not null then to_jsonb(old) end,
    'after', to_jsonb(new_price)
  ));
  return jsonb_build_object('from', lower(new_price.valid), 'until', upper(new_price.valid));
end
$$;

-- Cancels a price that begins in more than a minute. The previous price then stays in force until the next price
-- begins. The change is { actor, model, price, previous (id of the previous price that the admin saw, or null), until
-- (the end of the price that the admin saw), reason, requestId, ip }. Returns {} or { refused: forbidden | not_found |
-- started | conflict (with last) }.
create or replace function private.cancel_model_price(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  model ai.models;
  price ai.model_prices;
  old ai.model_prices;
begin
  if not private.may_change_console(change, 'admin:catalogue:write') then
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
  -- The admin decided based on the prices before and after this price, so neither may have changed since.
  if price.id is null or old.id::text is distinct from change ->> 'previous'
    or upper(price.valid) is distinct from (change ->> 'until')::timestamptz then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('model ' || model.id));
  end if;
  -- Refuses to cancel a price that begins within a minute, because calls could be charged that price before the
  -- cancellation commits. Uses clock_timestamp(), because now() is the time before the wait for the lock.
  if lower_inf(price.valid) or lower(price.valid) <= clock_timestamp() + interval '1 minute' then
    return jsonb_build_object('refused', 'started');
  end if;
  delete from ai.model_prices p where p.id = price.id;
  update ai.model_prices p set valid = tstzrange(lower(old.valid), upper(price.valid)) where p.id = old.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'model.cancel_price',
    'target', 'model ' || model.id,
    'targetName', model.display_name,
    'before', to_jsonb(price),
    'after', (select to_jsonb(p) from ai.model_prices p where p.id = old.id)
  ));
  return '{}';
end
$$;
