-- What a finished run costs, from what the gateway reports and the prices in its row.

create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.runs, idle_since timestamptz) returns ai.closed_run
  language plpgsql
  stable
  security invoker
as $$
declare
  open boolean := run.status = 'running';
  before ai.runs := run;
  used record;
  cost_usd numeric;
  credits numeric(24, 8);
  billed_credits numeric(24, 8);
begin
  -- Open runs; and those that the sweep closed, when the provider's own counts arrive later.
  if open then
    if run.touched_at >= idle_since then
      return null;
    end if;
  elsif idle_since is not null or not run.swept
    or outcome.usage_source is null or outcome.usage_source not in ('provider', 'provider_partial')
  then
    return null;
  end if;

  if outcome.calls is not null then
    used := ai.sum_calls(outcome.calls, run.routes);
    outcome.route := coalesce(used.last_route, outcome.route);
    outcome.input_tokens := used.input_tokens;
    outcome.cached_input_tokens := used.cached_input_tokens;
    outcome.audio_input_tokens := used.audio_input_tokens;
    outcome.output_tokens := used.output_tokens;
    outcome.reasoning_tokens := used.reasoning_tokens;
    outcome.audio_output_tokens := used.audio_output_tokens;
    outcome.estimated := used.guessed;
    cost_usd := used.known_usd;
    -- Actual usage is charged in full; an estimate at most what is left of the reservation.
    if used.guessed then
      cost_usd := cost_usd + least(used.guessed_usd, greatest(run.reserved_usd - cost_usd, 0));
    end if;
  else
    cost_usd := ai.tokens_cost_usd(
      ai.route_prices(run.routes, coalesce(outcome.route, run.route)), coalesce(outcome.input_tokens, 0),
      coalesce(outcome.cached_input_tokens, 0), coalesce(outcome.audio_input_tokens, 0), coalesce(outcome.output_tokens, 0),
      coalesce(outcome.audio_output_tokens, 0)
    );
    if outcome.estimated then
      cost_usd := least(cost_usd, run.reserved_usd);
    end if;
  end if;
  if outcome.estimated and not open then
    return null;
  end if;
  if outcome.usage_source is null or outcome.status = 'running' or least(
    outcome.input_tokens, outcome.cached_input_tokens, outcome.audio_input_tokens,
    outcome.output_tokens, outcome.reasoning_tokens, outcome.audio_output_tokens
  ) < 0 then
    raise exception 'a run ends with a status, a usage source and counts of at least 0' using errcode = 'check_violation';
  end if;

  credits := ai.usd_to_credits(cost_usd, run.markup);
  billed_credits := case when run.exempt then 0 else credits end;
  run.status := outcome.status;
  run.http_status := outcome.http_status;
  run.error_code := outcome.error_code;
  run.usage_source := outcome.usage_source;
  run.route := coalesce(outcome.route, run.route);
  run.input_tokens := coalesce(outcome.input_tokens, 0);
  run.cached_input_tokens := coalesce(outcome.cached_input_tokens, 0);
  run.audio_input_tokens := coalesce(outcome.audio_input_tokens, 0);
  run.output_tokens := coalesce(outcome.output_tokens, 0);
  run.reasoning_tokens := coalesce(outcome.reasoning_tokens, 0);
  run.audio_output_tokens := coalesce(outcome.audio_output_tokens, 0);
  run.cost_usd := cost_usd;
  run.billed_credits := billed_credits;
  run.unmetered_credits := case
    -- Closed without any count: the reservation is shown, not charged.
    when idle_since is not null and outcome.usage_source = 'unavailable' then ai.usd_to_credits(run.reserved_usd, run.markup)
    when run.exempt then credits
    else 0
  end;
  run.first_byte_ms := coalesce(outcome.first_byte_ms, run.first_byte_ms);
  run.latency_ms := outcome.latency_ms;
  run.steps := outcome.steps;
  if open then
    return row(
      run, 'usage', billed_credits, run.reserved_credits, cost_usd, run.reserved_usd, coalesce(outcome.key_unused, false)
    )::ai.closed_run;
  end if;
  return row(
    run, 'adjustment', billed_credits - before.billed_credits, 0, cost_usd - before.cost_usd, 0, coalesce(outcome.key_unused, false)
  )::ai.closed_run;
end
$$;
comment on function ai.compute_settlement(ai.run_outcome, ai.runs, timestamptz) is
  'Returns a run, which is locked, as its outcome closes it, and what becomes due; null where it stays as it is. With '
  'idle_since, only an open run that nobody has touched since then is closed.';

create or replace function ai.sum_calls(
  calls jsonb,
  routes jsonb,
  out known_usd numeric,
  out guessed_usd numeric,
  out guessed boolean,
  out last_route smallint,
  out input_tokens bigint,
  out cached_input_tokens bigint,
  out audio_input_tokens bigint,
  out output_tokens bigint,
  out reasoning_tokens bigint,
  out audio_output_tokens bigint
)
  language plpgsql
  immutable
  security invoker
as $$
declare
  one_call jsonb;
  usage jsonb;
  cost numeric;
begin
  known_usd := 0;
  guessed_usd := 0;
  guessed := false;
  input_tokens := 0;
  cached_input_tokens := 0;
  audio_input_tokens := 0;
  output_tokens := 0;
  reasoning_tokens := 0;
  audio_output_tokens := 0;
  for at in 0..jsonb_array_length(calls) - 1 loop
    one_call := calls -> at;
    usage := coalesce(one_call -> 'usage', '{}');
    last_route := (one_call ->> 'route')::smallint;
    cost := ai.usage_cost_usd(ai.route_prices(routes, last_route), usage);
    if (one_call ->> 'estimated')::boolean then
      guessed := true;
      guessed_usd := guessed_usd + cost;
    else
      known_usd := known_usd + cost;
    end if;
    input_tokens := input_tokens + coalesce((usage ->> 'input_tokens')::bigint, 0);
    cached_input_tokens := cached_input_tokens + coalesce((usage ->> 'cached_input_tokens')::bigint, 0);
    audio_input_tokens := audio_input_tokens + coalesce((usage ->> 'audio_input_tokens')::bigint, 0);
    output_tokens := output_tokens + coalesce((usage ->> 'output_tokens')::bigint, 0);
    reasoning_tokens := reasoning_tokens + coalesce((usage ->> 'reasoning_tokens')::bigint, 0);
    audio_output_tokens := audio_output_tokens + coalesce((usage ->> 'audio_output_tokens')::bigint, 0);
  end loop;
end
$$;
comment on function ai.sum_calls(jsonb, jsonb) is
  'Adds up the usage and cost of a run''s provider calls, each at its route''s prices: known_usd from the provider''s own '
  'counts, guessed_usd from estimates.';

create or replace function ai.route_prices(routes jsonb, route smallint) returns jsonb
  language plpgsql
  immutable
  security invoker
as $$
declare
  prices jsonb := routes -> 0 -> 'prices';
begin
  for other in 1..jsonb_array_length(routes) - 1 loop
    if (routes -> other ->> 'position')::smallint = route then
      prices := routes -> other -> 'prices';
    end if;
  end loop;
  return prices;
end
$$;
comment on function ai.route_prices(jsonb, smallint) is
  'Returns the prices of a route, or of the first route where it is unknown.';
