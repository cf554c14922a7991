-- Settles finished runs at their actual cost. A run is charged only once, even if it is reported several times.

-- Settles a batch of runs at their actual cost. Reporting a run again has no effect, unless the sweep had closed the
-- run at an estimate. In that case, one ledger entry corrects the charge to the actual cost.
-- Definer: gateway has no grant on any table. Callers identify a run by the id that begin_runs returned.
create or replace function ai.settle_runs(runs jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  return ai.settle_outcomes(runs);
end
$$;

-- Settles a batch of runs and returns the runs that changed. If idle_since is given, only open runs without a heartbeat
-- since then change. A report that cannot be booked does not block the others: its run stays open, and it is logged.
-- Lock timeouts are raised, so that the caller sends the batch again.
create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
  -- Forces plans that find rows by key, regardless of the table statistics. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  parsed ai.run_outcome[];
  due ai.settlement[];
  outcomes_due ai.run_outcome[];
  batch record;
  locks ai.lock_list;
  locked record;
  budget ai.budgets;
  learning uuid[];
  -- The places of the settlements that were booked one by one.
  booked integer[];
  changed jsonb := '[]';
  last_changed uuid;
begin
  -- Validating each report first would parse it twice.
  begin
    parsed := array(select jsonb_populate_record(null::ai.run_outcome, e.value) from jsonb_array_elements(outcomes) as e);
  exception when data_exception or integrity_constraint_violation then
    -- Of a report that can't be parsed, only the run that it names is read.
    parsed := array(
      select jsonb_populate_record(null::ai.run_outcome, case
        when jsonb_typeof(e.value) = 'object' and jsonb_populate_record_valid(null::ai.run_outcome, e.value) then e.value
        when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') and pg_input_is_valid(e.value ->> 'id', 'uuid')
          then jsonb_build_object('created_at', e.value -> 'created_at', 'id', e.value -> 'id')
      end)
      from jsonb_array_elements(outcomes) as e
    );
  end;

  select
    array_agg(s.due) filter (where s.is_valid) as due,
    array_agg(s.outcome) filter (where s.is_valid) as outcomes,
    array_agg(s.id) filter (where not s.is_valid) as invalid_ids,
    bool_or(s.budget_scopes <> '{}') as has_budgets,
    array_agg(row('workspace', s.workspace_id, null)::ai.limit_subject) filter (where s.window_start is not null)
      || array_agg(row('key', s.key_lineage_id, null)::ai.limit_subject)
        filter (where s.window_start is not null and s.key_lineage_id is not null)
      || array_agg(row('model', ai.model_window_id(s.workspace_id, s.model_id), null)::ai.limit_subject)
        filter (where s.window_start is not null and s.has_model_limit) as rate_windows,
    array_agg(s.account_id) filter (where s.account_id is not null) as accounts
  into batch
  from (
    select
      row(
        r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, r.budget_scopes, r.request_id,
        r.model_id, r.has_key, k.kind, b.billed_credits - k.billed_credits, k.reserved_credits, b.cost_usd - k.cost_usd,
        k.reserved_usd,
        case
          -- The sweep closes the run without known usage, so its reservation is shown but not charged.
          when idle_since is not null and o.usage_source = 'unavailable' then ai.usd_to_credits(r.reserved_usd, r.markup)
          when r.exempt then b.credits
          else 0
        end,
        b.billed_credits, r.window_start, r.counted_tokens,
        jsonb_build_object('id', r.id, 'kind', k.kind, 'billed_credits', b.billed_credits::text), r.envelope_id,
        r.feature, case when r.is_open then r.expected_usd else 0 end, r.expected_scopes
      )::ai.settlement as due,
      r.outcome,
      r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.budget_scopes, r.window_start, r.model_id,
      case when r.window_start is not null then exists (
        select from ai.workspace_policies p where p.workspace_id = r.workspace_id and p.model_limits ? r.model_id
      ) end as has_model_limit,
      (o.usage_source is not null and o.status <> 'running'
        and (o.usage_source = 'unavailable' or num_nulls(o.cost_usd, o.credits) = 0)
        and least(o.cost_usd, o.credits, 0) >= 0 and greatest(o.cost_usd, o.credits, 0) < 'Infinity'
        and least(
          o.input_tokens, o.cached_input_tokens, o.audio_input_tokens, o.output_tokens, o.reasoning_tokens,
          o.audio_output_tokens, o.cache_write_tokens, o.cache_write_1h_tokens, o.image_input_tokens, o.fee_requests, 0
        ) >= 0) is true as is_valid
    from (
      select
        r.created_at, r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id,
        r.budget_scopes, r.request_id, r.model_id, r.idempotency_key is not null as has_key, r.status = 'running' as is_open,
        r.swept, r.touched_at, r.exempt, r.markup, r.reserved_credits, r.reserved_usd, r.billed_credits, r.cost_usd,
        case when r.tokens_reserved_at >= date_trunc('minute', now()) then r.tokens_reserved_at end as window_start,
        case r.status when 'running' then r.reserved_tokens else r.input_tokens + r.output_tokens end as counted_tokens,
        r.envelope_id, r.feature, r.expected_usd, r.expected_scopes, n.outcome
      from (
        select p.place, parsed[p.place] as outcome from generate_subscripts(parsed, 1) as p (place) offset 0
      ) as n
      -- Without a range of created_at, with which Postgres would read all the runs between the oldest and the newest.
      join ai.runs r
        on r.created_at = (n.outcome).created_at and r.id = (n.outcome).id
      order by r.account_id, r.id, n.place
      for update of r
    ) as r
    cross join lateral (select (r.outcome).*) as o
    cross join lateral (
      select
        case when r.is_open then 'usage' else 'adjustment' end as kind,
        case when r.is_open then 0 else r.billed_credits end as billed_credits,
        case when r.is_open then 0 else r.cost_usd end as cost_usd,
        case when r.is_open then r.reserved_credits else 0 end as reserved_credits,
        case when r.is_open then r.reserved_usd else 0 end as reserved_usd
    ) as k
    cross join lateral (
      select
        round(coalesce(o.cost_usd, 0), 12) as cost_usd, round(coalesce(o.credits, 0), 8) as credits,
        round(case when r.exempt then 0 else coalesce(o.credits, 0) end, 8) as billed_credits
    ) as b
    -- A run can change if it is open, or if the sweep closed it before the provider's token counts arrived.
    where case
      when r.is_open then (r.touched_at >= idle_since) is not true
      else idle_since is null and r.swept and o.usage_source in ('provider', 'provider_partial') and o.estimated is not true
    end
  ) as s;
  if batch.invalid_ids is not null then
    raise warning 'run % cannot be booked: a run ends with a status, a usage source, a cost and counts of at least 0',
      array_to_string(batch.invalid_ids, ', ') using errcode = 'check_violation';
  end if;
  if batch.due is null then
    return '[]';
  end if;
  due := batch.due;
  outcomes_due := batch.outcomes;
  locks.rate_windows := batch.rate_windows;
  locks.accounts := batch.accounts;
  if batch.has_budgets then
    select array_agg(row(
      split_part(t.entry, '/', 1),
      ai.budget_subject(split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id),
      d.workspace_id
    )::ai.limit_subject)
    into locks.budgets
    from unnest(due) as d
    cross join unnest(d.budget_scopes) as t (entry);
  end if;
  -- An assignment, because `perform` would be one more statement.
  locked := ai.lock_rows(locks);
  -- A report that can't be booked may be the only one of a run with budgets.
  if locked.budgets is not null then
    foreach budget in array locked.budgets loop
      if budget.reserves_expected then
        learning := learning || budget.workspace_id;
      end if;
    end loop;
  end if;

  begin
    return ai.book_settlements(due, outcomes_due, idle_since is not null, learning);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for place in 1..cardinality(due) loop
    -- A run changes only once, even if it is reported several times.
    continue when outcomes_due[place].id = last_changed;
    begin
      changed := changed || ai.book_settlements(due[place:place], outcomes_due[place:place], idle_since is not null, null);
      last_changed := outcomes_due[place].id;
      booked := booked || place;
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcomes_due[place].id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  if learning is not null then
    -- In one statement, because two batches that record one run after another could deadlock.
    perform ai.record_outputs(
      array(select due[b.place] from unnest(booked) as b (place)),
      array(select outcomes_due[b.place] from unnest(booked) as b (place)), learning
    );
  end if;
  return changed;
end
$$;

-- Closes and charges runs, and returns them. learning are the workspaces whose usual output is recorded. Raises
-- unique_violation if a run has several settlements. The caller has locked the runs and their rate windows, budgets and
-- accounts. Idempotency keys are last in the lock order.
create or replace function ai.book_settlements(
  due ai.settlement[], outcomes ai.run_outcome[], is_sweep boolean, learning uuid[]
) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  closed_runs bigint;
  changed jsonb[];
  has_windows boolean;
  has_budgets boolean;
  has_failures boolean;
  has_keys boolean;
begin
  with closed as (
    update ai.runs r
    set
      status = d.status,
      http_status = d.http_status,
      error_code = d.error_code,
      usage_source = d.usage_source,
      route = coalesce(d.route, r.route),
      input_tokens = coalesce(d.input_tokens, 0),
      cached_input_tokens = coalesce(d.cached_input_tokens, 0),
      audio_input_tokens = coalesce(d.audio_input_tokens, 0),
      output_tokens = coalesce(d.output_tokens, 0),
      reasoning_tokens = coalesce(d.reasoning_tokens, 0),
      audio_output_tokens = coalesce(d.audio_output_tokens, 0),
      cache_write_tokens = coalesce(d.cache_write_tokens, 0),
      cache_write_1h_tokens = coalesce(d.cache_write_1h_tokens, 0),
      image_input_tokens = coalesce(d.image_input_tokens, 0),
      fee_requests = coalesce(d.fee_requests, 0),
      served_tier = d.served_tier,
      marks = coalesce(d.marks, '{}'),
      billing_name = d.billing_name,
      billing_account = d.billing_account,
      cost_usd = coalesce(d.cost_usd, 0),
      billed_credits = d.billed_credits,
      unmetered_credits = d.unmetered_credits,
      first_byte_ms = coalesce(d.first_byte_ms, r.first_byte_ms),
      latency_ms = d.latency_ms,
      steps = d.steps,
      attempts = d.attempts,
      touched_at = now(),
      settled_at = now(),
      swept = is_sweep
    from unnest(due, outcomes) as d
    where r.created_at = d.created_at and r.id = d.id
    returning r.id
  ), paid as (
    update ai.credit_accounts a
    set balance = a.balance - p.credits, reserved = a.reserved - p.released
    from (
      select d.account_id as id, sum(d.credits_due) as credits, sum(d.credits_released) as released
      from unnest(due, outcomes) as d
      group by 1
    ) as p
    where a.id = p.id
    returning a.id, a.balance
  ), charged as (
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
    select
      d.account_id, d.kind, -d.credits_due, p.balance + coalesce(sum(d.credits_due) over later, 0), d.created_at, d.id
    from unnest(due, outcomes) as d
    left join paid p on p.id = d.account_id
    where d.credits_due <> 0
    window later as (partition by d.account_id order by d.id desc rows between unbounded preceding and 1 preceding)
    order by d.account_id, d.id
  )
  select
    (select count(*) from closed), array_agg(d.answer), bool_or(d.window_start is not null),
    bool_or(d.budget_scopes <> '{}'), bool_or(d.has_key), bool_or(jsonb_path_exists(d.attempts, '$[*].failure'))
  into closed_runs, changed, has_windows, has_budgets, has_keys, has_failures
  from unnest(due, outcomes) as d;
  if closed_runs < cardinality(due) then
    raise exception 'a run is reported several times' using errcode = 'unique_violation';
  end if;

  if has_windows then
    update ai.rate_windows w
    set tokens = greatest(w.tokens + c.tokens, 0)
    from (
      select
        s.scope, s.subject_id, d.window_start,
        sum(coalesce(d.input_tokens, 0) + coalesce(d.output_tokens, 0) - d.counted_tokens) as tokens
      from unnest(due, outcomes) as d
      cross join lateral (
        values
          ('key', d.key_lineage_id), ('model', ai.model_window_id(d.workspace_id, d.model_id)), ('workspace', d.workspace_id)
      ) as s (scope, subject_id)
      where d.window_start is not null
      group by 1, 2, 3
    ) as c
    -- A window that began after the run's tokens were reserved is not changed.
    where w.scope = c.scope and w.subject_id = c.subject_id and w.window_start <= c.window_start;
  end if;
  if has_budgets then
    update ai.budgets b
    set
      -- A budget that was deleted and set again holds no reservation of earlier runs.
      reserved_usd = greatest(b.reserved_usd - c.released, 0),
      spent_usd = b.spent_usd + (
        -- A run counts in the window in which it began.
        select coalesce(sum(m.cost_usd), 0)
        from unnest(c.begun, c.costs_usd) as m (begun, cost_usd)
        where m.begun >= coalesce(b.starts_at, b.period_start::timestamp at time zone 'UTC')
      ),
      calls = greatest(b.calls - c.ended_calls, 0)
    from (
      select
        split_part(t.entry, '/', 1) as scope, ai.entry_period(t.entry) as period, d.workspace_id,
        ai.budget_subject(
          split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id
        ) as subject_id,
        coalesce(sum(
          case when t.entry = any (d.expected_scopes) then d.expected_usd else d.usd_released end
        ) filter (where t.entry not like '%/concurrent'), 0) as released,
        array_agg(d.created_at) as begun,
        array_agg(d.cost_due_usd) filter (where t.entry not like '%/concurrent') as costs_usd,
        count(*) filter (where t.entry like '%/concurrent' and d.kind = 'usage') as ended_calls
      from unnest(due, outcomes) as d
      cross join unnest(d.budget_scopes) as t (entry)
      group by 1, 2, 3, 4
    ) as c
    where b.scope = c.scope and b.subject_id = c.subject_id and b.workspace_id = c.workspace_id and b.period = c.period;
  end if;
  if has_failures then
    insert into ai.failed_attempts (
      run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
      upstream_request_id
    )
    select
      d.created_at, d.id, d.request_id, d.workspace_id, d.model_id, a.provider, a.model, a.route, a.status, a.failure,
      a.upstream_request_id
    from unnest(due, outcomes) as d
    cross join lateral jsonb_to_recordset(d.attempts) as a (
      route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
    )
    -- A skipped route was not called, and a client that disconnected is not a failure of the provider.
    where a.failure not in ('skipped', 'cancelled');
  end if;
  if learning is not null then
    perform ai.record_outputs(due, outcomes, learning);
  end if;
  if has_keys then
    delete from ai.idempotency_keys i
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key and d.key_unused));
    update ai.idempotency_keys i
    set state = 'finished'
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key));
  end if;
  return to_jsonb(changed);
end
$$;
