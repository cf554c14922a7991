-- What budgets leave for calls, and how refusals state them.

-- Returns what a budget reserves for a call: its maximum cost, or the cost of its expected output if the budget reserves
-- that and there is one. A further step of a run has none.
create or replace function ai.budget_need(claim ai.claim, budget ai.budgets) returns numeric
  language sql immutable security invoker
as $$
  select case
    when (budget).reserves_expected then coalesce((claim).expected_usd, (claim).cost_usd)
    else (claim).cost_usd
  end
$$;

-- Returns whether a call fits a budget as it counts now. A budget of 0 refuses free calls too. An ended envelope refuses
-- every call. Enforces a label's budget only if the key sets the label. A label that the caller sends never causes a
-- refusal by a budget.
create or replace function ai.fits_budget(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or ((budget).max_calls is null or (claim).requests = 0 or (budget).calls + (claim).requests <= (budget).max_calls)
      and (
        (budget).limit_usd is null
        or (budget).limit_usd > 0 and (budget).reserved_usd + ai.budget_need(claim, budget) + (budget).spent_usd <= (budget).limit_usd
      )
      and ((budget).scope <> 'envelope' or now() < (budget).ends_at),
    false
  )
$$;

-- Returns whether a call would fit a budget in which no call reserves anything. In the last minute of a window, the
-- budget counts as unspent.
create or replace function ai.fits_when_settled(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or case
      when (budget).period = 'concurrent' then (budget).max_calls > 0
      when (budget).scope = 'envelope' and now() >= (budget).ends_at then false
      else ((budget).max_calls is null or (budget).calls < (budget).max_calls)
        and (budget).limit_usd > 0
        and ai.budget_need(claim, budget) + case
          when (budget).scope <> 'envelope' and now() + interval '1 minute' >= (budget).ends_at then 0
          else (budget).spent_usd
        end <= (budget).limit_usd
    end,
    true
  )
$$;

-- Returns what a budget has left for a call: null if the budget can't refuse it for its maximum cost, less than nothing if
-- it refuses every call.
create or replace function ai.budget_room(claim ai.claim, budget ai.budgets) returns numeric
  language sql stable security invoker
as $$
  select case
    when (budget).scope = 'label' and ((claim).caller).entity_id is null then null
    -- The expected cost fits with any output limit.
    when (budget).reserves_expected and (claim).expected_usd is not null and ai.fits_budget(claim, budget) then null
    when (budget).limit_usd = 0 or (claim).requests > 0 and (budget).calls >= (budget).max_calls then -1
    when (budget).scope = 'envelope' and now() >= (budget).ends_at then -1
    else (budget).limit_usd - (budget).reserved_usd - (budget).spent_usd
  end
$$;

-- Returns the code of a refusal by a budget.
create or replace function ai.budget_refusal_code(budget ai.budgets) returns text
  language sql immutable security invoker
as $$
  select case
    when (budget).scope = 'envelope' then 'envelope_exhausted'
    when (budget).period = 'concurrent' then 'rate_limit_exceeded'
    else 'budget_exceeded'
  end
$$;

-- Returns a budget as a refusal states it. ai.explain_refusal completes it for the caller.
create or replace function ai.budget_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'kind', 'budget', 'scope', (budget).scope, 'window', (budget).period, 'time_zone', (budget).time_zone,
    'resets_at', ai.utc_text(nullif((budget).ends_at, 'infinity')),
    'limit_usd', trim_scale((budget).limit_usd),
    'spent_usd', trim_scale((budget).spent_usd),
    'reserved_usd', trim_scale((budget).reserved_usd),
    'remaining_usd', trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))
  ))
$$;

-- Returns a limit of concurrent calls as a refusal states it. It is unknown when a call ends, so a client tries again
-- after a second.
create or replace function ai.concurrency_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'concurrent', 'scope', (budget).scope, 'limit', (budget).max_calls, 'used', (budget).calls, 'reset_seconds', 1
  )
$$;
