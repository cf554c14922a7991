-- Ending runs: at true cost, once, however often it is said. A batch is one statement of the gateway; locks are taken
-- in begin_run's order, each kind ordered by id, so that batches, sweeper and new calls cannot lock each other out.
-- Runs come before budgets and balances, and are locked by account and id wherever several are: whoever books them has
-- the accounts in order, too.
--
-- What costs here is starting statements, not what they do: so there are few, of one or two tables each, and what can be
-- counted without one is.

create type ai.outcome as (
  created_at timestamptz,
  id uuid,
  status text,
  http_status smallint,
  error_code text,
  usage_source text,
  route smallint,
  estimated boolean,
  input_tokens bigint,
  cached_input_tokens bigint,
  audio_input_tokens bigint,
  output_tokens bigint,
  reasoning_tokens bigint,
  audio_output_tokens bigint,
  calls jsonb,
  first_byte_ms integer,
  latency_ms integer,
  steps jsonb,
  key_unused boolean
);
comment on type ai.outcome is
  'How a run ended, as the gateway tells it. What its one provider call used stands in the outcome itself; several calls, '
  'each with its route, usage and estimated, stand in calls.';

create type ai.closed_run as (
  created_at timestamptz,
  id uuid,
  workspace_id uuid,
  app_id uuid,
  key_lineage_id uuid,
  account_id uuid,
  account_place integer,
  budget_scopes text[],
  kind text,
  credits_due numeric(24, 8),
  credits_so_far numeric(24, 8),
  cost_due_usd numeric(24, 12),
  usd_released numeric(24, 12),
  has_key boolean,
  frees_key boolean,
  status text,
  http_status smallint,
  error_code text,
  usage_source text,
  route smallint,
  input_tokens bigint,
  cached_input_tokens bigint,
  audio_input_tokens bigint,
  output_tokens bigint,
  reasoning_tokens bigint,
  audio_output_tokens bigint,
  cost_usd numeric(24, 12),
  billed_credits numeric(24, 8),
  unmetered_credits numeric(24, 8),
  first_byte_ms integer,
  latency_ms integer,
  steps jsonb
);
comment on type ai.closed_run is
  'A run as it ended, and what that changes elsewhere: credits and cost that are due now, what its reservation gives back '
  'to budgets, and whether it has an idempotency key, which is free again. credits_so_far is what is due from its '
  'account, which is at account_place among those of the batch, for it and the runs before it.';

create type ai.closed_batch as (
  runs ai.closed_run[],
  accounts uuid[],
  credits_due numeric[],
  credits_released numeric[],
  first_begun timestamptz,
  last_begun timestamptz,
  have_budgets boolean,
  have_keys boolean,
  ended jsonb[]
);
comment on type ai.closed_batch is
  'Closed runs by account and id, their accounts in order, each with what is due from it and given back to it; whether '
  'any has a budget or an idempotency key, since few have, and what is not asked costs nothing; and the answer.';

create function ai.prices_of(routes jsonb, route smallint) returns jsonb
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
comment on function ai.prices_of(jsonb, smallint) is
  'The prices of a route: each call is charged by its own tier, one whose route is not known by that of the first.';
revoke execute on function ai.prices_of(jsonb, smallint) from public, anon, authenticated;

create function ai.sum_calls(
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
    cost := ai.usage_cost_usd(ai.prices_of(routes, last_route), usage);
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
revoke execute on function ai.sum_calls(jsonb, jsonb) from public, anon, authenticated;

create function ai.lock_and_sum(outcomes ai.outcome[], untouched_since timestamptz) returns ai.closed_batch
  language plpgsql
  volatile
  security invoker
as $$
declare
  run record;
  used record;
  batch ai.closed_batch;
  closed ai.closed_run[] := '{}';
  ended jsonb[];
  accounts uuid[] := '{}';
  due numeric[] := '{}';
  released numeric[] := '{}';
  count integer := 0;
  place integer := 0;
  last_id uuid;
  first_begun timestamptz := outcomes[1].created_at;
  last_begun timestamptz := first_begun;
  guess boolean;
  guessed_usd numeric;
  cost_usd numeric;
  credits numeric(24, 8);
  billed numeric(24, 8);
  unmetered numeric(24, 8);
  credits_due numeric(24, 8);
begin
  -- The months that they began in, so that no other partition is opened.
  if cardinality(outcomes) > 1 then
    select min(o.created_at), max(o.created_at) into first_begun, last_begun from unnest(outcomes) as o;
  end if;
  for run in
    select
      o.created_at, o.id, o.status, o.http_status, o.error_code, o.usage_source,
      o.calls, coalesce(o.estimated, false) as estimated, coalesce(o.route, r.route) as route,
      coalesce(o.input_tokens, 0) as input_tokens, coalesce(o.cached_input_tokens, 0) as cached_input_tokens,
      coalesce(o.audio_input_tokens, 0) as audio_input_tokens, coalesce(o.output_tokens, 0) as output_tokens,
      coalesce(o.reasoning_tokens, 0) as reasoning_tokens, coalesce(o.audio_output_tokens, 0) as audio_output_tokens,
      coalesce(o.first_byte_ms, r.first_byte_ms) as first_byte_ms, o.latency_ms, o.steps,
      coalesce(o.key_unused, false) as frees_key,
      r.status = 'running' as open, r.swept, r.touched_at, r.workspace_id, r.app_id, r.key_lineage_id, r.account_id,
      r.budget_scopes, r.idempotency_key is not null as has_key, r.routes, r.markup, r.exempt,
      r.reserved_usd, r.reserved_credits, r.cost_usd as old_cost_usd, r.billed_credits as old_billed_credits,
      jsonb_array_length(r.routes) = 1 and jsonb_array_length(r.routes #> '{0,prices}') = 1 as one_price,
      r.routes #> '{0,prices,0}' as price
    from unnest(outcomes) as o
    join ai.runs r
      on r.created_at = o.created_at and r.id = o.id and r.created_at >= first_begun and r.created_at <= last_begun
    order by r.account_id, r.id
    for update of r
  loop
    -- Said twice in one batch: once is enough.
    continue when run.id = last_id;
    -- Open runs; and those the sweeper closed, if this is the provider's own word come late.
    if run.open then
      continue when untouched_since is not null and run.touched_at >= untouched_since;
    else
      continue when untouched_since is not null or not run.swept
        or run.usage_source is null or run.usage_source not in ('provider', 'provider_partial');
    end if;

    guess := run.estimated;
    if run.calls is not null then
      used := ai.sum_calls(run.calls, run.routes);
      run.route := coalesce(used.last_route, run.route);
      run.input_tokens := used.input_tokens;
      run.cached_input_tokens := used.cached_input_tokens;
      run.audio_input_tokens := used.audio_input_tokens;
      run.output_tokens := used.output_tokens;
      run.reasoning_tokens := used.reasoning_tokens;
      run.audio_output_tokens := used.audio_output_tokens;
      guess := used.guessed;
      cost_usd := used.known_usd;
      guessed_usd := used.guessed_usd;
    elsif run.one_price and run.cached_input_tokens = 0 and run.audio_input_tokens = 0 and run.audio_output_tokens = 0 then
      -- As ai.usage_cost_usd has it.
      cost_usd := (
        run.input_tokens * (run.price ->> 'input')::numeric + run.output_tokens * (run.price ->> 'output')::numeric
      ) * 0.000001;
    else
      cost_usd := ai.tokens_cost_usd(
        ai.prices_of(run.routes, run.route), run.input_tokens, run.cached_input_tokens, run.audio_input_tokens,
        run.output_tokens, run.audio_output_tokens
      );
    end if;
    if guess then
      continue when not run.open;
      -- The truth is charged whole; a guess within what is left of the reservation.
      if run.calls is null then
        cost_usd := least(cost_usd, run.reserved_usd);
      else
        cost_usd := cost_usd + least(guessed_usd, greatest(run.reserved_usd - cost_usd, 0));
      end if;
    end if;
    if run.usage_source is null or run.status = 'running' or least(
      run.input_tokens, run.cached_input_tokens, run.audio_input_tokens,
      run.output_tokens, run.reasoning_tokens, run.audio_output_tokens
    ) < 0 then
      raise exception 'a run ends with a status, and with counts from somewhere' using errcode = 'check_violation';
    end if;
    last_id := run.id;
    credits := ai.usd_to_credits(cost_usd, run.markup);
    billed := case when run.exempt then 0 else credits end;
    unmetered := case
      -- Closed without any count: what it may have cost is shown, not charged.
      when untouched_since is not null and run.usage_source = 'unavailable'
        then ai.usd_to_credits(run.reserved_usd, run.markup)
      when run.exempt then credits
      else 0
    end;
    credits_due := billed - case when run.open then 0 else run.old_billed_credits end;

    if place = 0 or run.account_id is distinct from accounts[place] then
      place := place + 1;
      accounts[place] := run.account_id;
      due[place] := credits_due;
      released[place] := case when run.open then run.reserved_credits else 0 end;
    else
      due[place] := due[place] + credits_due;
      released[place] := released[place] + case when run.open then run.reserved_credits else 0 end;
    end if;
    if run.has_key then
      batch.have_keys := true;
    end if;
    if run.budget_scopes <> '{}' then
      batch.have_budgets := true;
    end if;
    count := count + 1;
    closed[count] := row(
      run.created_at, run.id, run.workspace_id, run.app_id, run.key_lineage_id, run.account_id, place,
      run.budget_scopes, case when run.open then 'usage' else 'adjustment' end,
      credits_due, due[place],
      cost_usd - case when run.open then 0 else run.old_cost_usd end,
      case when run.open then run.reserved_usd else 0 end,
      run.has_key, run.frees_key,
      run.status, run.http_status, run.error_code, run.usage_source, run.route,
      run.input_tokens, run.cached_input_tokens, run.audio_input_tokens,
      run.output_tokens, run.reasoning_tokens, run.audio_output_tokens,
      cost_usd, billed, unmetered, run.first_byte_ms, run.latency_ms, run.steps
    )::ai.closed_run;
    ended[count] := jsonb_build_object(
      'id', run.id, 'kind', case when run.open then 'usage' else 'adjustment' end, 'billed_credits', billed::text
    );
  end loop;
  batch.runs := closed;
  batch.ended := ended;
  batch.accounts := accounts;
  batch.credits_due := due;
  batch.credits_released := released;
  batch.first_begun := first_begun;
  batch.last_begun := last_begun;
  return batch;
end
$$;
comment on function ai.lock_and_sum(ai.outcome[], timestamptz) is
  'Locks the runs of outcomes, and says what closing each of them comes to. With untouched_since it is the sweeper, and '
  'closes only what nobody has touched since then.';
revoke execute on function ai.lock_and_sum(ai.outcome[], timestamptz) from public, anon, authenticated;

create function ai.spend_budgets(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.budgets b
  where (b.scope, b.subject_id, b.workspace_id) in (
    select t.scope, ai.budget_subject(t.scope, c.key_lineage_id, c.app_id, c.workspace_id), c.workspace_id
    from unnest(closed) c
    cross join unnest(c.budget_scopes) as t (scope)
  )
  order by case b.scope when 'key' then 1 when 'app' then 2 else 3 end, b.subject_id, b.workspace_id
  for update;
  update ai.budgets b
  set
    -- A budget that was taken away and set anew holds nothing of the runs from before.
    reserved_usd = greatest(b.reserved_usd - due.released, 0),
    spent_usd = b.spent_usd + due.spent
  from (
    select
      x.scope, x.subject_id, x.workspace_id, sum(c.usd_released) as released,
      -- A run counts in the month that it began in.
      coalesce(sum(c.cost_due_usd) filter (where c.created_at >= x.period_start::timestamp at time zone 'UTC'), 0) as spent
    from unnest(closed) c
    cross join unnest(c.budget_scopes) as t (scope)
    join ai.budgets x
      on x.scope = t.scope
      and x.workspace_id = c.workspace_id
      and x.subject_id = ai.budget_subject(t.scope, c.key_lineage_id, c.app_id, c.workspace_id)
    group by x.scope, x.subject_id, x.workspace_id
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;
comment on function ai.spend_budgets(ai.closed_run[]) is
  'Books closed runs in their budgets, and gives back what those held for them.';
revoke execute on function ai.spend_budgets(ai.closed_run[]) from public, anon, authenticated;

create function ai.spend_credits(batch ai.closed_batch) returns numeric[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  account record;
  balances numeric[];
begin
  if cardinality(batch.accounts) = 1 then
    update ai.credit_accounts a
    set balance = a.balance - batch.credits_due[1], reserved = a.reserved - batch.credits_released[1]
    where a.id = batch.accounts[1]
    returning array[a.balance + batch.credits_due[1]] into balances;
  else
    for account in
      update ai.credit_accounts a
      set balance = a.balance - due.credits, reserved = a.reserved - due.released
      from (
        select x.id, d.credits, d.released, d.place
        from unnest(batch.accounts, batch.credits_due, batch.credits_released)
          with ordinality as d (id, credits, released, place)
        join ai.credit_accounts x on x.id = d.id
        order by x.id
        for update of x
      ) as due
      where a.id = due.id
      returning due.place, a.balance + due.credits as balance
    loop
      balances[account.place] := account.balance;
    end loop;
  end if;
  return balances;
end
$$;
comment on function ai.spend_credits(ai.closed_batch) is
  'Takes what closed runs cost from their accounts and gives back what those held for them. Returns their balances before '
  'it. Budgets come before: the order of the locks.';
revoke execute on function ai.spend_credits(ai.closed_batch) from public, anon, authenticated;

create function ai.close_runs(batch ai.closed_batch, balances numeric[], by_sweeper boolean) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  with closed as (
    update ai.runs r
    set
      status = c.status,
      http_status = c.http_status,
      error_code = c.error_code,
      usage_source = c.usage_source,
      route = c.route,
      input_tokens = c.input_tokens,
      cached_input_tokens = c.cached_input_tokens,
      audio_input_tokens = c.audio_input_tokens,
      output_tokens = c.output_tokens,
      reasoning_tokens = c.reasoning_tokens,
      audio_output_tokens = c.audio_output_tokens,
      cost_usd = c.cost_usd,
      billed_credits = c.billed_credits,
      unmetered_credits = c.unmetered_credits,
      first_byte_ms = c.first_byte_ms,
      latency_ms = c.latency_ms,
      steps = c.steps,
      touched_at = now(),
      settled_at = now(),
      swept = by_sweeper
    from unnest(batch.runs) as c
    where r.created_at = c.created_at and r.id = c.id
      and r.created_at >= batch.first_begun and r.created_at <= batch.last_begun
    returning r.account_id, c.kind, c.credits_due, c.credits_so_far, c.account_place, r.created_at, r.id
  )
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
  select c.account_id, c.kind, -c.credits_due, balances[c.account_place] - c.credits_so_far, c.created_at, c.id
  from closed c
  where c.credits_due <> 0
  order by c.account_place, c.id;
end
$$;
comment on function ai.close_runs(ai.closed_batch, numeric[], boolean) is
  'Writes how runs ended into them, which are locked, and one ledger entry each.';
revoke execute on function ai.close_runs(ai.closed_batch, numeric[], boolean) from public, anon, authenticated;

create function ai.finish_keys(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.idempotency_keys i
  where i.run_id in (select c.id from unnest(closed) as c where c.has_key)
  order by i.run_id
  for update;
  -- Free again only where the provider surely did nothing.
  delete from ai.idempotency_keys i using unnest(closed) as c where c.frees_key and i.run_id = c.id;
  update ai.idempotency_keys i set state = 'finished' from unnest(closed) as c where i.run_id = c.id;
end
$$;
comment on function ai.finish_keys(ai.closed_run[]) is
  'Ends the idempotency keys of closed runs. Last, as in begin_run, which has its own when it has the balance.';
revoke execute on function ai.finish_keys(ai.closed_run[]) from public, anon, authenticated;

create function ai.end_runs(outcomes ai.outcome[], untouched_since timestamptz default null) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  batch ai.closed_batch := ai.lock_and_sum(outcomes, untouched_since);
begin
  if batch.ended is null then
    return '[]';
  end if;
  if batch.have_budgets then
    perform ai.spend_budgets(batch.runs);
  end if;
  perform ai.close_runs(batch, ai.spend_credits(batch), untouched_since is not null);
  if batch.have_keys then
    perform ai.finish_keys(batch.runs);
  end if;
  return to_jsonb(batch.ended);
end
$$;
comment on function ai.end_runs(ai.outcome[], timestamptz) is
  'Locks, closes and books a batch. Returns the runs that it changed, and not those that had ended before.';
revoke execute on function ai.end_runs(ai.outcome[], timestamptz) from public, anon, authenticated;

create function ai.read_outcomes(outcomes jsonb) returns ai.outcome[]
  language plpgsql
  stable
  security invoker
as $$
declare
  said ai.outcome[];
begin
  select array_agg(o) into said from jsonb_populate_recordset(null::ai.outcome, outcomes) as o;
  return said;
end
$$;
comment on function ai.read_outcomes(jsonb) is 'Outcomes as they are told.';
revoke execute on function ai.read_outcomes(jsonb) from public, anon, authenticated;

create function ai.end_bookable_runs(outcomes jsonb, untouched_since timestamptz default null) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
  -- As in begin_run. Rows are found by key here, however few there were when the plan was made.
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set jit = off
as $$
declare
  outcome jsonb;
  ended jsonb := '[]';
begin
  begin
    return ai.end_runs(ai.read_outcomes(outcomes), untouched_since);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for outcome in select o.value from jsonb_array_elements(outcomes) as o order by o.value ->> 'id' loop
    begin
      ended := ended || ai.end_runs(ai.read_outcomes(jsonb_build_array(outcome)), untouched_since);
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcome ->> 'id', sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return ended;
end
$$;
comment on function ai.end_bookable_runs(jsonb, timestamptz) is
  'Ends a batch; where it cannot be booked, each of its runs alone, so that one such run, of whatever tenant, holds up no '
  'other. It stays open and is named in the log. What may pass by itself (locks, time limits) is raised, for the batch to be said again.';
revoke execute on function ai.end_bookable_runs(jsonb, timestamptz) from public, anon, authenticated;

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create function ai.settle_runs(runs jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  return ai.end_bookable_runs(runs);
end
$$;
comment on function ai.settle_runs(jsonb) is
  'Settles a batch of runs at true cost. Saying it again changes nothing; saying the truth of a run that the sweeper '
  'had to guess posts one adjusting entry.';
revoke execute on function ai.settle_runs(jsonb) from public, anon, authenticated;
grant execute on function ai.settle_runs(jsonb) to gateway;
