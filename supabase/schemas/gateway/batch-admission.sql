-- Admission of calls that arrive together: one statement and one commit for all. Each is admitted or refused for itself.

-- Definer: as begin_run.
create or replace function ai.begin_runs(calls jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
  set plan_cache_mode = force_generic_plan
  -- Rows are found by key here, however few there were when the plan was made.
  set enable_seqscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  -- Nor the rows of all callers kept, and gone through once for each call.
  set enable_material = off
  set jit = off
  -- Whoever holds a lock longer holds up its own calls alone: the others are asked about again, each by itself.
  set lock_timeout = '100ms'
as $$
declare
  answers text;
begin
  if jsonb_path_exists(calls, '$[*].idempotency_key') then
    raise exception 'a call with an idempotency key waits for its like, and is asked about alone' using errcode = 'feature_not_supported';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(c.run_id_suffix, 1)) from jsonb_to_recordset(calls) as c (run_id_suffix text);
  answers := ai.admit_batch(calls);
  if ai.exceeds_caller_timeout() then
    raise exception 'too late for runs to begin' using errcode = 'query_canceled';
  end if;
  return answers;
end
$$;
comment on function ai.begin_runs(jsonb) is
  'Decides about several calls at once, each for itself, and returns begin_run''s answers in their order, as a JSON array. '
  'All or none: where it raises, nothing was held and nothing begun.';

create or replace function ai.admit_batch(calls jsonb) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  plain ai.batch_calls;
  locks ai.lock_list;
  locked ai.locked_rows;
  admitted record;
  answers text[] := array_fill(null::text, array[jsonb_array_length(calls)]);
  callers ai.caller[] := '{}';
begin
  -- To start statements of many joins takes longer than to ask about two calls one by one.
  if cardinality(answers) > 2 then
    plain := ai.find_batch_calls(calls);
    locks := plain.locks;
  end if;
  if cardinality(plain.places) is distinct from cardinality(answers) then
    for place in 1..cardinality(answers) loop
      continue when place = any (plain.places);
      callers[place] := ai.find_caller(calls -> place - 1);
    end loop;
    locks := ai.collect_locks(locks, callers);
  end if;
  locked := ai.lock_rows(locks);
  if locked.payers_found < cardinality(locks.payers) then
    perform ai.open_credit_accounts(callers);
  end if;
  if plain.places is not null then
    perform ai.record_keys_use((plain.locks).keys);
    admitted := ai.admit_batch_calls(plain.calls, locked, (plain.locks).budget_workspaces is not null);
    for at in 1..coalesce(cardinality(admitted.places), 0) loop
      answers[admitted.places[at]] := admitted.answers[at];
    end loop;
  end if;
  -- Each for itself: what was not plain, and what there is no room for.
  for place in 1..cardinality(answers) loop
    if answers[place] is null then
      answers[place] := ai.admit_call(
        calls -> place - 1, coalesce(callers[place], ai.find_caller(calls -> place - 1))
      );
    end if;
  end loop;
  return '[' || array_to_string(answers, ',') || ']';
end
$$;
comment on function ai.admit_batch(jsonb) is
  'Decides about calls as ai.begin_runs says, waiting for locks as long as it takes.';

create or replace function ai.open_credit_accounts(callers ai.caller[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  payer record;
begin
  for payer in
    select distinct
      c.payer as kind,
      case c.payer when 'member' then c.actor_id else c.workspace_id end as id,
      c.initial_credits
    from unnest(callers) as c
    where c.source is not null
      and c.refused is null
      and c.app_id is null
      and (c.payer = 'workspace' or c.actor_is_member)
    order by 2
  loop
    perform ai.open_credit_account(payer.kind, payer.id, payer.initial_credits);
  end loop;
end
$$;
comment on function ai.open_credit_accounts(ai.caller[]) is
  'Opens the accounts of callers that have none, in order, after those are locked that are there.';

create or replace function ai.record_keys_use(keys uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  if keys is not null then
    update ai.keys k set last_used_at = now()
    where k.id = any (keys) and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute');
  end if;
end
$$;
comment on function ai.record_keys_use(uuid[]) is 'Notes, to a minute, that keys are in use. They are locked.';

-- Definer: as begin_run. A run is named by the end of its id, which the gateway chose.
create or replace function ai.release_orphaned_runs(lost jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- Runs are found by when they began, however few there were when the plan was made.
  set enable_seqscan = off
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  if jsonb_typeof(lost -> 'tails') is distinct from 'array' or (lost ->> 'asked_ms_ago')::integer is null then
    raise exception 'lost begins are {"tails": [text], "asked_ms_ago": integer}' using errcode = 'invalid_parameter_value';
  end if;
  for tail in select t.value from jsonb_array_elements_text(lost -> 'tails') as t order by t.value loop
    if pg_try_advisory_xact_lock(hashtextextended(tail, 1)) then
      decided := array_append(decided, tail);
    else
      under_way := array_append(under_way, tail);
    end if;
  end loop;
  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 503,
    'error_code', 'service_unavailable',
    'usage_source', 'unavailable',
    'calls', '[]'::jsonb,
    'latency_ms', floor(extract(epoch from clock_timestamp() - r.created_at) * 1000),
    'steps', '[]'::jsonb,
    'key_unused', true
  )) into outcomes
  from ai.runs r
  where r.status = 'running'
    -- And more, for as long as this call may have been on its way.
    and r.created_at > now() - interval '15 seconds' - (lost ->> 'asked_ms_ago')::integer * interval '1 millisecond'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.settle_batch_or_each(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;
comment on function ai.release_orphaned_runs(jsonb) is
  'For begins whose answer never came: whoever asked was turned away and no provider was called, so that a run that did '
  'begin ends at nothing, and its idempotency key is free. {"tails": [text], "asked_ms_ago": integer}, by the one that was '
  'asked first: all runs since then are looked through. Returns those about which nothing is decided yet.';
