-- Extends a run: reserves the maximum cost of each further provider call before it is made, and of further output if its
-- budgets reserve only the expected one.

-- Reserves the maximum cost of another provider call of an open run. Requires that the run's key is not revoked, that
-- its app's registration is still valid, and that rate limits, budgets and balance have room. A key that expires
-- meanwhile does not end a run, which ends with the longest call at the latest. Returns everything that is reserved for
-- the run, or {refused: code, …}.
-- With {"output": {"from", "to", "limit"}}, reserves further output of the current call instead, in tokens, in the
-- budgets that reserved only the expected output. from is the output that is reserved already.
-- Definer: gateway has no grant on any table. A run is identified by the id that begin_runs returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
  -- A generic plan fits every call.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  run ai.runs;
  caller ai.caller;
  claim ai.claim;
  key_is_revoked boolean;
  step_usd numeric(24, 12);
  total_credits numeric(24, 8) := 0;
  used_tokens bigint;
  input_tokens bigint;
  token_limit bigint;
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
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
    k.name, p.id, p.payer, coalesce(w.provider_cost_visible, true), w.model_limits
  into
    caller.entity_id, key_is_revoked, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.key_name, caller.plan_id, caller.payer, caller.cost_visible, caller.model_limits
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_revoked and not step ? 'output' then
    return ai.refusal('invalid_api_key');
  end if;
  caller.source := run.credential_source;
  caller.markup := run.markup;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
  claim.model_id := run.model_id;
  claim.model_requests_per_minute := (caller.model_limits -> run.model_id ->> 'requests')::integer;
  claim.model_tokens_per_minute := (caller.model_limits -> run.model_id ->> 'tokens')::bigint;
  if step ? 'output' then
    return ai.extend_output(run, caller, step -> 'output');
  end if;
  if run.app_id is not null then
    select r.refused, private.gateway_scopes(a) into caller.refused, caller.scopes
    from private.apps a
    cross join lateral private.gateway_refusal(a, run.workspace_id, private.gateway_scopes(a)) r
    where a.id = run.app_id;
    if not found or caller.refused is not null then
      -- Only the app's registration is checked, as for its tokens.
      caller.source := 'app_token';
      caller.refused := coalesce(caller.refused, 'app_not_allowed');
      return ai.call_refusal(caller);
    end if;
  end if;

  select x.usd, i.text_tokens + i.image_tokens + i.audio_tokens into step_usd, input_tokens
  from ai.input_tokens(request.input_bytes, request.images, request.audio_seconds) as i
  cross join lateral ai.maximum_cost(
    run.routes, i.text_tokens, i.image_tokens, i.audio_tokens, request.output_limit * coalesce(request.choices, 1),
    request.hour_writes, request.service_tier, null, false
  ) as x;
  if step_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  if not run.exempt then
    total_credits := ai.usd_to_credits(run.reserved_usd + step_usd, run.markup);
  end if;

  claim.caller := caller;
  claim.request := request;
  claim.request.kind := 'chat';
  claim.request.entity_id := run.entity_id;
  claim.routes := run.routes;
  claim.output_limit := request.output_limit;

  token_limit := least(caller.key_tokens_per_minute, claim.model_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    claim.tokens := ai.reserved_tokens(
      input_tokens, request.output_limit, request.choices, request.output_limit_assumed, token_limit
    );
    if claim.tokens > token_limit then
      claim.refusal := ai.token_limit_refusal(caller, claim.model_tokens_per_minute, input_tokens, claim.tokens);
      return ai.explain_refusal(claim, run);
    end if;
    -- In the minute of the last reservation, replaces the reserved tokens with those that the earlier steps used. In a
    -- new minute, reserves only this step's tokens.
    used_tokens := coalesce((step ->> 'used_tokens')::bigint, run.reserved_tokens, 0);
    claim.minute := run.tokens_reserved_at;
    claim.replaced_tokens := run.reserved_tokens - used_tokens;
  end if;
  claim.requests := 0;
  claim.budget_scopes := run.budget_scopes;
  claim.envelope_id := run.envelope_id;
  if run.envelope_id is not null then
    claim.envelope := jsonb_build_object('id', run.envelope_id, 'label', coalesce(
      (select e.label from ai.envelopes e where e.id = run.envelope_id), ''
    ));
  end if;
  claim.cost_usd := step_usd;
  claim.account_id := run.account_id;
  claim.credits := total_credits - run.reserved_credits;
  claim := (ai.reserve(array[claim]))[1];
  if claim.refusal is not null then
    -- Without `frees`: the run itself holds part of the room, and a retry would pay for its earlier steps again.
    return ai.explain_refusal(claim, run) - 'frees';
  end if;

  update ai.runs r
  set
    reserved_usd = r.reserved_usd + step_usd,
    expected_usd = r.expected_usd + step_usd,
    reserved_credits = total_credits,
    reserved_tokens = coalesce(used_tokens + claim.tokens, r.reserved_tokens),
    tokens_reserved_at = case when claim.tokens is not null then claim.minute else r.tokens_reserved_at end,
    touched_at = now()
  where r.created_at = run.created_at and r.id = run.id;
  return jsonb_build_object(
    'reserved_usd', (run.reserved_usd + step_usd)::text,
    'reserved_credits', total_credits::text
  );
end
$$;

-- Reserves further output of a run's current call in the budgets that reserved only the expected output. Its cost is
-- that share of what the maximum cost is above the reserved one, which is never less than what the output costs, because
-- the maximum cost is the highest of several linear functions. Returns what extend_run returns.
create or replace function ai.extend_output(run ai.runs, caller ai.caller, output jsonb) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  reserved bigint := (output ->> 'from')::bigint;
  output_limit bigint := (output ->> 'limit')::bigint;
  step_tokens bigint := greatest(least((output ->> 'to')::bigint, output_limit) - reserved, 0);
  rest_usd numeric := run.reserved_usd - run.expected_usd;
  claim ai.claim;
begin
  if run.expected_scopes is not null then
    -- The call took its place in the rate windows when it began, with its whole output.
    caller.key_requests_per_minute := null;
    caller.key_tokens_per_minute := null;
    caller.workspace_requests_per_minute := null;
    caller.workspace_tokens_per_minute := null;
    claim.caller := caller;
    claim.request.kind := 'chat';
    claim.request.entity_id := run.entity_id;
    claim.model_id := run.model_id;
    claim.requests := 0;
    claim.budget_scopes := run.expected_scopes;
    claim.credits := 0;
    claim.cost_usd := case
      when reserved + step_tokens >= output_limit then rest_usd
      else least(ceil(rest_usd * step_tokens / (output_limit - reserved) * 1e12) / 1e12, rest_usd)
    end;
    claim := (ai.reserve(array[claim]))[1];
    if claim.refusal is not null then
      return ai.explain_refusal(claim, run, with_suggestions => false) - 'frees';
    end if;
    update ai.runs r
    set expected_usd = r.expected_usd + claim.cost_usd, touched_at = now()
    where r.created_at = run.created_at and r.id = run.id;
  end if;
  return jsonb_build_object(
    'reserved_usd', run.reserved_usd::text, 'reserved_credits', run.reserved_credits::text
  );
end
$$;
