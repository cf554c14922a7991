-- Writing the settlement of several runs. Each function takes the locks of its kind in order; settlement.sql has the order
-- of the kinds.

create or replace function ai.compute_settlements(outcomes ai.run_outcome[], idle_since timestamptz) returns ai.closed_batch
  language plpgsql
  volatile
  security invoker
as $$
declare
  pair record;
  run ai.closed_run;
  batch ai.closed_batch;
  closed ai.closed_run[] := '{}';
  ended jsonb[];
  accounts uuid[] := '{}';
  due numeric[] := '{}';
  released numeric[] := '{}';
  count integer := 0;
  place integer := 0;
  last_id uuid;
  first_begun timestamptz;
  last_begun timestamptz;
begin
  -- The months that they began in, so that no other partition is opened.
  select min(o.created_at), max(o.created_at) into first_begun, last_begun from unnest(outcomes) as o;
  for pair in
    select
      o as outcome,
      row(
        r.created_at, r.id, r.workspace_id, r.app_id, r.key_lineage_id, r.idempotency_key is not null, r.routes, r.route,
        r.markup, r.status, r.cost_usd, r.billed_credits, r.exempt, r.account_id, r.reserved_usd, r.reserved_credits,
        r.budget_scopes, r.first_byte_ms, r.touched_at, r.swept
      )::ai.settlement as run
    from unnest(outcomes) as o
    join ai.runs r
      on r.created_at = o.created_at and r.id = o.id and r.created_at >= first_begun and r.created_at <= last_begun
    order by r.account_id, r.id
    for update of r
  loop
    run := ai.compute_settlement(pair.outcome, pair.run, idle_since);
    -- Said twice in one batch: once is enough.
    continue when run.id is null or run.id = last_id;
    last_id := run.id;
    if place = 0 or run.account_id is distinct from accounts[place] then
      place := place + 1;
      accounts[place] := run.account_id;
      due[place] := run.credits_due;
      released[place] := run.credits_released;
    else
      due[place] := due[place] + run.credits_due;
      released[place] := released[place] + run.credits_released;
    end if;
    run.account_place := place;
    run.credits_so_far := due[place];
    if run.has_key then
      batch.have_keys := true;
    end if;
    if run.budget_scopes <> '{}' then
      batch.have_budgets := true;
    end if;
    count := count + 1;
    closed[count] := run;
    ended[count] := ai.settlement_summary(run);
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
comment on function ai.compute_settlements(ai.run_outcome[], timestamptz) is
  'Locks the runs of outcomes, and says what closing each of them comes to, as ai.compute_settlement does.';

create or replace function ai.settle_budgets(closed ai.closed_run[]) returns void
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
comment on function ai.settle_budgets(ai.closed_run[]) is
  'Books closed runs in their budgets, and gives back what those held for them.';

create or replace function ai.settle_credits(batch ai.closed_batch) returns numeric[]
  language plpgsql
  volatile
  security invoker
as $$
declare
  account record;
  balances numeric[];
begin
  -- As it is where one workspace has all of the load.
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
comment on function ai.settle_credits(ai.closed_batch) is
  'Takes what closed runs cost from their accounts and gives back what those held for them. Returns their balances before '
  'it. Budgets come before: the order of the locks.';

create or replace function ai.write_settlements(batch ai.closed_batch, balances numeric[], by_sweeper boolean) returns void
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
comment on function ai.write_settlements(ai.closed_batch, numeric[], boolean) is
  'Writes how runs ended into them, which are locked, and one ledger entry each.';

create or replace function ai.complete_idempotency_keys(closed ai.closed_run[]) returns void
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
comment on function ai.complete_idempotency_keys(ai.closed_run[]) is
  'Ends the idempotency keys of closed runs. Last, as in begin_run, which has its own when it has the balance.';
