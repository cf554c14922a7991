-- Admits or refuses calls, reserves their maximum cost and opens their runs. Refusals are returned and never raised.

-- Admits or refuses a call. Reserves the maximum cost of an admitted call and opens its run. Returns the run with its
-- routes and prices, or {refused: code, …}, as JSON text.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential, never from an id in the
-- call.
create or replace function ai.begin_run(call jsonb) returns text
  language plpgsql volatile security definer set search_path = ''
  -- Every query finds its rows by key. These settings force index lookups in a generic plan, so that wrong statistics
  -- can't lead to a slow plan.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_material = off set jit = off
  set lock_timeout = '1s'
as $$
begin
  return (ai.begin_calls(jsonb_build_array(call), interval '1.2 seconds'))[1];
end
$$;

-- Admits or refuses several calls independently. Takes {"calls": [call], "wait_ms": number, "lock_wait_ms": number}.
-- wait_ms is how long the gateway waits for the result. lock_wait_ms limits the wait for each lock; without it, the
-- limit of the role applies. Returns a JSON array with the result of begin_run for each call, in the order of the calls.
-- Atomic: if the function raises an error, it reserves nothing and opens no run.
-- Gateways of 0.1.0 pass only the array of calls, and wait for 1.5 s.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.begin_runs(calls jsonb) returns text
  language plpgsql volatile security definer set search_path = '' set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off set jit = off
as $$
declare
  asked jsonb := case jsonb_typeof(calls)
    when 'array' then jsonb_build_object('calls', calls, 'wait_ms', 1200, 'lock_wait_ms', 100)
    else calls
  end;
  lock_limit text := set_config(
    'lock_timeout', coalesce(asked ->> 'lock_wait_ms', current_setting('lock_timeout')), true
  );
begin
  if jsonb_array_length(asked -> 'calls') > 1 and jsonb_path_exists(asked, '$.calls[*].idempotency_key') then
    raise exception 'a call with an idempotency key may wait for another, and is sent alone' using errcode = 'feature_not_supported';
  end if;
  return '[' || array_to_string(
    ai.begin_calls(asked -> 'calls', (asked ->> 'wait_ms')::integer * interval '1 millisecond'), ','
  ) || ']';
end
$$;

-- Admits calls with ai.admit_calls. Raises query_canceled if that took so long that the gateway no longer waits for the
-- result.
create or replace function ai.begin_calls(calls jsonb, wait_limit interval) returns text[]
  language plpgsql volatile security invoker
as $$
declare
  -- Gets the transaction's id before any lock is waited for. The sweep knows by this id whether a run that began earlier
  -- may still appear, and allows 5 seconds between the start of the transaction and its id.
  transaction_id xid8 := pg_current_xact_id();
  answers text[];
begin
  if clock_timestamp() - now() > interval '4 seconds' then
    raise exception 'too late for a transaction to begin a run' using errcode = 'query_canceled';
  end if;
  -- Locks each run until the transaction ends. ai.release_orphaned_runs tries the same locks to see which runs may
  -- still begin.
  perform pg_advisory_xact_lock(s.key)
  from (select hashtextextended(c ->> 'run_id_suffix', 1) as key from jsonb_array_elements(calls) as c order by key) as s;
  answers := ai.admit_calls(calls);
  if clock_timestamp() - statement_timestamp() > wait_limit then
    raise exception 'too late for a run to begin' using errcode = 'query_canceled';
  end if;
  return answers;
end
$$;

-- Finds the caller and the maximum cost of each call, locks the rows that all the calls need, and then admits the calls
-- one after another.
create or replace function ai.admit_calls(calls jsonb) returns text[]
  language plpgsql volatile security invoker
as $$
declare
  previous ai.priced_call;
  priced ai.priced_call[] := '{}';
  answers text[] := '{}';
begin
  for place in 1..jsonb_array_length(calls) loop
    previous := ai.price_call(jsonb_populate_record(null::ai.run_request, calls -> place - 1), previous);
    priced[place] := previous;
  end loop;
  priced := ai.open_missing_accounts(priced);
  perform ai.lock_rows(ai.collect_locks(priced));
  for place in 1..cardinality(priced) loop
    answers[place] := ai.admit_call(priced[place]);
  end loop;
  return answers;
end
$$;

-- Returns a call with its caller, label, model, maximum cost and paying account, or with the reason why it is refused.
-- Locks nothing.
create or replace function ai.price_call(request ai.run_request, previous ai.priced_call) returns ai.priced_call
  language plpgsql stable security invoker
as $$
declare
  caller ai.caller := ai.find_caller(request);
  offer ai.route_offer;
  refusal jsonb := ai.call_refusal(caller, request.kind);
  account uuid;
begin
  if refusal is null and caller.plan_id is null then
    refusal := ai.refusal('service_unavailable');
  end if;
  if refusal is null and request.entity_id <> caller.entity_id then
    refusal := ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}');
  end if;
  request.entity_id := coalesce(caller.entity_id, request.entity_id, request.session_label);
  if request.is_free then
    caller.budgets := null;
  end if;
  if refusal is null then
    offer := ai.find_offer(request, caller, previous);
    refusal := offer.refusal;
  end if;
  if refusal is null then
    select a.id into account
    from ai.credit_accounts a
    where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller);
  end if;
  return row(refusal, request, caller, offer, account)::ai.priced_call;
end
$$;

-- Opens a credit account, with the plan's initial credits, for each payer without an account.
create or replace function ai.open_missing_accounts(calls ai.priced_call[]) returns ai.priced_call[]
  language plpgsql volatile security invoker
as $$
declare
  call ai.priced_call;
  owners uuid[] := '{}';
  owner_id uuid;
begin
  foreach call in array calls loop
    if call.refusal is null and call.account_id is null then
      owners := array_remove(owners || ai.payer_id(call.caller), null);
    end if;
  end loop;
  if owners = '{}' then
    return calls;
  end if;
  -- Opens credit accounts in the order of their owners' ids, so that two batches can't deadlock.
  foreach owner_id in array array(select distinct o from unnest(owners) as o order by o) loop
    for place in 1..cardinality(calls) loop
      call := calls[place];
      continue when call.refusal is not null or ai.payer_id(call.caller) is distinct from owner_id;
      call.account_id := ai.open_credit_account((call.caller).payer, owner_id, (call.caller).initial_credits);
      calls[place] := call;
    end loop;
  end loop;
  return calls;
end
$$;

-- Admits or refuses one call. The caller of this function has locked the rows that the call needs. Reserves the call's
-- maximum cost, opens its run and returns the result of ai.begin_run. Not granted to any role, because it trusts its
-- caller.
create or replace function ai.admit_call(priced ai.priced_call) returns text
  language plpgsql volatile security invoker
as $$
declare
  request ai.run_request := priced.request;
  caller ai.caller := priced.caller;
  offer ai.route_offer := priced.offer;
  principal uuid := ai.principal_id(caller);
  exempt boolean := ai.payer_id(caller) is null;
  maximum_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  earlier ai.idempotency_keys;
  run_id uuid;
begin
  if priced.refusal is not null then
    return priced.refusal;
  end if;
  if not exempt then
    maximum_credits := ai.usd_to_credits(offer.maximum_cost_usd, caller.markup);
  end if;
  if ai.is_key_use_due(caller) then
    perform ai.record_key_use(caller);
  end if;

  if request.idempotency_key is not null then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = request.idempotency_key
      and i.expires_at > now();
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    case when earlier.key is null then offer.reserved_tokens else 0 end
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  if earlier.key is not null then
    return ai.idempotent_refusal(earlier, decode(request.fingerprint, 'hex'));
  end if;
  held := ai.reserve_limits(
    caller, request.entity_id, offer.reserved_tokens, 1, offer.maximum_cost_usd,
    case when request.is_free then null else priced.account_id end, maximum_credits
  );
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, offer.reserved_tokens);
    return ai.reservation_refusal(held, caller);
  end if;

  run_id := case
    when request.run_id_suffix is null then ai.run_id(now())
    else ai.new_run_id(request.run_id_suffix)
  end;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes,
    reserved_tokens, tokens_reserved_at
  )
  values (
    run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, request.feature, request.request_id,
    request.entity_id, request.idempotency_key, coalesce(request.streamed, false), offer.model_id, offer.routes,
    caller.markup, exempt, priced.account_id, offer.maximum_cost_usd, maximum_credits, held.budget_scopes,
    offer.reserved_tokens,
    case when offer.reserved_tokens is not null then greatest(key_window.started_at, (held.workspace_window).started_at) end
  );
  if request.idempotency_key is not null then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (caller.workspace_id, principal, request.idempotency_key, decode(request.fingerprint, 'hex'), now(), run_id)
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;

  -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,"credits_per_usd":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s}',
    run_id,
    to_json(now()),
    caller.workspace_id,
    to_json(offer.model_id),
    coalesce(to_json(offer.context_window), 'null'),
    coalesce(to_json(offer.voice), 'null'),
    offer.routes,
    ai.credits_per_usd(caller.markup),
    exempt::text,
    offer.maximum_cost_usd,
    maximum_credits,
    coalesce(offer.reserved_tokens::text, 'null'),
    coalesce(offer.output_limit::text, 'null'),
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.call_limits(caller, key_window, held.workspace_window),
    coalesce(to_json(caller.key_name), 'null'),
    coalesce(caller.is_strict, false)::text
  );
end
$$;

-- Returns the refusal of a call whose idempotency key was already used. The refused call never reaches a provider and
-- costs nothing. The refusal includes the first call's answer if it was stored.
create or replace function ai.idempotent_refusal(earlier ai.idempotency_keys, fingerprint bytea) returns jsonb
  language sql stable security invoker
as $$
  select case
    when earlier.fingerprint <> fingerprint then ai.refusal('idempotency_key_reused')
    when earlier.state = 'running' then ai.refusal('request_in_progress')
    else ai.refusal('idempotency_key_used', (
      select jsonb_build_object(
        'run_id', r.id,
        'usage_source', r.usage_source,
        'usage', jsonb_build_object('input_tokens', r.input_tokens, 'output_tokens', r.output_tokens)
      ) || case when c.answer is null then '{}' else jsonb_build_object('answer', c.answer) end
      from ai.runs r
      left join ai.run_content c on c.run_created_at = r.created_at and c.run_id = r.id
      where r.created_at = earlier.run_created_at and r.id = earlier.run_id
    ))
  end
$$;
