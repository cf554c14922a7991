-- What closing a run comes to, from what the gateway reports and the row itself.

create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.settlement, idle_since timestamptz) returns ai.closed_run
  language plpgsql
  stable
  security invoker
as $$
declare
  open boolean := run.status = 'running';
  used record;
  cost_usd numeric;
  credits numeric(24, 8);
  credits_due numeric(24, 8);
begin
  -- Open runs; and those the sweeper closed, if this is the provider's own word come late.
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
    -- The truth is charged whole; a guess within what is left of the reservation.
    if used.guessed then
      cost_usd := cost_usd + least(used.guessed_usd, greatest(run.reserved_usd - cost_usd, 0));
    end if;
  else
    if coalesce(outcome.cached_input_tokens, outcome.audio_input_tokens, outcome.audio_output_tokens) is null
      and jsonb_array_length(run.routes) = 1 and jsonb_array_length(run.routes #> '{0,prices}') = 1
    then
      -- As ai.usage_cost_usd has it.
      cost_usd := (
        coalesce(outcome.input_tokens, 0) * (run.routes #>> '{0,prices,0,input}')::numeric
          + coalesce(outcome.output_tokens, 0) * (run.routes #>> '{0,prices,0,output}')::numeric
      ) * 0.000001;
    else
      cost_usd := ai.tokens_cost_usd(
        ai.route_prices(run.routes, coalesce(outcome.route, run.route)), coalesce(outcome.input_tokens, 0),
        coalesce(outcome.cached_input_tokens, 0), coalesce(outcome.audio_input_tokens, 0), coalesce(outcome.output_tokens, 0),
        coalesce(outcome.audio_output_tokens, 0)
      );
    end if;
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
    raise exception 'a run ends with a status, and with counts from somewhere' using errcode = 'check_violation';
  end if;
  credits := ai.usd_to_credits(cost_usd, run.markup);
  credits_due := case when run.exempt then 0 else credits end - case when open then 0 else run.billed_credits end;
  return row(
    run.created_at, run.id, run.workspace_id, run.app_id, run.key_lineage_id, run.account_id, 1,
    run.budget_scopes, case when open then 'usage' else 'adjustment' end,
    credits_due, credits_due, case when open then run.reserved_credits else 0 end,
    cost_usd - case when open then 0 else run.cost_usd end, case when open then run.reserved_usd else 0 end,
    run.has_key, coalesce(outcome.key_unused, false),
    outcome.status, outcome.http_status, outcome.error_code, outcome.usage_source, coalesce(outcome.route, run.route),
    coalesce(outcome.input_tokens, 0), coalesce(outcome.cached_input_tokens, 0), coalesce(outcome.audio_input_tokens, 0),
    coalesce(outcome.output_tokens, 0), coalesce(outcome.reasoning_tokens, 0), coalesce(outcome.audio_output_tokens, 0),
    cost_usd, case when run.exempt then 0 else credits end,
    case
      -- Closed without any count: what it may have cost is shown, not charged.
      when idle_since is not null and outcome.usage_source = 'unavailable'
        then ai.usd_to_credits(run.reserved_usd, run.markup)
      when run.exempt then credits
      else 0
    end,
    coalesce(outcome.first_byte_ms, run.first_byte_ms), outcome.latency_ms, outcome.steps
  )::ai.closed_run;
end
$$;
comment on function ai.compute_settlement(ai.run_outcome, ai.settlement, timestamptz) is
  'What closing a run, which is locked, comes to; null where it stays as it is. With idle_since it is the sweeper, '
  'and closes only what nobody has touched since then.';

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
  -- No statement in here: each would cost more than all the rest of it.
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
  'What the provider calls of a run used and cost together, at the prices of its routes: what is known, and what is guessed.';

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
  'The prices of a route: each call is charged by its own tier, one whose route is not known by that of the first.';

create or replace function ai.settlement_summary(run ai.closed_run) returns jsonb
  language sql
  stable
  security invoker
as $$
  select jsonb_build_object('id', (run).id, 'kind', (run).kind, 'billed_credits', (run).billed_credits::text)
$$;
comment on function ai.settlement_summary(ai.closed_run) is 'What is told of a run that was closed.';
