-- Admitting a call: everything that decides about it is asked of the rows of this moment, in one statement. Refusals
-- are returned, never raised. Locks are taken in this order everywhere: idempotency key, key, app, workspace, balance.

create function ai.new_run_id(call jsonb) returns uuid
  language sql
  volatile
  security invoker
as $$
  select case
    when call ? 'run_tail' then (left(ai.run_id(now())::text, 19) || (call ->> 'run_tail'))::uuid
    else ai.run_id(now())
  end
$$;
comment on function ai.new_run_id(jsonb) is
  'The id of a run that begins now. Of its random part the gateway may choose the end, by which it finds the run of a '
  'begin whose answer never came.';
revoke execute on function ai.new_run_id(jsonb) from public, anon, authenticated;

create function ai.note_begin(call jsonb) returns void
  language sql
  volatile
  security invoker
as $$
  select pg_advisory_xact_lock(hashtextextended(call ->> 'run_tail', 1))
$$;
comment on function ai.note_begin(jsonb) is
  'Holds, until it is known whether a run begins, what give_back_runs asks for. Before any other lock; nobody waits for it.';
revoke execute on function ai.note_begin(jsonb) from public, anon, authenticated;

create function ai.begin_in_time() returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  if clock_timestamp() - statement_timestamp() > interval '1.2 seconds' then
    raise exception 'too late for a run to begin' using errcode = 'query_canceled';
  end if;
end
$$;
comment on function ai.begin_in_time() is
  'Undoes a statement that waited, for whatever and however often, until its caller was about to be turned away (the '
  'gateway waits for 1.5 s).';
revoke execute on function ai.begin_in_time() from public, anon, authenticated;

create function ai.admit(call jsonb, caller ai.caller) returns jsonb
  language plpgsql
  volatile
  security invoker
as $$
declare
  principal uuid;
  exempt boolean;
  wanted text := call ->> 'model';
  model ai.models;
  audio boolean := coalesce((call ->> 'audio')::boolean, false);
  offer record;
  input_tokens bigint := ai.reserved_input_tokens(call);
  output_tokens bigint := (call ->> 'output_limit')::bigint * coalesce((call ->> 'choices')::bigint, 1);
  dearest_usd numeric(24, 12);
  dearest_credits numeric(24, 8);
  rate record;
  limits jsonb := '{}';
  earlier ai.idempotency_keys;
  held text[] := '{}';
  refused text;
  account uuid;
  new_run_id uuid := ai.new_run_id(call);
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
  if call ->> 'kind' = 'speech' and caller.source = 'app_token' and not 'tts:use' = any (caller.scopes) then
    return ai.refusal('insufficient_scope');
  end if;
  if caller.plan is null then
    return ai.refusal('service_unavailable');
  end if;
  if (caller.plan).payer = 'member' and not caller.actor_is_member then
    return ai.refusal('insufficient_scope');
  end if;

  if wanted is null then
    select m.id into wanted from ai.models m where m.kind = call ->> 'kind' and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, (caller.plan).id, (caller.policy).allowed_models, (caller.policy).denied_models, caller.key_models
  ) m
  where m.id = wanted and m.kind = call ->> 'kind';
  if not found then
    return ai.refusal('model_not_found');
  end if;
  if call ->> 'voice' is not null and not coalesce(call ->> 'voice' = any (model.voices), false) then
    return ai.refusal('invalid_request', '{"param": "voice"}');
  end if;
  if model.kind = 'speech' then
    output_tokens := least(output_tokens, model.output_limit);
  end if;

  select o.* into offer
  from ai.offers(wanted, call -> 'providers', input_tokens, output_tokens, audio, model.kind = 'speech') o;
  if offer.routes is null then
    return ai.refusal('service_unavailable');
  end if;
  if audio and not offer.hears then
    return ai.refusal('unsupported_parameter', '{"param": "messages"}');
  end if;
  if offer.dearest_usd is null then
    return ai.refusal('service_unavailable');
  end if;
  dearest_usd := offer.dearest_usd;
  dearest_credits := case when exempt then 0 else ai.usd_to_credits(dearest_usd, (caller.plan).markup) end;

  if call ->> 'idempotency_key' is not null then
    perform pg_advisory_xact_lock(
      hashtextextended(concat_ws(' ', caller.workspace_id, principal, call ->> 'idempotency_key'), 0)
    );
  end if;

  if caller.last_used_at is null or caller.last_used_at < now() - interval '1 minute' then
    update ai.keys k set last_used_at = now()
    where k.id = caller.key_id and (k.last_used_at is null or k.last_used_at < now() - interval '1 minute');
  end if;
  if caller.key_requests_per_minute is not null or caller.key_tokens_per_minute is not null then
    rate := ai.take_rate('key', principal, caller.key_requests_per_minute, caller.key_tokens_per_minute, input_tokens + output_tokens);
    limits := coalesce(rate.limits, limits);
    if not rate.admitted then
      return ai.refusal('rate_limit_exceeded', jsonb_build_object('limits', limits));
    end if;
  end if;

  if call ->> 'idempotency_key' is not null then
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
  if 'key' = any (caller.budgets) then
    if ai.reserve_budget('key', caller.lineage_id, caller.workspace_id, dearest_usd) then
      held := held || 'key'::text;
    else
      refused := 'budget_exceeded';
    end if;
  end if;
  if refused is null and 'app' = any (caller.budgets) then
    if ai.reserve_budget('app', caller.app_id, caller.workspace_id, dearest_usd) then
      held := held || 'app'::text;
    else
      refused := 'budget_exceeded';
    end if;
  end if;
  if refused is null then
    rate := ai.take_rate(
      'workspace', caller.workspace_id,
      least((caller.plan).requests_per_minute, (caller.policy).requests_per_minute),
      least((caller.plan).tokens_per_minute, (caller.policy).tokens_per_minute),
      input_tokens + output_tokens
    );
    limits := ai.tighter_limits(limits, rate.limits);
    refused := case when not rate.admitted then 'rate_limit_exceeded' end;
  end if;
  if refused is null and 'workspace' = any (caller.budgets) then
    if ai.reserve_budget('workspace', caller.workspace_id, caller.workspace_id, dearest_usd) then
      held := held || 'workspace'::text;
    else
      refused := 'budget_exceeded';
    end if;
  end if;
  if refused is null and not exempt then
    account := ai.reserve_credits(
      caller.plan, case (caller.plan).payer when 'member' then caller.actor_id else caller.workspace_id end, dearest_credits
    );
    refused := case when account is null then 'insufficient_credits' end;
  end if;
  if refused is not null then
    perform ai.release_budgets(held, caller.lineage_id, caller.app_id, caller.workspace_id, dearest_usd);
    return ai.refusal(refused, case when refused = 'rate_limit_exceeded' then jsonb_build_object('limits', limits) end);
  end if;

  insert into ai.runs (
    id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
    entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits, budget_scopes
  )
  values (
    new_run_id, caller.workspace_id, caller.actor_id, caller.app_id, caller.key_id, caller.lineage_id, caller.source,
    case caller.source when 'key' then 'background' else 'interactive' end, call ->> 'feature', call ->> 'request_id',
    call ->> 'entity_id', call ->> 'idempotency_key', coalesce((call ->> 'streamed')::boolean, false), model.id, offer.routes,
    (caller.plan).markup, exempt, account, dearest_usd, dearest_credits, held
  );
  if call ->> 'idempotency_key' is not null then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    values (
      caller.workspace_id, principal, call ->> 'idempotency_key', decode(call ->> 'fingerprint', 'hex'), now(), new_run_id
    )
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = now(), run_id = new_run_id,
      expires_at = excluded.expires_at;
  end if;

  return jsonb_build_object(
    'run_id', new_run_id,
    'created_at', now(),
    'workspace_id', caller.workspace_id,
    'model', model.id,
    'voice', coalesce(call ->> 'voice', model.voices[1]),
    'routes', offer.routes,
    'markup', (caller.plan).markup::text,
    'exempt', exempt,
    'reserved_usd', dearest_usd::text,
    'reserved_credits', dearest_credits::text,
    'cost_visible', exempt or coalesce((caller.policy).provider_cost_visible, true),
    'capture', coalesce((caller.policy).content_capture, false),
    'limits', limits
  );
end
$$;
comment on function ai.admit(jsonb, ai.caller) is
  'Decides about a call of a caller who was just found. For the definers below; trusts the caller: granted to nobody.';
revoke execute on function ai.admit(jsonb, ai.caller) from public, anon, authenticated;

-- Definer: gateway holds no grant on any table. It trusts no id in the call: who calls comes from the credential.
create function ai.begin_run(call jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- The plans do not depend on the call, and making them would cost more than running them.
  set plan_cache_mode = force_generic_plan
  -- Nor on how few rows there were when they were made: rows are found by key here.
  set enable_seqscan = off
  -- A plan that has to read a table after all looks so dear by that that it would be compiled, at every call.
  set jit = off
  -- For each lock; begin_in_time looks at all of them together.
  set lock_timeout = '1s'
as $$
declare
  answer jsonb;
begin
  perform ai.note_begin(call);
  answer := ai.admit(call, ai.credential_of(call));
  perform ai.begin_in_time();
  return answer;
end
$$;
comment on function ai.begin_run(jsonb) is
  'Decides about a call and, if it may go on, reserves its dearest cost and opens its run. Returns the run with its '
  'routes and prices, or {refused: code, …}.';
revoke execute on function ai.begin_run(jsonb) from public, anon, authenticated;
grant execute on function ai.begin_run(jsonb) to gateway;

-- Definer: as begin_run.
create function ai.check_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.credential_of(call);
begin
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;
comment on function ai.check_credential(jsonb) is
  'For a call whose body is no good, or large: whoever has no credential is told that, and nothing of the body. Returns '
  'whose it is, or {refused: code}.';
revoke execute on function ai.check_credential(jsonb) from public, anon, authenticated;
grant execute on function ai.check_credential(jsonb) to gateway;

create function ai.model_listing(model ai.models, routes jsonb) returns jsonb
  language sql
  immutable
  security invoker
as $$
  select jsonb_build_object(
    'id', model.id,
    'object', 'model',
    'created', floor(extract(epoch from model.created_at)),
    'owned_by', model.owned_by,
    'platform', jsonb_build_object(
      'name', model.display_name,
      'kind', model.kind,
      'context_window', model.context_window,
      'output_limit', model.output_limit,
      -- Of the first route, which is the one usually charged; numbers with all their digits.
      'prices', (
        select jsonb_agg(
          jsonb_build_object('min_input_tokens', tier -> 'min_input_tokens') || (
            select jsonb_object_agg(p.key || '_usd_per_million', trim_scale(p.value::numeric))
            from jsonb_each_text(tier - 'min_input_tokens') p
          )
        )
        from jsonb_array_elements(routes -> 0 -> 'prices') tier
      )
    ) || jsonb_strip_nulls(jsonb_build_object('voices', model.voices, 'default', nullif(model.is_default, false)))
  )
$$;
comment on function ai.model_listing(ai.models, jsonb) is 'A model as OpenAI lists it, and what it is and costs here.';
revoke execute on function ai.model_listing(ai.models, jsonb) from public, anon, authenticated;

-- Definer: as begin_run.
create function ai.list_models(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller;
  listed jsonb;
begin
  caller := ai.credential_of(call);
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  select coalesce(jsonb_agg(ai.model_listing(m, p.routes) order by m.id), '[]') into listed
  from ai.usable_models(
    caller.workspace_id, (caller.plan).id, (caller.policy).allowed_models, (caller.policy).denied_models, caller.key_models
  ) m
  cross join lateral (
    select ai.priced_routes(m.id, array(select jsonb_array_elements_text(call -> 'providers'))) as routes
  ) p
  where p.routes is not null and (call ->> 'model' is null or m.id = call ->> 'model');
  if call ->> 'model' is null then
    return jsonb_build_object('object', 'list', 'data', listed);
  end if;
  return coalesce(listed -> 0, ai.refusal('model_not_found'));
end
$$;
comment on function ai.list_models(jsonb) is
  'The models that a credential may use and that can be reached and charged now, as OpenAI lists them; with model in the '
  'call that one alone; or {refused: code}.';
revoke execute on function ai.list_models(jsonb) from public, anon, authenticated;
grant execute on function ai.list_models(jsonb) to gateway;
