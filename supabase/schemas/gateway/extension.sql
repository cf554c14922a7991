-- Extends a run that makes several provider calls. Reserves the maximum cost of each call before it is made.

-- Reserves the maximum cost of another provider call of an open run. Requires that the run's key is not revoked, that
-- its app's registration is still valid, and that rate limits, budgets and balance have room. A key that expires
-- meanwhile does not end a run, which ends with the longest call at the latest. Returns everything that is reserved for
-- the run, or {refused: code, …}.
-- Definer: gateway has no grant on any table. A run is identified by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
  -- A generic plan fits every call.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  most ai.token_use := ai.maximum_use(request);
  run ai.runs;
  caller ai.caller;
  key_is_revoked boolean;
  refused text;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  key_window ai.rate_window_use;
  held ai.reservation;
  used_tokens bigint;
  step_tokens bigint;
  token_limit bigint;
  tokens bigint;
  minute timestamptz;
begin
  select * into run
  from ai.runs r
  where r.created_at = (step ->> 'created_at')::timestamptz and r.id = (step ->> 'id')::uuid and r.status = 'running'
  for update;
  if not found then
    return ai.refusal('service_unavailable');
  end if;

  select
    k.entity_id, k.revoked_at is not null, k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute)
  into
    caller.entity_id, key_is_revoked, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_revoked then
    return ai.refusal('invalid_api_key');
  end if;
  if run.app_id is not null then
    select private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) into refused
    from private.apps a
    where a.id = run.app_id;
    if not found or refused is not null then
      return ai.refusal(coalesce(refused, 'app_not_allowed'));
    end if;
  end if;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  caller.budgets := run.budget_scopes;
  request.entity_id := run.entity_id;

  step_usd := ai.maximum_cost_usd(run.routes, most, request.service_tier);
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  token_limit := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    step_tokens := ai.reserved_tokens(request, most, token_limit);
    if step_tokens > token_limit then
      return ai.token_limit_refusal(caller, most, step_tokens);
    end if;
  end if;

  perform ai.lock_rows(ai.collect_locks(array[row(null, request, caller, null, run.account_id)::ai.priced_call]));
  if token_limit is not null then
    minute := greatest(
      (ai.current_window('key', caller.lineage_id)).started_at, (ai.current_window('workspace', caller.workspace_id)).started_at
    );
    -- In the minute of the last reservation, replaces the reserved tokens with those that the earlier steps used. In a
    -- new minute, reserves only this step's tokens.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    tokens := step_tokens + used_tokens - case when run.tokens_reserved_at = minute then run.reserved_tokens else used_tokens end;
  end if;
  key_window := ai.consume_rate_limit(
    'key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute, tokens, 0
  );
  if not key_window.admitted then
    return ai.limit_refusal('rate_limit_exceeded', caller);
  end if;
  held := ai.reserve_limits(caller, run.entity_id, tokens, 0, step_usd, run.account_id, total_credits - run.reserved_credits);
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, tokens);
    -- Without `frees`: the run itself holds part of the room, and a retry would pay for its earlier steps again.
    return ai.limit_refusal(held.refused, caller);
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + step_tokens, r.reserved_tokens),
    tokens_reserved_at = coalesce(minute, r.tokens_reserved_at),
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;
