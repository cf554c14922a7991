set lock_timeout = '500ms';

create or replace function ai.listed_price(tier jsonb) returns jsonb
  language sql
  -- As ai.price_tier.
  immutable
  security invoker
  parallel safe
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'min_input_tokens', tier -> 'min_input_tokens',
    'service_tier', tier -> 'service_tier',
    'input_usd_per_million', trim_scale((tier ->> 'input')::numeric),
    'cached_input_usd_per_million', trim_scale((tier ->> 'cached_input')::numeric),
    'cache_write_usd_per_million', trim_scale((tier ->> 'cache_write')::numeric),
    'cache_write_1h_usd_per_million', trim_scale((tier ->> 'cache_write_1h')::numeric),
    'output_usd_per_million', trim_scale((tier ->> 'output')::numeric),
    'audio_input_usd_per_million', trim_scale((tier ->> 'audio_input')::numeric),
    'audio_output_usd_per_million', trim_scale((tier ->> 'audio_output')::numeric),
    'image_input_usd_per_million', trim_scale((tier ->> 'image_input')::numeric),
    'request_fee_usd', trim_scale((tier ->> 'request_fee')::numeric)
  ))
$$;

create or replace function ai.reject_price_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if new.valid is distinct from old.valid
    and (lower(new.valid) is distinct from lower(old.valid) or (upper(old.valid) is not null and upper(old.valid) <= now())) then
    raise exception 'a price''s past cannot be rewritten' using errcode = 'restrict_violation';
  end if;
  -- What is generated is not there yet.
  if (to_jsonb(new) - array['valid', 'as_offered', 'as_listed'])
    is distinct from (to_jsonb(old) - array['valid', 'as_offered', 'as_listed']) then
    raise exception 'a price never changes: close its range and add a new one' using errcode = 'restrict_violation';
  end if;
  return new;
end
$$;

-- Prices are few: the table is rewritten in a moment.
alter table ai.model_prices
  add column as_listed jsonb generated always as (ai.listed_price(ai.price_tier(
    service_tier, min_input_tokens, input_usd_per_million, cached_input_usd_per_million, cache_write_usd_per_million,
    cache_write_1h_usd_per_million, output_usd_per_million, audio_input_usd_per_million, audio_output_usd_per_million,
    image_input_usd_per_million, request_fee_usd
  ))) stored;
comment on column ai.model_prices.as_listed is 'The price as GET /v1/models lists it.';
