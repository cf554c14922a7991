-- Generated from supabase/schemas by npm run db:migration.

drop function ai.budget_scopes(uuid, uuid, uuid);

drop function ai.budget_subject(text, uuid, uuid, uuid);

drop function ai.change_budget(uuid, uuid, text, uuid, text, text);

drop function ai.create_key(uuid, uuid, text, text, bytea, text, text[], integer, bigint, numeric, timestamp with time zone);

drop function ai.read_budgets(uuid, uuid, text[], integer);

drop function ai.reserve_budget(text, uuid, uuid, numeric);

drop function ai.reserve_limits(ai.caller, bigint, integer, numeric, uuid, numeric);

drop function ai.set_budget(text, uuid, uuid, numeric);

drop function ai.budget_subjects(uuid, boolean);

create or replace function ai.price_call(request ai.run_request, previous ai.priced_call) returns ai.priced_call
  language plpgsql
  stable
  security invoker
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
  request.entity_id := coalesce(caller.entity_id, request.entity_id);
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

create or replace function ai.admit_call(priced ai.priced_call) returns text
  language plpgsql
  volatile
  security invoker
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
    caller, request.entity_id, offer.reserved_tokens, 1, offer.maximum_cost_usd, priced.account_id, maximum_credits
  );
  if held.refused is not null then
    perform ai.return_tokens('key', caller.lineage_id, key_window, offer.reserved_tokens);
    return ai.limit_refusal(held.refused, caller);
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

  -- As text: building JSON from values looks up how each type is written.
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

create or replace function ai.find_caller(request ai.run_request) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  credential ai.credential := request.credential;
  caller ai.caller;
begin
  case credential.source
    when 'key' then
      caller := ai.key_caller(decode(credential.hash, 'hex'), request.address);
    when 'app_token', 'session' then
      caller := ai.user_caller(credential, request.workspace);
    else
      return null;
  end case;
  -- Few workspaces have any budget.
  perform from ai.budgets b where b.workspace_id = caller.workspace_id;
  if found then
    caller.budgets := ai.budget_scopes(caller, coalesce(caller.entity_id, request.entity_id));
  end if;
  if caller.refused is null then
    if request.workspace is null then
      if caller.source = 'app_token' then
        caller.refused := 'workspace_header_required';
      end if;
    elsif request.workspace <> caller.workspace_id::text then
      caller.refused := 'workspace_mismatch';
    end if;
  end if;
  return caller;
end
$$;

create or replace function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  key ai.keys;
  plan_id text;
  plan ai.plans;
  policy ai.workspace_policies;
  is_member boolean;
  refused text;
begin
  -- One row of one table by its key each: a join of them takes longer to start than all of these to run.
  select k.* into key
  from ai.keys k
  where k.secret_hash = key_caller.secret_hash
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
  if not found then
    return null;
  end if;
  select s.plan_id into plan_id from public.workspaces s where s.id = key.workspace_id and s.deleted_at is null;
  if not found then
    return null;
  end if;
  select p.* into plan from ai.plans p where p.id = plan_id;
  select w.* into policy from ai.workspace_policies w where w.workspace_id = key.workspace_id;
  if plan.payer = 'member' then
    perform from public.workspace_members m where m.workspace_id = key.workspace_id and m.user_id = key.created_by;
    is_member := found;
  end if;
  if key.allowed_addresses is not null or key.external_app_id is not null then
    refused := case
      -- No address told, no address allowed.
      when key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false)
        then 'insufficient_scope'
      -- A bound key stands for its app.
      when key.external_app_id is not null and not ai.app_can_act_in_workspace(key.external_app_id, key.workspace_id)
        then 'app_not_allowed'
    end;
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, null,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, null, key.entity_id, key.name, key.is_strict
  )::ai.caller;
end
$$;

create or replace function ai.user_caller(credential ai.credential, workspace text) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
begin
  if credential.source = 'app_token' then
    select t.refused, t.workspace_id, t.user_id, t.app_id, t.scopes
    into caller.refused, caller.workspace_id, caller.actor_id, caller.app_id, caller.scopes
    from ai.find_app_token(decode(credential.hash, 'hex')) t
    where t.refused is distinct from 'invalid_api_key';
  else
    caller.workspace_id := workspace::uuid;
    select s.user_id, s.refused into caller.actor_id, caller.refused
    from ai.session_caller(credential.claims, caller.workspace_id) s;
  end if;
  if caller.actor_id is null then
    return null;
  end if;

  caller.source := credential.source;
  select
    p.id, p.payer, p.markup, p.initial_credits,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute),
    w.allowed_models, w.denied_models, coalesce(w.provider_cost_visible, true), coalesce(w.content_capture, false)
  into
    caller.plan_id, caller.payer, caller.markup, caller.initial_credits,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.workspace_models, caller.denied_models, caller.cost_visible, caller.capture
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  where s.id = caller.workspace_id and s.deleted_at is null;
  if not found then
    return case caller.source when 'session' then caller end;
  end if;
  caller.actor_is_member := private.is_workspace_member(caller.actor_id, caller.workspace_id);
  return caller;
end
$$;

create or replace function ai.budget_scopes(caller ai.caller, label text) returns text[]
  language plpgsql
  stable
  security invoker
as $$
begin
  return nullif(array(
    select s.scope
    from (
      values
        ('key', caller.lineage_id), ('app', caller.app_id), ('member', caller.actor_id), ('label', ai.label_id(label)),
        ('workspace', caller.workspace_id)
    ) as s (scope, subject_id)
    join ai.budgets b
      on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = caller.workspace_id
  ), '{}');
end
$$;

create or replace function ai.label_id(label text) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select left(
    overlay(overlay(encode(sha256(label::bytea), 'hex') placing '8' from 13) placing '8' from 17), 32
  )::uuid
$$;

-- Definer: as begin_run.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(jsonb_populate_record(null::ai.run_request, call));
  refusal jsonb := ai.call_refusal(caller);
  exempt boolean;
  cost_visible boolean;
begin
  if refusal is not null then
    return refusal;
  end if;
  exempt := caller.app_id is not null;
  cost_visible := exempt or caller.cost_visible;

  return jsonb_build_object(
    'source', caller.source,
    'workspaceId', caller.workspace_id,
    'userId', case when caller.source <> 'key' then caller.actor_id end,
    'key', (
      select jsonb_build_object(
        'id', k.id,
        'name', k.name,
        'prefix', 'ttr_ai_' || k.lookup,
        'environment', k.environment,
        'createdAt', ai.utc_text(k.created_at),
        'replaced', k.replaced_by is not null,
        'allowedModels', k.allowed_models,
        'allowedAddresses', k.allowed_addresses,
        'strict', k.is_strict,
        'entityId', k.entity_id
      )
      from ai.keys k where k.id = caller.key_id
    ),
    'app', (
      select jsonb_build_object('id', a.id, 'name', a.name, 'displayName', a.display_name)
      from private.apps a where a.id = caller.app_id
    ),
    'scopes', caller.scopes,
    'expiresAt', ai.utc_text(coalesce(
      (select k.expires_at from ai.keys k where k.id = caller.key_id),
      (
        select t.expires_at from ai.app_tokens t
        where caller.source = 'app_token' and t.token_hash = decode(call -> 'credential' ->> 'hash', 'hex')
      )
    )),
    'exempt', exempt,
    'limits', (
      select coalesce(jsonb_agg(l.value), '[]')
      from jsonb_array_elements(jsonb_build_array(
        ai.remaining_rate('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.remaining_rate(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- An app does not pay, and the holder of a key may not be the member who does.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where coalesce(a.workspace_id, a.user_id) = ai.payer_id(caller)
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;

-- Definer: gateway holds no grant on any table. A run is named by the id that begin_run returned.
create or replace function ai.extend_run(step jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  -- As in begin_run.
  set plan_cache_mode = force_generic_plan
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, step);
  most ai.token_use := ai.maximum_use(request);
  run ai.runs;
  caller ai.caller;
  key_is_over boolean;
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
    k.entity_id, k.revoked_at is not null or k.expires_at <= now(), k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute)
  into
    caller.entity_id, key_is_over, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_over then
    return ai.refusal('invalid_api_key');
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
    -- The steps before count what they used. In a new minute they count nothing, and so does settlement.
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

create or replace function ai.collect_locks(calls ai.priced_call[]) returns ai.lock_list
  language plpgsql
  stable
  security invoker
as $$
declare
  call ai.priced_call;
  caller ai.caller;
  scope text;
  locks ai.lock_list;
begin
  foreach call in array calls loop
    continue when call.refusal is not null;
    caller := call.caller;
    if (call.request).idempotency_key is not null then
      locks.idempotency_keys := locks.idempotency_keys || hashtextextended(
        concat_ws(' ', caller.workspace_id, ai.principal_id(caller), (call.request).idempotency_key), 0
      );
      locks.workspaces := locks.workspaces || caller.workspace_id;
    end if;
    if ai.is_key_use_due(caller) then
      locks.keys := locks.keys || caller.key_id;
    end if;
    if num_nonnulls(caller.key_requests_per_minute, caller.key_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('key', caller.lineage_id, null)::ai.limit_subject;
    end if;
    if num_nonnulls(caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('workspace', caller.workspace_id, null)::ai.limit_subject;
    end if;
    if caller.budgets is not null then
      foreach scope in array caller.budgets loop
        locks.budgets := locks.budgets || row(
          scope,
          ai.budget_subject(
            scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, (call.request).entity_id
          ),
          caller.workspace_id
        )::ai.limit_subject;
      end loop;
    end if;
    if call.account_id is not null then
      locks.accounts := locks.accounts || call.account_id;
    end if;
  end loop;
  return locks;
end
$$;

create or replace function ai.reserve_limits(
  caller ai.caller, label text, tokens bigint, requests integer, amount_usd numeric, account uuid, credits numeric
) returns ai.reservation
  language plpgsql
  volatile
  security invoker
as $$
declare
  scope text;
  held ai.reservation;
begin
  held.budget_scopes := '{}';
  foreach scope in array array['key', 'app', 'member', 'label', 'workspace'] loop
    if scope = 'workspace' then
      held.workspace_window := ai.consume_rate_limit(
        'workspace', caller.workspace_id, caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute, tokens,
        requests
      );
      if not (held.workspace_window).admitted then
        held.refused := 'rate_limit_exceeded';
        exit;
      end if;
    end if;
    continue when caller.budgets is null or not scope = any (caller.budgets);
    if not ai.reserve_budget(
      scope,
      ai.budget_subject(scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, label),
      caller.workspace_id,
      amount_usd,
      -- A label that the caller chose annotates the call. Only a label that the server wrote can refuse it.
      scope <> 'label' or caller.entity_id is not null
    ) then
      held.refused := 'budget_exceeded';
      exit;
    end if;
    held.budget_scopes := held.budget_scopes || scope;
  end loop;
  if held.refused is null and (account is not null or credits > 0) then
    update ai.credit_accounts a set reserved = a.reserved + credits
    where a.id = account and a.balance - a.reserved >= credits;
    if not found then
      held.refused := 'insufficient_credits';
    end if;
  end if;
  if held.refused is not null then
    perform ai.return_tokens('workspace', caller.workspace_id, held.workspace_window, tokens);
  end if;
  if held.refused is not null and held.budget_scopes <> '{}' then
    update ai.budgets b set reserved_usd = greatest(b.reserved_usd - amount_usd, 0)
    from unnest(held.budget_scopes) as s (scope)
    where b.scope = s.scope
      and b.subject_id = ai.budget_subject(
        s.scope, caller.workspace_id, caller.lineage_id, caller.app_id, caller.actor_id, reserve_limits.label
      )
      and b.workspace_id = caller.workspace_id;
  end if;
  return held;
end
$$;

create or replace function ai.reserve_budget(
  scope text, subject uuid, workspace uuid, amount_usd numeric, enforced boolean
) returns boolean
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  update ai.budgets b
  set
    reserved_usd = b.reserved_usd + amount_usd,
    spent_usd = case when b.period_start < month then 0 else b.spent_usd end,
    period_start = greatest(b.period_start, month)
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and (
      not enforced
      or b.limit_usd is null
      -- A budget of 0 refuses free calls, too.
      or b.limit_usd > 0
        and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
    );
  if found then
    return true;
  end if;
  -- Of many concurrent refusals the first writes it.
  update ai.budgets b set refused_at = now()
  where b.scope = reserve_budget.scope
    and b.subject_id = subject
    and b.workspace_id = workspace
    and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end > b.limit_usd
    and (
      b.refused_at is null
      or b.refused_at < greatest(now() - interval '1 minute', month::timestamp at time zone 'UTC')
    );
  return false;
end
$$;

create or replace function ai.lock_outcomes(outcomes jsonb) returns ai.run_report[]
  language plpgsql
  volatile
  security invoker
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

create or replace function ai.settle_budgets(closed ai.closed_run[]) returns void
  language plpgsql
  volatile
  security invoker
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

-- Definer: the service role writes no alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- One at a time, and each reads the budgets after the one before it is through: a limit that was just raised is seen.
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_budget_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'scope', a.scope,
        'subjectId', a.subject_id,
        'subject', ai.budget_name(a.scope, a.subject_id, a.workspace_id),
        'workspaceId', a.workspace_id,
        'workspace', w.name,
        'month', a.month,
        'endsAt', ai.utc_text((a.month + interval '1 month') at time zone 'UTC'),
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      )
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id
    ), '[]')
    from (
      select * from ai.budget_alerts p where p.posted_at is null order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
  );
end
$$;

create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case scope
    when 'key' then (
      select k.name from ai.keys k
      where k.lineage_id = subject and k.workspace_id = workspace
      order by k.created_at desc limit 1
    )
    when 'app' then ai.app_label(subject)
    when 'member' then (select p.display_name from public.profiles p where p.id = subject)
    when 'label' then (
      select b.label from ai.budgets b
      where b.scope = 'label' and b.subject_id = subject and b.workspace_id = workspace
    )
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[] default null, page_size integer default 50,
  -- Those that every server knows. The release before refuses others.
  scopes text[] default '{workspace,app,key}'
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  this_month timestamp := date_trunc('month', now() at time zone 'UTC');
  with_keys boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy');
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'month', to_char(this_month, 'YYYY-MM'),
    'endsAt', ai.utc_text((this_month + interval '1 month') at time zone 'UTC'),
    'costVisible', visible,
    'keysVisible', with_keys,
    'budgets', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'position', p.position,
          'scope', p.scope,
          'subjectId', p.subject_id,
          'name', coalesce(p.label, ai.budget_name(p.scope, p.subject_id, workspace)),
          'live', p.live,
          'enforced', p.scope <> 'label' or ai.is_label_enforced(p.label, workspace),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            when visible then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.month = this_month::date and a.threshold > 0 and a.posted_at is not null
              and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select s.*, b as budget, x.spent, o.position
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace and b.limit_usd is not null
        cross join lateral (select case when b.period_start < this_month::date then 0 else b.spent_usd end as spent) as x
        -- Of what nobody can change, so that each has its place in the list for good.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or (b.limit_usd is not null and x.spent > 0))
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Definer: as ai.read_budgets; and the service role writes no budgets.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  standing numeric;
  wanted numeric := change_budget.limit_usd::numeric;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have one, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  select b.limit_usd into standing
  from ai.budgets b
  where b.scope = change_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if standing is distinct from read_limit_usd::numeric then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'limitUsd', trim_scale(standing)::text);
  end if;
  if wanted is not distinct from standing then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform ai.set_budget(scope, subject, workspace, wanted, label);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object('scope', scope, 'before', trim_scale(standing)::text, 'after', trim_scale(wanted)::text)
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null
) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  if limit_usd is null then
    update ai.budgets b set limit_usd = null
    where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    -- What did not fit before a raise may fit now.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace;
  if found then
    perform ai.reset_budget_alert(set_budget.scope, subject, workspace);
    return;
  end if;
  insert into ai.budgets as b (scope, subject_id, workspace_id, label, limit_usd, period_start, spent_usd)
  select
    set_budget.scope, subject, workspace, set_budget.label, set_budget.limit_usd, month,
    coalesce(sum(r.cost_usd), 0)
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= month::timestamp at time zone 'UTC'
    and case set_budget.scope
      when 'workspace' then true
      when 'app' then r.app_id = subject
      when 'member' then r.actor_id = subject
      when 'label' then r.entity_id = set_budget.label
      else r.key_lineage_id = subject
    end;
end
$$;

create or replace function ai.budget_subjects(workspace uuid, with_keys boolean)
  returns table (scope text, subject_id uuid, live boolean, since timestamptz, label text)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select 'workspace', workspace, true, null::timestamptz, null::text
  union all
  select 'app', s.app_id, ai.app_can_act_in_workspace(s.app_id, workspace), (
    select a.created_at from private.apps a where a.id = s.app_id
  ), null
  from (
    select l.app_id from private.app_workspaces l join private.apps a on a.id = l.app_id and a.kind = 'external'
    where l.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'app' and b.limit_usd is not null
  ) as s (app_id)
  union all
  select 'key', k.lineage_id, bool_or(k.revoked_at is null and (k.expires_at is null or k.expires_at > now())),
    min(k.created_at), null
  from ai.keys k
  where with_keys and k.workspace_id = workspace
  group by k.lineage_id
  union all
  select 'member', s.user_id, private.is_workspace_member(s.user_id, workspace), (
    select p.created_at from public.profiles p where p.id = s.user_id
  ), null
  from (
    select m.user_id from public.workspace_members m where m.workspace_id = workspace
    union
    select b.subject_id from ai.budgets b where b.workspace_id = workspace and b.scope = 'member' and b.limit_usd is not null
  ) as s (user_id)
  union all
  select 'label', ai.label_id(s.label), true, null, s.label
  from (
    select k.entity_id from ai.keys k
    where k.workspace_id = workspace and k.entity_id is not null and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
    union
    select b.label from ai.budgets b where b.workspace_id = workspace and b.scope = 'label' and b.limit_usd is not null
  ) as s (label)
$$;

create or replace function ai.is_label_enforced(label text, workspace uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select from ai.keys k
    where k.workspace_id = workspace and k.entity_id = is_label_enforced.label and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
  )
$$;

-- Definer: the service role writes no keys, so that none is made past these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if (
    select count(*) >= 200 from ai.keys k
    where k.workspace_id = workspace and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
  ) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  select
    id, id, workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'), issue_key.lookup,
    decode(issue_key.secret_hash, 'hex'), app,
    case when jsonb_typeof(key -> 'allowedModels') = 'array'
      then array(select jsonb_array_elements_text(key -> 'allowedModels')) end,
    case when jsonb_typeof(key -> 'allowedAddresses') = 'array'
      then array(select address::cidr from jsonb_array_elements_text(key -> 'allowedAddresses') as address) end,
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId'
  from (select gen_random_uuid() as id) as made_id
  returning * into made;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', made.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  perform private.log_workspace_change(workspace, 'key.created', made.id, made.name);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made));
end
$$;

-- Definer: as ai.issue_key.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  -- The new key will refer to the workspace, and an account's deletion locks that before its keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- One rotation of a key at a time; the second finds it replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into made;
  update ai.keys k
  set
    replaced_by = made.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', made.id, made.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made));
end
$$;

create or replace function ai.key_summary(key ai.keys) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (key).id,
    'name', (key).name,
    'prefix', 'ttr_ai_' || (key).lookup,
    'environment', (key).environment,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', (key).last_used_at,
    'expiresAt', (key).expires_at,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'entityId', (key).entity_id,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when not ai.cost_visible(b.workspace_id) then null
          when b.period_start = date_trunc('month', now() at time zone 'UTC')::date then trim_scale(b.spent_usd)::text
          else '0'
        end
      )
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.limit_usd is not null
    )
  )
$$;

create or replace function ai.create_key(
  workspace_id uuid,
  created_by uuid,
  name text,
  lookup text,
  secret_hash bytea,
  environment text default 'production',
  allowed_models text[] default null,
  requests_per_minute integer default null,
  tokens_per_minute bigint default null,
  monthly_budget_usd numeric default null,
  expires_at timestamptz default null,
  entity_id text default null
) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
#variable_conflict use_column
declare
  key_id uuid := gen_random_uuid();
begin
  perform from ai.key_approvals a where a.workspace_id = create_key.workspace_id;
  if not found then
    raise exception 'the workspace has no approval to create keys' using errcode = 'insufficient_privilege';
  end if;

  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, lookup, secret_hash, environment, allowed_models,
    requests_per_minute, tokens_per_minute, expires_at, entity_id
  )
  values (
    key_id, key_id, create_key.workspace_id, create_key.created_by, create_key.name, create_key.lookup,
    create_key.secret_hash, create_key.environment, create_key.allowed_models, create_key.requests_per_minute,
    create_key.tokens_per_minute, create_key.expires_at, create_key.entity_id
  );

  if monthly_budget_usd is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', key_id, create_key.workspace_id, monthly_budget_usd);
  end if;
  return key_id;
end
$$;

create or replace function ai.budget_subject(
  scope text, workspace uuid, lineage uuid, app uuid, actor uuid, label text
) returns uuid
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select case scope
    when 'key' then lineage
    when 'app' then app
    when 'member' then actor
    when 'label' then ai.label_id(label)
    else workspace
  end
$$;

create or replace function ai.remaining_budgets(caller ai.caller, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'limitUsd', trim_scale(b.limit_usd),
        'spentUsd', case when cost_visible then trim_scale(x.spent) end,
        'reservedUsd', case when cost_visible then trim_scale(b.reserved_usd) end,
        'remainingUsd', case when cost_visible then trim_scale(greatest(b.limit_usd - x.spent - b.reserved_usd, 0)) end,
        'resetsAt', ai.utc_text((m.month + interval '1 month') at time zone 'UTC')
      )
      order by array_position(array['key', 'app', 'member', 'label', 'workspace'], b.scope)
    ),
    '[]'
  )
  from (select date_trunc('month', now() at time zone 'UTC') as month) as m
  cross join unnest((caller).budgets) as s (scope)
  join ai.budgets b
    on b.scope = s.scope
    and b.workspace_id = (caller).workspace_id
    and b.limit_usd is not null
    and b.subject_id = ai.budget_subject(
      s.scope, (caller).workspace_id, (caller).lineage_id, (caller).app_id, (caller).actor_id, (caller).entity_id
    )
  cross join lateral (select case when b.period_start < m.month then 0 else b.spent_usd end as spent) as x
$$;

comment on function ai.budget_name(text, uuid, uuid) is 'Returns the name of a budget''s key, app, member, label or workspace.';

comment on function ai.lock_rows(ai.lock_list) is
  'Locks what admissions, extensions and settlements change, in the one order that they share: idempotency keys, keys, rate '
  'windows, budgets, balances; each kind sorted, so budgets of apps, keys, labels, members and workspaces. Runs are locked '
  'before, and new accounts are opened before.';

comment on function ai.price_call(ai.run_request, ai.priced_call) is
  'Returns a call with its caller, label, model, maximum cost and paying account, or why it is refused. Locks nothing.';

comment on function ai.remaining_budgets(ai.caller, boolean) is
  'Returns the monthly budgets that can refuse a caller, narrowest first. Amounts are left out where the workspace hides '
  'provider costs.';

comment on function ai.budget_scopes(ai.caller, text) is
  'Returns the scopes of the budgets that count a call with a label; null for none. Finds each by its key, since a '
  'workspace may have budgets of many members and labels.';

comment on function ai.budget_subject(text, uuid, uuid, uuid, uuid, text) is 'Returns whose budget a scope means for one run.';

comment on function ai.budget_subjects(uuid, boolean) is
  'Returns what can have a budget in a workspace: itself, its external apps, its keys (rotated ones are one), its members, '
  'and the labels that have one or that a live key carries. live: whether it can call still; since: when it was made, '
  'which never changes.';

comment on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) is
  'Sets one monthly budget, or takes it away with null: with manage_ai_policy, that of a key with manage_ai_keys. Scope '
  'label takes the label itself; its subject follows. '
  'read_limit_usd is the limit that the member had before them: where it is another by now, nothing changes. Outcomes: '
  'changed, unchanged, changed_meanwhile (with limitUsd), not_allowed, not_found. Each change is a line of the log.';

comment on function ai.create_key is
  'Stores a new key and returns its id. The caller made the text and shows it once: only its lookup part and SHA-256 '
  'come here. Whether this caller may create one was decided before, so no role of the API may run it.';

comment on function ai.is_label_enforced(text, uuid) is
  'Returns whether a live key carries a label. Only such keys'' calls can be refused for the label''s budget.';

comment on function ai.label_id(text) is
  'Returns the subject of a label''s budget: a UUID version 8 (RFC 9562, 5.8) of its SHA-256. Callers choose labels, so '
  'nobody may find two with one id. Labels have no backslash, which the cast to bytea would read as an escape.';

comment on function ai.read_budgets(uuid, uuid, text[], integer, text[]) is
  'A page of a workspace''s budgets and what they have used in the current UTC month, for a member with use_ai_studio: '
  '{ outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Those of keys are for '
  'members with manage_ai_keys or manage_ai_policy. They are ordered by scope, then labels by their text and others by '
  'when their subjects were made; '
  'after is the position of the last one of the page before. Amounts are exact texts, null where there is no limit or it '
  'is hidden. usedUp: all of it is spent, or calls are refused for it as ai.budget_refuses_calls has it. '
  'enforced: whether it can refuse calls.';

comment on function ai.reserve_budget(text, uuid, uuid, numeric, boolean) is
  'Holds an amount of a monthly budget; if it is enforced, unless that would pass its limit, or that is 0. A refusal is noted in the budget: '
  'the first of a month, and then at most one a minute.';

comment on function ai.reserve_limits(ai.caller, text, bigint, integer, numeric, uuid, numeric) is
  'Reserves a provider call in the budgets, the workspace''s rate window and the balance, or says in refused which of them '
  'has no room and reserves none of the amounts. The rows are locked.';

comment on function ai.set_budget(text, uuid, uuid, numeric, text) is
  'Sets the monthly budget of a workspace, or of an app, a key''s lineage, a member or a label in it; null takes it away. '
  'A first one begins '
  'with what the month''s settled runs have cost; runs that are under way at that moment are in no budget. Callers hold '
  'ai.lock_policy.';

grant execute on function ai.change_budget(uuid, uuid, text, uuid, text, text, text) to service_role;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[]) to service_role;
