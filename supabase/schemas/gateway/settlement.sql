-- Settles finished runs at their actual cost. A run is charged only once, even if it is reported several times.

-- Settles a batch of runs at their actual cost. Reporting a run again has no effect, unless the sweep had closed the
-- run at an estimate. In that case, one ledger entry corrects the charge to the actual cost.
-- Definer: gateway has no grant on any table. Callers identify a run by the id that begin_run returned.
create or replace function ai.settle_runs(runs jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  return ai.settle_outcomes(runs);
end
$$;

-- Settles a batch of runs and returns the runs that changed. If the batch cannot be settled, settles each run
-- separately, so that one bad run does not block the others. A bad run stays open and is logged. Lock timeouts are
-- raised, so that the caller sends the batch again.
create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
  -- Forces plans that find rows by key, regardless of the table statistics. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  reports ai.run_report[] := ai.lock_outcomes(outcomes);
  report ai.run_report;
  ended jsonb := '[]';
begin
  begin
    return ai.settle_batch(reports, idle_since);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  foreach report in array reports loop
    begin
      ended := ended || ai.settle_batch(array[report], idle_since);
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', (report.run).id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return ended;
end
$$;

-- Locks the reported runs, then their rate windows, budgets and balances. Returns each report with its run.
create or replace function ai.lock_outcomes(outcomes jsonb) returns ai.run_report[]
  language plpgsql volatile security invoker
as $$
declare
  reports ai.run_report[] := ai.lock_runs(outcomes);
  report ai.run_report;
  run ai.runs;
  scope text;
  locks ai.lock_list;
begin
  foreach report in array reports loop
    run := report.run;
    if run.tokens_reserved_at >= date_trunc('minute', now()) then
      locks.rate_windows := locks.rate_windows || row('workspace', run.workspace_id, null)::ai.limit_subject;
      if run.key_lineage_id is not null then
        locks.rate_windows := locks.rate_windows || row('key', run.key_lineage_id, null)::ai.limit_subject;
      end if;
    end if;
    foreach scope in array run.budget_scopes loop
      locks.budgets := locks.budgets || row(
        scope,
        ai.budget_subject(scope, run.workspace_id, run.key_lineage_id, run.app_id, run.actor_id, run.entity_id),
        run.workspace_id
      )::ai.limit_subject;
    end loop;
    if run.account_id is not null then
      locks.accounts := locks.accounts || run.account_id;
    end if;
  end loop;
  perform ai.lock_rows(locks);
  return reports;
end
$$;

-- Locks the reported runs in order of account and id, and returns each report with its run. Skips unknown runs.
create or replace function ai.lock_runs(reports jsonb) returns ai.run_report[]
  language plpgsql volatile security invoker
as $$
declare
  moments timestamptz[];
  ids uuid[];
  told jsonb[];
  first_begun timestamptz;
  last_begun timestamptz;
  locked ai.run_report[];
begin
  select array_agg(n.created_at), array_agg(n.id), array_agg(n.report), min(n.created_at), max(n.created_at)
  into moments, ids, told, first_begun, last_begun
  from (
    select
      e.value as report,
      case when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') then (e.value ->> 'created_at')::timestamptz end
        as created_at,
      case when pg_input_is_valid(e.value ->> 'id', 'uuid') then (e.value ->> 'id')::uuid end as id
    from jsonb_array_elements(reports) as e
  ) as n;
  select array_agg(row(l.run, l.report)::ai.run_report) into locked
  from (
    select r as run, n.report
    from unnest(moments, ids, told) as n (created_at, id, report)
    -- The range lets the planner skip partitions of other months.
    join ai.runs r
      on r.created_at = n.created_at and r.id = n.id and r.created_at >= first_begun and r.created_at <= last_begun
    order by r.account_id, r.id
    for update of r
  ) as l;
  return coalesce(locked, '{}');
end
$$;

-- Closes and charges runs that the caller has locked. Returns the runs that changed.
create or replace function ai.settle_batch(reports ai.run_report[], idle_since timestamptz) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  report ai.run_report;
  closed_run ai.closed_run;
  closed ai.closed_run[] := '{}';
  last_id uuid;
  first_begun timestamptz;
  last_begun timestamptz;
  have_keys boolean := false;
  have_budgets boolean := false;
  have_failures boolean := false;
  token_change bigint;
  token_changes bigint[] := '{}';
  have_tokens boolean := false;
  ended jsonb := '[]';
begin
  foreach report in array reports loop
    closed_run := ai.compute_settlement(jsonb_populate_record(null::ai.run_outcome, report.outcome), report.run, idle_since);
    -- A run may be reported twice in one batch.
    continue when closed_run.kind is null or (report.run).id = last_id;
    last_id := (report.run).id;
    closed := closed || closed_run;
    token_change := null;
    if (report.run).tokens_reserved_at >= date_trunc('minute', now()) then
      token_change := (closed_run.run).input_tokens + (closed_run.run).output_tokens - case closed_run.kind
        when 'usage' then (report.run).reserved_tokens
        else (report.run).input_tokens + (report.run).output_tokens
      end;
      have_tokens := true;
    end if;
    token_changes := token_changes || token_change;
    first_begun := least(first_begun, (report.run).created_at);
    last_begun := greatest(last_begun, (report.run).created_at);
    have_keys := have_keys or (report.run).idempotency_key is not null;
    have_budgets := have_budgets or (report.run).budget_scopes <> '{}';
    have_failures := have_failures or coalesce(jsonb_path_exists((closed_run.run).attempts, '$[*].failure'), false);
    ended := ended || jsonb_build_object(
      'id', last_id, 'kind', closed_run.kind, 'billed_credits', (closed_run.run).billed_credits::text
    );
  end loop;
  if last_id is null then
    return ended;
  end if;

  if have_tokens then
    perform ai.settle_rate_windows(closed, token_changes);
  end if;
  if have_budgets then
    perform ai.settle_budgets(closed);
  end if;
  perform ai.settle_credits(closed);
  update ai.runs r
  set
    status = (c.run).status,
    http_status = (c.run).http_status,
    error_code = (c.run).error_code,
    usage_source = (c.run).usage_source,
    route = (c.run).route,
    input_tokens = (c.run).input_tokens,
    cached_input_tokens = (c.run).cached_input_tokens,
    audio_input_tokens = (c.run).audio_input_tokens,
    output_tokens = (c.run).output_tokens,
    reasoning_tokens = (c.run).reasoning_tokens,
    audio_output_tokens = (c.run).audio_output_tokens,
    cache_write_tokens = (c.run).cache_write_tokens,
    cache_write_1h_tokens = (c.run).cache_write_1h_tokens,
    image_input_tokens = (c.run).image_input_tokens,
    fee_requests = (c.run).fee_requests,
    served_tier = (c.run).served_tier,
    marks = (c.run).marks,
    billing_name = (c.run).billing_name,
    billing_account = (c.run).billing_account,
    cost_usd = (c.run).cost_usd,
    billed_credits = (c.run).billed_credits,
    unmetered_credits = (c.run).unmetered_credits,
    first_byte_ms = (c.run).first_byte_ms,
    latency_ms = (c.run).latency_ms,
    steps = (c.run).steps,
    attempts = (c.run).attempts,
    touched_at = now(),
    settled_at = now(),
    swept = idle_since is not null
  from unnest(closed) as c
  where r.created_at = (c.run).created_at and r.id = (c.run).id
    and r.created_at >= first_begun and r.created_at <= last_begun;
  if have_failures then
    perform ai.record_failed_attempts(closed);
  end if;
  if have_keys then
    perform ai.complete_idempotency_keys(closed);
  end if;
  return ended;
end
$$;

-- Applies an outcome to a locked run. Returns the closed run with the amounts due, or null if the outcome changes
-- nothing. If idle_since is given, also returns null unless the run is open and has had no heartbeat since then.
create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.runs, idle_since timestamptz) returns ai.closed_run
  language plpgsql stable security invoker
as $$
declare
  open boolean := run.status = 'running';
  before ai.runs := run;
  cost_usd numeric(24, 12) := coalesce(outcome.cost_usd, 0);
  credits numeric(24, 8) := coalesce(outcome.credits, 0);
  billed_credits numeric(24, 8) := case when run.exempt then 0 else credits end;
begin
  -- A run can change if it is open, or if the sweep closed it before the provider's token counts arrived.
  if open then
    if run.touched_at >= idle_since then
      return null;
    end if;
  elsif idle_since is not null or not run.swept
    or outcome.usage_source is null or outcome.usage_source not in ('provider', 'provider_partial')
  then
    return null;
  end if;

  if outcome.estimated and not open then
    return null;
  end if;
  if outcome.usage_source is null or outcome.status = 'running'
    or outcome.usage_source <> 'unavailable' and (outcome.cost_usd is null or outcome.credits is null)
    or least(
    outcome.cost_usd, outcome.credits, outcome.input_tokens, outcome.cached_input_tokens, outcome.audio_input_tokens,
    outcome.output_tokens, outcome.reasoning_tokens, outcome.audio_output_tokens,
    outcome.cache_write_tokens, outcome.cache_write_1h_tokens, outcome.image_input_tokens, outcome.fee_requests
  ) < 0 then
    raise exception 'a run ends with a status, a usage source, a cost and counts of at least 0' using errcode = 'check_violation';
  end if;

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
  run.cache_write_tokens := coalesce(outcome.cache_write_tokens, 0);
  run.cache_write_1h_tokens := coalesce(outcome.cache_write_1h_tokens, 0);
  run.image_input_tokens := coalesce(outcome.image_input_tokens, 0);
  run.fee_requests := coalesce(outcome.fee_requests, 0);
  run.served_tier := outcome.served_tier;
  run.marks := coalesce(outcome.marks, '{}');
  run.billing_name := outcome.billing_name;
  run.billing_account := outcome.billing_account;
  run.cost_usd := cost_usd;
  run.billed_credits := billed_credits;
  run.unmetered_credits := case
    -- The sweeper closed the run without known usage, so its reservation is shown but not charged.
    when idle_since is not null and outcome.usage_source = 'unavailable' then ai.usd_to_credits(run.reserved_usd, run.markup)
    when run.exempt then credits
    else 0
  end;
  run.first_byte_ms := coalesce(outcome.first_byte_ms, run.first_byte_ms);
  run.latency_ms := outcome.latency_ms;
  run.steps := outcome.steps;
  run.attempts := outcome.attempts;
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

-- Adds the cost of closed runs to their budgets and releases their reservations. The caller must have locked the
-- budgets.
create or replace function ai.settle_budgets(closed ai.closed_run[]) returns void
  language plpgsql volatile security invoker
as $$
begin
  update ai.budgets b
  set
    -- A budget that was deleted and set again holds no reservation of earlier runs.
    reserved_usd = greatest(b.reserved_usd - due.released, 0),
    spent_usd = b.spent_usd + due.spent
  from (
    select
      x.scope, x.subject_id, x.workspace_id, sum(c.usd_released) as released,
      -- A run counts in the month in which it began.
      coalesce(sum(c.cost_due_usd) filter (where (c.run).created_at >= x.period_start::timestamp at time zone 'UTC'), 0) as spent
    from unnest(closed) c
    cross join unnest((c.run).budget_scopes) as t (scope)
    join ai.budgets x
      on x.scope = t.scope
      and x.workspace_id = (c.run).workspace_id
      and x.subject_id = ai.budget_subject(
        t.scope, (c.run).workspace_id, (c.run).key_lineage_id, (c.run).app_id, (c.run).actor_id, (c.run).entity_id
      )
    group by x.scope, x.subject_id, x.workspace_id
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;

-- Charges closed runs to their accounts, releases their reservations and writes one ledger entry per charged run. The
-- caller must have locked the accounts.
create or replace function ai.settle_credits(closed ai.closed_run[]) returns void
  language plpgsql volatile security invoker
as $$
begin
  with due as (
    select (c.run).account_id as id, sum(c.credits_due) as credits, sum(c.credits_released) as released
    from unnest(closed) as c
    group by 1
  ), paid as (
    update ai.credit_accounts a
    set balance = a.balance - due.credits, reserved = a.reserved - due.released
    from due
    where a.id = due.id
    returning a.id, a.balance
  )
  insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
  select
    (c.run).account_id, c.kind, -c.credits_due,
    p.balance + coalesce(sum(c.credits_due) over later, 0),
    (c.run).created_at, (c.run).id
  from unnest(closed) as c
  left join paid p on p.id = (c.run).account_id
  where c.credits_due <> 0
  window later as (
    partition by (c.run).account_id order by (c.run).id desc rows between unbounded preceding and 1 preceding
  )
  order by (c.run).account_id, (c.run).id;
end
$$;

-- Copies the failed attempts of closed runs to ai.failed_attempts.
create or replace function ai.record_failed_attempts(closed ai.closed_run[]) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.failed_attempts (
    run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
    upstream_request_id
  )
  select
    (c.run).created_at, (c.run).id, (c.run).request_id, (c.run).workspace_id, (c.run).model_id, a.provider, a.model, a.route,
    a.status, a.failure, a.upstream_request_id
  from unnest(closed) as c
  cross join lateral jsonb_to_recordset((c.run).attempts) as a (
    route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
  )
  -- A skipped route was not called, and a client that disconnected is not a failure of the provider.
  where a.failure not in ('skipped', 'cancelled')
$$;

-- Marks the idempotency keys of closed runs as finished, or frees a key if no provider was called for its run. Locks
-- the keys after all other rows, in the same order as ai.admit_call.
create or replace function ai.complete_idempotency_keys(closed ai.closed_run[]) returns void
  language plpgsql volatile security invoker
as $$
begin
  perform from ai.idempotency_keys i
  where i.run_id in (select (c.run).id from unnest(closed) as c where (c.run).idempotency_key is not null)
  order by i.run_id
  for update;
  delete from ai.idempotency_keys i using unnest(closed) as c where c.key_unused and i.run_id = (c.run).id;
  update ai.idempotency_keys i set state = 'finished' from unnest(closed) as c where i.run_id = (c.run).id;
end
$$;
