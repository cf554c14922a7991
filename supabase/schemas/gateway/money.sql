-- Money: USD as numeric(24, 12), credits as numeric(24, 8). Nothing passes through a float, and a run is rounded once, half
-- to even. supabase/functions/_shared/money-vectors.json holds this and money.ts to the same results.

create or replace function ai.usage_cost_usd(prices jsonb, usage jsonb) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ai.tokens_cost_usd(
    prices,
    coalesce((usage ->> 'input_tokens')::numeric, 0),
    coalesce((usage ->> 'cached_input_tokens')::numeric, 0),
    coalesce((usage ->> 'audio_input_tokens')::numeric, 0),
    coalesce((usage ->> 'output_tokens')::numeric, 0),
    coalesce((usage ->> 'audio_output_tokens')::numeric, 0)
  )
$$;
comment on function ai.usage_cost_usd(jsonb, jsonb) is 'As ai.tokens_cost_usd, of usage as a provider call is told with it.';

create or replace function ai.tokens_cost_usd(
  prices jsonb, input numeric, cached_input numeric, audio_input numeric, output numeric, audio_output numeric
) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
as $$
declare
  cached numeric := least(cached_input, input);
  heard numeric := least(audio_input, input - cached);
  spoken numeric := least(audio_output, output);
  tier jsonb := prices -> 0;
begin
  -- Tiers stand in ascending order.
  for place in 1..jsonb_array_length(prices) - 1 loop
    exit when (prices -> place ->> 'min_input_tokens')::numeric > input;
    tier := prices -> place;
  end loop;
  return (
    (input - cached - heard) * (tier ->> 'input')::numeric
    + cached * coalesce(tier ->> 'cached_input', tier ->> 'input')::numeric
    + heard * coalesce(tier ->> 'audio_input', tier ->> 'input')::numeric
    + (output - spoken) * (tier ->> 'output')::numeric
    + spoken * coalesce(tier ->> 'audio_output', tier ->> 'output')::numeric
  ) * 0.000001;
end
$$;
comment on function ai.tokens_cost_usd(jsonb, numeric, numeric, numeric, numeric, numeric) is
  'What tokens cost at a route''s prices (tiers, USD per million tokens): exact, with at most twelve decimals. Cached '
  'and audio tokens are parts of the input, reasoning and audio tokens parts of the output, as OpenAI counts them.';

create or replace function ai.usd_to_credits(amount_usd numeric, markup numeric) returns numeric
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ai.round_half_even(amount_usd * 10000 * markup, 8)
$$;
comment on function ai.usd_to_credits(numeric, numeric) is '1 credit is USD 0.0001 before the plan''s markup.';

create or replace function ai.round_half_even(amount numeric, scale integer) returns numeric
  language plpgsql
  immutable
  security invoker
  parallel safe
as $$
declare
  rounded numeric := round(amount, scale);
  shifted numeric;
begin
  if rounded = amount then
    return rounded;
  end if;
  shifted := amount * ('1e' || scale)::numeric;
  -- round() goes away from zero at a tie; only a tie over an even digit differs.
  if abs(shifted - trunc(shifted)) = 0.5 and mod(trunc(shifted), 2) = 0 then
    return trunc(amount, scale);
  end if;
  return rounded;
end
$$;
comment on function ai.round_half_even(numeric, integer) is
  'Rounds to scale decimals, ties to the even digit (IEEE 754 roundTiesToEven), exactly.';

create or replace function ai.price_tier(
  min_input_tokens integer, input numeric, cached_input numeric, output numeric, audio_input numeric, audio_output numeric
) returns jsonb
  language sql
  -- jsonb_build_object is stable for the sake of types whose text depends on settings; of these none does.
  immutable
  security invoker
  parallel safe
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'min_input_tokens', min_input_tokens,
    'input', input::text,
    'cached_input', cached_input::text,
    'output', output::text,
    'audio_input', audio_input::text,
    'audio_output', audio_output::text
  ))
$$;
comment on function ai.price_tier is 'A price as runs keep it: exact decimals as text, absent ones left out.';
