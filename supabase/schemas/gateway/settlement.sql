-- Settlement: closing runs at true cost, once, however often it is reported. Runs are locked before budgets and balances,
-- by account and id, so that batches, the sweeper and new calls cannot deadlock.

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.settle_runs(runs jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  return ai.settle_batch_or_each(runs);
end
$$;
comment on function ai.settle_runs(jsonb) is
  'Settles a batch of runs at true cost. Saying it again changes nothing; saying the truth of a run that the sweeper '
  'had to guess posts one adjusting entry.';

create or replace function ai.settle_batch_or_each(outcomes jsonb, idle_since timestamptz default null) returns jsonb
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
    return ai.settle_batch(ai.parse_outcomes(outcomes), idle_since);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  perform ai.lock_settlement_rows(outcomes);
  for outcome in select o.value from jsonb_array_elements(outcomes) as o order by o.value ->> 'id' loop
    begin
      ended := ended || ai.settle_batch(ai.parse_outcomes(jsonb_build_array(outcome)), idle_since);
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcome ->> 'id', sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return ended;
end
$$;
comment on function ai.settle_batch_or_each(jsonb, timestamptz) is
  'Ends a batch; where it cannot be booked, each of its runs alone, so that one such run, of whatever tenant, holds up no '
  'other. It stays open and is named in the log. What may pass by itself (locks, time limits) is raised, for the batch to be said again.';

create or replace function ai.settle_batch(outcomes ai.run_outcome[], idle_since timestamptz default null) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  batch ai.closed_batch;
begin
  if cardinality(outcomes) = 1 then
    return ai.settle_run(outcomes[1], idle_since);
  end if;
  batch := ai.compute_settlements(outcomes, idle_since);
  if batch.ended is null then
    return '[]';
  end if;
  if batch.have_budgets then
    perform ai.settle_budgets(batch.runs);
  end if;
  perform ai.write_settlements(batch, ai.settle_credits(batch), idle_since is not null);
  if batch.have_keys then
    perform ai.complete_idempotency_keys(batch.runs);
  end if;
  return to_jsonb(batch.ended);
end
$$;
comment on function ai.settle_batch(ai.run_outcome[], timestamptz) is
  'Locks, closes and books a batch. Returns the runs that it changed, and not those that had ended before.';

create or replace function ai.settle_run(outcome ai.run_outcome, idle_since timestamptz) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  run ai.settlement;
  closed ai.closed_run;
  balance numeric;
begin
  select
    r.created_at, r.id, r.workspace_id, r.app_id, r.key_lineage_id, r.idempotency_key is not null, r.routes, r.route,
    r.markup, r.status, r.cost_usd, r.billed_credits, r.exempt, r.account_id, r.reserved_usd, r.reserved_credits,
    r.budget_scopes, r.first_byte_ms, r.touched_at, r.swept
  into run
  from ai.runs r
  where r.created_at = outcome.created_at and r.id = outcome.id
  for update;
  if not found then
    return '[]';
  end if;
  closed := ai.compute_settlement(outcome, run, idle_since);
  if closed.id is null then
    return '[]';
  end if;
  if closed.budget_scopes <> '{}' then
    perform ai.settle_budgets(array[closed]);
  end if;
  update ai.credit_accounts a
  set balance = a.balance - closed.credits_due, reserved = a.reserved - closed.credits_released
  where a.id = closed.account_id
  returning a.balance into balance;
  update ai.runs r
  set
    status = closed.status,
    http_status = closed.http_status,
    error_code = closed.error_code,
    usage_source = closed.usage_source,
    route = closed.route,
    input_tokens = closed.input_tokens,
    cached_input_tokens = closed.cached_input_tokens,
    audio_input_tokens = closed.audio_input_tokens,
    output_tokens = closed.output_tokens,
    reasoning_tokens = closed.reasoning_tokens,
    audio_output_tokens = closed.audio_output_tokens,
    cost_usd = closed.cost_usd,
    billed_credits = closed.billed_credits,
    unmetered_credits = closed.unmetered_credits,
    first_byte_ms = closed.first_byte_ms,
    latency_ms = closed.latency_ms,
    steps = closed.steps,
    touched_at = now(),
    settled_at = now(),
    swept = idle_since is not null
  where r.created_at = closed.created_at and r.id = closed.id;
  if closed.credits_due <> 0 then
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
    values (closed.account_id, closed.kind, -closed.credits_due, balance, closed.created_at, closed.id);
  end if;
  if closed.has_key then
    perform ai.complete_idempotency_keys(array[closed]);
  end if;
  return jsonb_build_array(ai.settlement_summary(closed));
end
$$;
comment on function ai.settle_run(ai.run_outcome, timestamptz) is
  'As ai.settle_batch, for one that comes alone, as most do that are not under load: by rows of one table each, since the '
  'statements of a batch take longer to start.';

create or replace function ai.parse_outcomes(outcomes jsonb) returns ai.run_outcome[]
  language plpgsql
  stable
  security invoker
as $$
declare
  parsed ai.run_outcome[];
begin
  if jsonb_array_length(outcomes) = 1 then
    return array[jsonb_populate_record(null::ai.run_outcome, outcomes -> 0)];
  end if;
  select array_agg(o) into parsed from jsonb_populate_recordset(null::ai.run_outcome, outcomes) as o;
  return parsed;
end
$$;
comment on function ai.parse_outcomes(jsonb) is 'Outcomes as they are told.';

create or replace function ai.lock_settlement_rows(outcomes jsonb) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  runs ai.runs[];
begin
  select array_agg(l.run) into runs
  from (
    select r as run
    from jsonb_array_elements(outcomes) as o
    -- One of them may be why the batch cannot be booked.
    join ai.runs r
      on r.created_at = case
        when pg_input_is_valid(o ->> 'created_at', 'timestamptz') then (o ->> 'created_at')::timestamptz
      end
      and r.id = case when pg_input_is_valid(o ->> 'id', 'uuid') then (o ->> 'id')::uuid end
    order by r.account_id, r.id
    for update of r
  ) as l;
  perform from ai.budgets b
  where (b.scope, b.subject_id, b.workspace_id) in (
    select t.scope, ai.budget_subject(t.scope, r.key_lineage_id, r.app_id, r.workspace_id), r.workspace_id
    from unnest(runs) r
    cross join unnest(r.budget_scopes) as t (scope)
  )
  order by case b.scope when 'key' then 1 when 'app' then 2 else 3 end, b.subject_id, b.workspace_id
  for update;
  perform from ai.credit_accounts a
  where a.id in (select r.account_id from unnest(runs) as r)
  order by a.id
  for no key update;
end
$$;
comment on function ai.lock_settlement_rows(jsonb) is
  'Takes all locks of a batch that is to be ended run by run, in the order in which a batch takes them: one by one, each '
  'run would be locked by whoever has balances of runs before it.';
