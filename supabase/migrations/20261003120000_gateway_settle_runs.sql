-- Ending runs: at true cost, once, however often it is said. A batch is one statement of the gateway; locks are taken
-- in begin_run's order, each kind ordered by id, so that batches, sweeper and new calls cannot lock each other out.

create type ai.closed_run as (
  created_at timestamptz,
  id uuid,
  workspace_id uuid,
  app_id uuid,
  key_lineage_id uuid,
  account_id uuid,
  budget_scopes text[],
  kind text,
  billed_credits numeric,
  credits_due numeric,
  cost_due_usd numeric,
  credits_released numeric,
  usd_released numeric,
  steps jsonb,
  has_key boolean,
  frees_key boolean
);
comment on type ai.closed_run is
  'What closing a run changes elsewhere: credits and cost that are due now, what its reservation gives back, its steps, '
  'and whether it has an idempotency key, which is free again.';

create type ai.outcome as (
  created_at timestamptz,
  id uuid,
  status text,
  http_status smallint,
  error_code text,
  usage_source text,
  calls jsonb,
  first_byte_ms integer,
  latency_ms integer,
  steps jsonb,
  key_unused boolean
);
comment on type ai.outcome is 'How a run ended, as the gateway tells it.';

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
  set search_path = ''
as $$
declare
  one_call jsonb;
  prices jsonb;
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
    -- Each call by its own tier; one whose route is not known, by that of the first.
    prices := routes -> 0 -> 'prices';
    for other in 1..jsonb_array_length(routes) - 1 loop
      if (routes -> other ->> 'position')::smallint = last_route then
        prices := routes -> other -> 'prices';
      end if;
    end loop;
    cost := ai.usage_cost_usd(prices, usage);
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

create function ai.close_runs(outcomes ai.outcome[], untouched_since timestamptz default null) returns ai.closed_run[]
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  changes ai.closed_run[];
begin
  with said as (
    select distinct on (o.created_at, o.id) *
    from unnest(outcomes) as o
    order by o.created_at, o.id
  ), standing as (
    -- Open runs; and those the sweeper closed, if this is the provider's own word come late.
    select
      s.*, r.status = 'running' as open, r.reserved_usd, r.markup, r.cost_usd as old_cost_usd,
      r.billed_credits as old_billed_credits, u.*
    from said s
    join ai.runs r on r.created_at = s.created_at and r.id = s.id
    cross join lateral ai.sum_calls(coalesce(s.calls, '[]'), r.routes) as u
    where (r.status = 'running' and (untouched_since is null or r.touched_at < untouched_since))
      or (untouched_since is null and r.swept and s.usage_source in ('provider', 'provider_partial') and not u.guessed)
  ), priced as (
    select s.*, p.cost_usd, ai.usd_to_credits(p.cost_usd, s.markup) as credits
    from standing s
    -- The truth is charged whole; a guess within what is left of the reservation.
    cross join lateral (
      select s.known_usd + least(s.guessed_usd, greatest(s.reserved_usd - s.known_usd, 0)) as cost_usd
    ) as p
  ), closed as (
    update ai.runs r
    set
      status = p.status,
      http_status = p.http_status,
      error_code = p.error_code,
      usage_source = p.usage_source,
      route = coalesce(p.last_route, r.route),
      input_tokens = p.input_tokens,
      cached_input_tokens = p.cached_input_tokens,
      audio_input_tokens = p.audio_input_tokens,
      output_tokens = p.output_tokens,
      reasoning_tokens = p.reasoning_tokens,
      audio_output_tokens = p.audio_output_tokens,
      cost_usd = p.cost_usd,
      billed_credits = case when r.exempt then 0 else p.credits end,
      unmetered_credits = case
        -- Closed without any count: what it may have cost is shown, not charged.
        when untouched_since is not null and p.usage_source = 'unavailable' then ai.usd_to_credits(r.reserved_usd, r.markup)
        when r.exempt then p.credits
        else 0
      end,
      first_byte_ms = coalesce(p.first_byte_ms, r.first_byte_ms),
      latency_ms = p.latency_ms,
      touched_at = now(),
      settled_at = now(),
      swept = untouched_since is not null
    from priced p
    where r.created_at = p.created_at and r.id = p.id
    returning (
      r.created_at, r.id, r.workspace_id, r.app_id, r.key_lineage_id, r.account_id, r.budget_scopes,
      case when p.open then 'usage' else 'adjustment' end,
      r.billed_credits,
      r.billed_credits - case when p.open then 0 else p.old_billed_credits end,
      r.cost_usd - case when p.open then 0 else p.old_cost_usd end,
      case when p.open then r.reserved_credits else 0 end,
      case when p.open then r.reserved_usd else 0 end,
      p.steps,
      r.idempotency_key is not null,
      coalesce(p.key_unused, false)
    )::ai.closed_run as change
  )
  select coalesce(array_agg(change), '{}') into changes from closed;
  return changes;
end
$$;
comment on function ai.close_runs(ai.outcome[], timestamptz) is
  'Writes outcomes into their runs and returns what changed. With untouched_since it is the sweeper, and closes only '
  'what nobody has touched since then.';
revoke execute on function ai.close_runs(ai.outcome[], timestamptz) from public, anon, authenticated;

create function ai.spend_budgets(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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

create function ai.spend_credits(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  accounts uuid[];
begin
  select array_agg(c.account_id) into accounts from unnest(closed) c;
  perform from ai.credit_accounts a where a.id = any (accounts) order by a.id for update;
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
  select
    c.account_id, c.kind, -c.credits_due,
    a.balance - sum(c.credits_due) over (partition by c.account_id order by c.id),
    c.created_at, c.id
  from unnest(closed) c
  join ai.credit_accounts a on a.id = c.account_id
  where c.credits_due <> 0
  order by c.id;
  update ai.credit_accounts a
  set balance = a.balance - due.credits, reserved = a.reserved - due.released
  from (
    select c.account_id, sum(c.credits_due) as credits, sum(c.credits_released) as released
    from unnest(closed) c
    group by c.account_id
  ) as due
  where a.id = due.account_id;
end
$$;
comment on function ai.spend_credits(ai.closed_run[]) is
  'Books closed runs in their accounts, one ledger entry each, and gives back what those held for them. Budgets come '
  'before: the order of the locks.';
revoke execute on function ai.spend_credits(ai.closed_run[]) from public, anon, authenticated;

create function ai.end_runs(outcomes jsonb, untouched_since timestamptz default null) returns jsonb
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
  said ai.outcome[];
  ids uuid[];
  closed ai.closed_run[];
  have_keys boolean;
  have_budgets boolean;
  ended jsonb;
begin
  -- Read once: what follows asks for it several times.
  select array_agg(o), array_agg(o.id) into said, ids from jsonb_populate_recordset(null::ai.outcome, outcomes) as o;
  perform from ai.idempotency_keys i where i.run_id = any (ids) order by i.run_id for update;
  perform from ai.runs r
  join unnest(said) as o on r.created_at = o.created_at and r.id = o.id
  order by r.id
  for update of r;

  closed := ai.close_runs(said, untouched_since);
  if cardinality(closed) = 0 then
    return '[]';
  end if;

  insert into ai.run_steps (run_created_at, run_id, step, type, name, status, latency_ms)
  select c.created_at, c.id, s.step, s.type, s.name, s.status, s.latency_ms
  from unnest(closed) as c
  cross join jsonb_to_recordset(c.steps) as s (step smallint, type text, name text, status text, latency_ms integer)
  on conflict do nothing;

  -- Few have either, and what is not asked costs nothing.
  select
    bool_or(c.has_key), bool_or(c.budget_scopes <> '{}'),
    jsonb_agg(jsonb_build_object('id', c.id, 'kind', c.kind, 'billed_credits', c.billed_credits::text))
  into have_keys, have_budgets, ended
  from unnest(closed) as c;
  if have_keys then
    -- Free again only where the provider surely did nothing.
    delete from ai.idempotency_keys i using unnest(closed) as c where c.frees_key and i.run_id = c.id;
    update ai.idempotency_keys i set state = 'finished' from unnest(closed) as c where i.run_id = c.id;
  end if;
  if have_budgets then
    perform ai.spend_budgets(closed);
  end if;
  perform ai.spend_credits(closed);
  return ended;
end
$$;
comment on function ai.end_runs(jsonb, timestamptz) is
  'Locks, closes and books a batch. Returns the runs that it changed, and not those that had ended before.';
revoke execute on function ai.end_runs(jsonb, timestamptz) from public, anon, authenticated;

create function ai.end_bookable_runs(outcomes jsonb, untouched_since timestamptz default null) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  outcome jsonb;
  ended jsonb := '[]';
begin
  begin
    return ai.end_runs(outcomes, untouched_since);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for outcome in select o.value from jsonb_array_elements(outcomes) as o order by o.value ->> 'id' loop
    begin
      ended := ended || ai.end_runs(jsonb_build_array(outcome), untouched_since);
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
  language sql
  volatile
  security definer
  set search_path = ''
as $$
  select ai.end_bookable_runs(runs)
$$;
comment on function ai.settle_runs(jsonb) is
  'Settles a batch of runs at true cost. Saying it again changes nothing; saying the truth of a run that the sweeper '
  'had to guess posts one adjusting entry.';
revoke execute on function ai.settle_runs(jsonb) from public, anon, authenticated;
grant execute on function ai.settle_runs(jsonb) to gateway;
