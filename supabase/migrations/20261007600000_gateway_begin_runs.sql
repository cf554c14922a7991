-- Calls that arrive while others are being decided about are decided about together: one flight, one commit and one
-- wait for the disk for all of them. Each is admitted or refused for itself, as by ai.begin_run.

create function ai.lock_minutes(window_scope text, subjects uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  there bigint;
begin
  select count(*) into there from ai.rate_windows w where w.scope = window_scope and w.subject_id = any (subjects);
  if there < cardinality(subjects) then
    insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
    select distinct window_scope, s, date_trunc('minute', now()), 0, 0 from unnest(subjects) as s order by s
    on conflict do nothing;
  end if;
  -- After it: what others made in the meantime is there now, and locked by nobody.
  perform from ai.rate_windows w
  where w.scope = window_scope and w.subject_id = any (subjects)
  order by w.subject_id
  for no key update;
end
$$;
comment on function ai.lock_minutes(text, uuid[]) is
  'Locks the minutes of some subjects in order, and makes those that are not there before it holds any.';
revoke execute on function ai.lock_minutes(text, uuid[]) from public, anon, authenticated;

create function ai.lock_budgets(budget_scope text, subjects uuid[], workspaces uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.budgets b
  where b.scope = budget_scope and b.subject_id = any (subjects) and b.workspace_id = any (workspaces)
  order by b.subject_id, b.workspace_id
  for no key update;
end
$$;
comment on function ai.lock_budgets(text, uuid[], uuid[]) is 'Locks budgets of one scope in order.';
revoke execute on function ai.lock_budgets(text, uuid[], uuid[]) from public, anon, authenticated;

create function ai.lock_rows(locks ai.lock_list) returns integer
  language plpgsql
  volatile
  security invoker
as $$
declare
  minutes uuid[] := locks.key_minutes || locks.workspace_minutes;
  there bigint := 0;
  accounts integer;
begin
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.budget_workspaces is null and minutes is not null then
    select count(*) into there
    from ai.rate_windows w
    where w.scope in ('key', 'workspace') and w.subject_id = any (minutes);
  end if;
  if there = cardinality(minutes) then
    -- Nearly always: all of them are there, and nothing is to be locked between those of keys and those of workspaces.
    perform from ai.rate_windows w
    where w.scope in ('key', 'workspace') and w.subject_id = any (minutes)
    order by w.scope, w.subject_id
    for no key update;
  else
    if locks.key_minutes is not null then
      perform ai.lock_minutes('key', locks.key_minutes);
    end if;
    if locks.key_budgets is not null then
      perform ai.lock_budgets('key', locks.key_budgets, locks.budget_workspaces);
    end if;
    if locks.app_budgets is not null then
      perform ai.lock_budgets('app', locks.app_budgets, locks.budget_workspaces);
    end if;
    if locks.workspace_minutes is not null then
      perform ai.lock_minutes('workspace', locks.workspace_minutes);
    end if;
    if locks.workspace_budgets is not null then
      perform ai.lock_budgets('workspace', locks.workspace_budgets, locks.budget_workspaces);
    end if;
  end if;
  perform from ai.credit_accounts a
  where coalesce(a.workspace_id, a.user_id) = any (locks.payers)
  order by a.id
  for no key update;
  get diagnostics accounts = row_count;
  return accounts;
end
$$;
comment on function ai.lock_rows(ai.lock_list) is
  'Takes the locks of several calls before the first of them is decided about, in the order that begin_run and '
  'settle_runs keep, so that batches, single calls and settlements cannot lock each other out. Returns how many balances '
  'are there.';
revoke execute on function ai.lock_rows(ai.lock_list) from public, anon, authenticated;

create function ai.add_locks(locks ai.lock_list, callers ai.caller[]) returns ai.lock_list
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
  payer uuid;
begin
  foreach caller in array callers loop
    continue when caller.source is null or caller.refused is not null or caller.plan_id is null;
    if caller.key_id is not null and (caller.last_used_at is null or caller.last_used_at < now() - interval '1 minute') then
      locks.keys := array_append(locks.keys, caller.key_id);
    end if;
    -- Minutes and payers each once, as they are counted.
    if num_nonnulls(caller.key_requests_per_minute, caller.key_tokens_per_minute) > 0
      and array_position(locks.key_minutes, caller.lineage_id) is null
    then
      locks.key_minutes := array_append(locks.key_minutes, caller.lineage_id);
    end if;
    if num_nonnulls(caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute) > 0
      and array_position(locks.workspace_minutes, caller.workspace_id) is null
    then
      locks.workspace_minutes := array_append(locks.workspace_minutes, caller.workspace_id);
    end if;
    if caller.budgets <> '{}' then
      if 'key' = any (caller.budgets) then
        locks.key_budgets := array_append(locks.key_budgets, caller.lineage_id);
      end if;
      if 'app' = any (caller.budgets) then
        locks.app_budgets := array_append(locks.app_budgets, caller.app_id);
      end if;
      if 'workspace' = any (caller.budgets) then
        locks.workspace_budgets := array_append(locks.workspace_budgets, caller.workspace_id);
      end if;
      locks.budget_workspaces := array_append(locks.budget_workspaces, caller.workspace_id);
    end if;
    if caller.app_id is null and (caller.payer = 'workspace' or caller.actor_is_member) then
      payer := case caller.payer when 'member' then caller.actor_id else caller.workspace_id end;
      if array_position(locks.payers, payer) is null then
        locks.payers := array_append(locks.payers, payer);
      end if;
    end if;
  end loop;
  return locks;
end
$$;
comment on function ai.add_locks(ai.lock_list, ai.caller[]) is 'Adds to a list of locks what calls of these callers need.';
revoke execute on function ai.add_locks(ai.lock_list, ai.caller[]) from public, anon, authenticated;

create function ai.open_payers(callers ai.caller[]) returns void
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
comment on function ai.open_payers(ai.caller[]) is 'Opens the accounts of callers that have none, in order, after those are locked that are there.';
revoke execute on function ai.open_payers(ai.caller[]) from public, anon, authenticated;

create function ai.note_use(keys uuid[]) returns void
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
comment on function ai.note_use(uuid[]) is 'Notes, to a minute, that keys are in use. They are locked.';
revoke execute on function ai.note_use(uuid[]) from public, anon, authenticated;

create function ai.admit_together(calls jsonb) returns json
  language plpgsql
  volatile
  security invoker
as $$
declare
  plain ai.plain_calls;
  locks ai.lock_list;
  admitted record;
  answers json[] := array_fill(null::json, array[jsonb_array_length(calls)]);
  callers ai.caller[] := '{}';
begin
  -- To start statements of many joins takes longer than to ask about two calls one by one.
  if cardinality(answers) > 2 then
    plain := ai.find_plain_calls(calls);
    locks := plain.locks;
  end if;
  if cardinality(plain.places) is distinct from cardinality(answers) then
    for place in 1..cardinality(answers) loop
      continue when place = any (plain.places);
      callers[place] := ai.credential_of(calls -> place - 1);
    end loop;
    locks := ai.add_locks(locks, callers);
  end if;
  if ai.lock_rows(locks) < cardinality(locks.payers) and callers <> '{}' then
    perform ai.open_payers(callers);
  end if;
  if plain.places is not null then
    perform ai.note_use((plain.locks).keys);
    admitted := ai.admit_plain_calls(plain.calls, (plain.locks).budget_workspaces is not null);
    for at in 1..coalesce(cardinality(admitted.places), 0) loop
      answers[admitted.places[at]] := admitted.answers[at];
    end loop;
  end if;
  -- Each for itself: what was not plain, and what there is no room for.
  for place in 1..cardinality(answers) loop
    if answers[place] is null then
      answers[place] := ai.admit(
        calls -> place - 1, coalesce(callers[place], ai.credential_of(calls -> place - 1))
      );
    end if;
  end loop;
  return array_to_json(answers);
end
$$;
comment on function ai.admit_together(jsonb) is 'Decides about calls as ai.begin_runs says, waiting for locks as long as it takes.';
revoke execute on function ai.admit_together(jsonb) from public, anon, authenticated;

-- Definer: as begin_run.
create function ai.begin_runs(calls jsonb) returns json
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
  answers json;
  in_time boolean;
begin
  if jsonb_path_exists(calls, '$[*].idempotency_key') then
    raise exception 'a call with an idempotency key waits for its like, and is asked about alone' using errcode = 'feature_not_supported';
  end if;
  perform pg_advisory_xact_lock(hashtextextended(c.run_tail, 1)) from jsonb_to_recordset(calls) as c (run_tail text);
  answers := ai.admit_together(calls);
  in_time := ai.begin_in_time();
  return answers;
end
$$;
comment on function ai.begin_runs(jsonb) is
  'Decides about several calls at once, each for itself, and returns begin_run''s answers in their order. All or none: '
  'where it raises, nothing was held and nothing begun.';
revoke execute on function ai.begin_runs(jsonb) from public, anon, authenticated;
grant execute on function ai.begin_runs(jsonb) to gateway;

-- Definer: as begin_run. A run is named by the end of its id, which the gateway chose.
create function ai.give_back_runs(tails jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  for tail in select t.value from jsonb_array_elements_text(tails) as t order by t.value loop
    if pg_try_advisory_xact_lock(hashtextextended(tail, 1)) then
      decided := array_append(decided, tail);
    else
      under_way := array_append(under_way, tail);
    end if;
  end loop;
  -- Nobody has touched them since they began.
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
    and r.touched_at > now() - interval '2 minutes'
    and r.created_at > now() - interval '2 minutes'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.end_bookable_runs(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;
comment on function ai.give_back_runs(jsonb) is
  'For begins whose answer never came: whoever asked was turned away and no provider was called, so that a run that did '
  'begin ends at nothing, and its idempotency key is free. Returns those about which nothing is decided yet.';
revoke execute on function ai.give_back_runs(jsonb) from public, anon, authenticated;
grant execute on function ai.give_back_runs(jsonb) to gateway;
