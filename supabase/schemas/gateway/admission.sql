-- Admission of a call, in one statement. Refusals are returned, never raised.
-- Lock order everywhere: idempotency key, key, app, workspace, balance.

-- Definer: gateway holds no grant on any table. It trusts no id in the call: who calls comes from the credential.
create or replace function ai.begin_run(call jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- The plans do not depend on the call, and making them would cost more than running them.
  set plan_cache_mode = force_generic_plan
  -- Nor on how few rows there were when they were made: rows are found by key here.
  set enable_seqscan = off
  -- A plan that has to read a table after all looks so expensive that JIT would compile it, at every call.
  set jit = off
  -- For each lock; exceeds_caller_timeout looks at all of them together.
  set lock_timeout = '1s'
as $$
declare
  noted boolean;
  answer text;
begin
  -- For release_orphaned_runs, until it is known whether a run begins. Before any other lock; nobody waits for it. Assigned,
  -- since what is performed is a statement.
  noted := pg_advisory_xact_lock(hashtextextended(call ->> 'run_id_suffix', 1)) is not null;
  answer := ai.admit_call(call, ai.find_caller(call));
  if ai.exceeds_caller_timeout() then
    raise exception 'too late for a run to begin' using errcode = 'query_canceled';
  end if;
  return answer;
end
$$;
comment on function ai.begin_run(jsonb) is
  'Decides about a call and, if it may go on, reserves its maximum cost and opens its run. Returns the run with its '
  'routes and prices, or {refused: code, …}, as the text of JSON.';

create or replace function ai.admit_call(call jsonb, caller ai.caller) returns text
  language plpgsql
  volatile
  security invoker
as $$
declare
  principal uuid;
  exempt boolean;
  this_minute timestamptz := date_trunc('minute', now());
  input_tokens bigint;
  output_tokens bigint;
  reserved_tokens bigint;
  offer ai.route_offer;
  maximum_credits numeric(24, 8) := 0;
  has_idempotency_key boolean := call ->> 'idempotency_key' is not null;
  of_key ai.rate_window_use;
  of_workspace ai.rate_window_use;
  earlier ai.idempotency_keys;
  held text[] := '{}';
  account uuid;
  new_run_id uuid;
begin
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  principal := coalesce(caller.lineage_id, caller.app_id, caller.actor_id);
  -- Whoever calls as a registered app pays no credits: its tokens, and keys that are bound to it.
  exempt := caller.app_id is not null;
  -- Within each other, here and below: what is not come to is not made ready.
  if caller.source = 'app_token' then
    if call ->> 'kind' = 'speech' and not 'tts:use' = any (caller.scopes) then
      return ai.refusal('insufficient_scope');
    end if;
  end if;
  if caller.plan_id is null then
    return ai.refusal('service_unavailable');
  end if;
  if caller.payer = 'member' and not caller.actor_is_member then
    return ai.refusal('insufficient_scope');
  end if;

  input_tokens := ai.reserved_input_tokens(call);
  output_tokens := (call ->> 'output_limit')::bigint * coalesce((call ->> 'choices')::bigint, 1);
  offer := ai.offer_for(call, caller, input_tokens, output_tokens);
  if offer.refusal is not null then
    return offer.refusal;
  end if;
  reserved_tokens := input_tokens + coalesce(offer.output_tokens, output_tokens);
  if not exempt then
    maximum_credits := ai.usd_to_credits(offer.maximum_cost_usd, caller.markup);
  end if;

  if has_idempotency_key then
    perform pg_advisory_xact_lock(
      hashtextextended(concat_ws(' ', caller.workspace_id, principal, call ->> 'idempotency_key'), 0)
    );
    -- The row of the idempotency key will refer to the workspace, and an account's deletion locks that before its keys.
    perform from public.workspaces s where s.id = caller.workspace_id for key share;
  end if;

  if caller.last_used_at is null or caller.last_used_at < now() - interval '1 minute' then
    update ai.keys k set last_used_at = now()
    where k.id = caller.key_id and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute');
  end if;
  -- Nearly always a minute is under way and has room, which is asked in place, as is an account with credits below: to
  -- call a function that does takes a fifth as long again.
  if caller.key_requests_per_minute is not null or caller.key_tokens_per_minute is not null then
    update ai.rate_windows w
    set requests = w.requests + 1, tokens = w.tokens + reserved_tokens
    where w.scope = 'key'
      and w.subject_id = principal
      and w.window_start >= this_minute
      and w.requests < coalesce(caller.key_requests_per_minute, 2147483647)
      and w.tokens <= coalesce(caller.key_tokens_per_minute, 9223372036854775807) - reserved_tokens
    returning true, w.window_start, w.requests, w.tokens into of_key;
    if not found then
      of_key := ai.consume_rate_limit(
        'key', principal, caller.key_requests_per_minute, caller.key_tokens_per_minute, reserved_tokens
      );
      if not of_key.admitted then
        return ai.release_and_refuse('rate_limit_exceeded', caller, of_key, null, held, null);
      end if;
    end if;
  end if;

  if has_idempotency_key then
    select i.* into earlier
    from ai.idempotency_keys i
    where i.workspace_id = caller.workspace_id
      and i.principal_id = principal
      and i.key = call ->> 'idempotency_key'
      and i.expires_at > now();
    if found then
      return ai.idempotent_refusal(earlier, decode(call ->> 'fingerprint', 'hex'));
    end if;
  end if;

  -- key, app, workspace: the order of the locks.
  if caller.budgets is not null then
    if 'key' = any (caller.budgets) then
      if not ai.reserve_budget('key', caller.lineage_id, caller.workspace_id, offer.maximum_cost_usd) then
        return ai.release_and_refuse('budget_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
      held := held || 'key'::text;
    end if;
    if 'app' = any (caller.budgets) then
      if not ai.reserve_budget('app', caller.app_id, caller.workspace_id, offer.maximum_cost_usd) then
        return ai.release_and_refuse('budget_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
      held := held || 'app'::text;
    end if;
  end if;
  if caller.workspace_requests_per_minute is not null or caller.workspace_tokens_per_minute is not null then
    update ai.rate_windows w
    set requests = w.requests + 1, tokens = w.tokens + reserved_tokens
    where w.scope = 'workspace'
      and w.subject_id = caller.workspace_id
      and w.window_start >= this_minute
      and w.requests < coalesce(caller.workspace_requests_per_minute, 2147483647)
      and w.tokens <= coalesce(caller.workspace_tokens_per_minute, 9223372036854775807) - reserved_tokens
    returning true, w.window_start, w.requests, w.tokens into of_workspace;
    if not found then
      of_workspace := ai.consume_rate_limit(
        'workspace', caller.workspace_id, caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
        reserved_tokens
      );
      if not of_workspace.admitted then
        return ai.release_and_refuse('rate_limit_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
    end if;
  end if;
  if caller.budgets is not null then
    if 'workspace' = any (caller.budgets) then
      if not ai.reserve_budget('workspace', caller.workspace_id, caller.workspace_id, offer.maximum_cost_usd) then
        return ai.release_and_refuse('budget_exceeded', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
      held := held || 'workspace'::text;
    end if;
  end if;
  if not exempt then
    if caller.payer = 'workspace' then
      update ai.credit_accounts a set reserved = a.reserved + maximum_credits
      where a.workspace_id = caller.workspace_id and a.balance - a.reserved >= maximum_credits
      returning a.id into account;
    end if;
    if account is null then
      account := ai.reserve_credits(
        caller.payer, case caller.payer when 'member' then caller.actor_id else caller.workspace_id end,
        caller.initial_credits, maximum_credits
      );
      if account is null then
        return ai.release_and_refuse('insufficient_credits', caller, of_key, of_workspace, held, offer.maximum_cost_usd);
      end if;
    end if;
  end if;

  if call ? 'run_id_suffix' then
    new_run_id := ai.new_run_id(call ->> 'run_id_suffix');
  else
    new_run_id := ai.run_id(now());
  end if;
  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes
  )
  values (
    new_run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, call ->> 'feature', call ->> 'request_id',
    call ->> 'entity_id', call ->> 'idempotency_key', coalesce((call ->> 'streamed')::boolean, false), offer.model_id,
    offer.routes, caller.markup, exempt, account, offer.maximum_cost_usd, maximum_credits, held
  );
  if has_idempotency_key then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (
      caller.workspace_id, principal, call ->> 'idempotency_key', decode(call ->> 'fingerprint', 'hex'), now(), new_run_id
    )
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = now(), run_id = new_run_id,
      expires_at = excluded.expires_at;
  end if;

  -- As ai.open_batch_runs answers. Text, put together: json_build_object looks up anew how each value and name is told,
  -- and what is said to be JSON is read once more.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"voice":%s,"routes":%s,"markup":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","cost_visible":%s,"capture":%s,"limits":%s}',
    new_run_id,
    to_json(now()),
    caller.workspace_id,
    to_json(offer.model_id),
    coalesce(to_json(offer.voice), 'null'),
    offer.routes,
    caller.markup,
    exempt::text,
    offer.maximum_cost_usd,
    maximum_credits,
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.rate_limit_headers(coalesce(of_key.started_at, of_workspace.started_at), array[
      caller.key_requests_per_minute, of_key.requests,
      caller.key_tokens_per_minute, of_key.tokens,
      caller.workspace_requests_per_minute, of_workspace.requests,
      caller.workspace_tokens_per_minute, of_workspace.tokens
    ])
  );
end
$$;
comment on function ai.admit_call(jsonb, ai.caller) is
  'Decides about a call of a caller who was just found, and answers as ai.begin_run does. For definers; '
  'trusts the caller: granted to nobody. Made of statements on one table by its key: what starts one of many joins '
  'would cost more than what it does.';

create or replace function ai.release_and_refuse(
  refused text, caller ai.caller, of_key ai.rate_window_use, of_workspace ai.rate_window_use, held text[], amount_usd numeric
) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
begin
  if held <> '{}' then
    perform ai.release_budgets(held, caller.lineage_id, caller.app_id, caller.workspace_id, amount_usd);
  end if;
  return ai.refusal(refused, case when refused = 'rate_limit_exceeded' then jsonb_build_object(
    'limits', ai.rate_limit_headers(coalesce(of_key.started_at, of_workspace.started_at), array[
      caller.key_requests_per_minute, of_key.requests,
      caller.key_tokens_per_minute, of_key.tokens,
      caller.workspace_requests_per_minute, of_workspace.requests,
      caller.workspace_tokens_per_minute, of_workspace.tokens
    ])::json,
    'at', now()
  ) end);
end
$$;
comment on function ai.release_and_refuse(text, ai.caller, ai.rate_window_use, ai.rate_window_use, text[], numeric) is
  'Refuses a call after it was counted, and gives back what budgets hold for it.';

create or replace function ai.exceeds_caller_timeout() returns boolean
  language sql
  volatile
  security invoker
as $$
  select clock_timestamp() - statement_timestamp() > interval '1.2 seconds'
$$;
comment on function ai.exceeds_caller_timeout() is
  'Whether a statement has waited, for whatever and however often, until its caller is about to be turned away (the '
  'gateway waits for 1.5 s).';
