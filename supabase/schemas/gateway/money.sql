-- USD amounts are numeric(24, 12) and credits are numeric(24, 8), never floats. The gateway computes the cost of a
-- finished call (supabase/functions/_shared/money.ts) and reports it with the outcome.

-- Returns credits per USD. 1 credit is USD 0.0001 before the plan's markup.
create or replace function ai.credits_per_usd(markup numeric) returns numeric
  language sql immutable security invoker parallel safe
as $$
  select 10000 * markup
$$;

-- Converts USD to credits, for reservations and estimates.
create or replace function ai.usd_to_credits(amount_usd numeric, markup numeric) returns numeric
  language sql immutable security invoker parallel safe
as $$
  select round(amount_usd * ai.credits_per_usd(markup), 8)
$$;

-- Returns a price in the form in which runs store it: exact decimals as text, without null values.
create or replace function ai.price_tier(
  service_tier text, min_input_tokens integer, input numeric, cached_input numeric, cache_write numeric,
  cache_write_1h numeric, output numeric, audio_input numeric, audio_output numeric, image_input numeric, request_fee numeric
) returns jsonb
  -- jsonb_build_object is declared stable because the text form of some types depends on settings. The types used here
  -- do not depend on any, so this function can be immutable.
  language sql immutable security invoker parallel safe
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'service_tier', nullif(service_tier, 'default'),
    'min_input_tokens', min_input_tokens,
    'input', input::text,
    'cached_input', cached_input::text,
    'cache_write', cache_write::text,
    'cache_write_1h', cache_write_1h::text,
    'output', output::text,
    'audio_input', audio_input::text,
    'audio_output', audio_output::text,
    'image_input', image_input::text,
    'request_fee', request_fee::text
  ))
$$;

-- Converts a price from ai.price_tier to the form shown in the list of models. Amounts are numbers in full precision,
-- and each field name contains the unit.
create or replace function ai.listed_price(tier jsonb) returns jsonb
  -- Stable like jsonb_build_object, so that Postgres can inline it.
  language sql stable security invoker parallel safe
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
