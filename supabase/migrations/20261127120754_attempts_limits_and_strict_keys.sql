-- Generated from supabase/schemas by npm run db:migration.

drop function ai.limit_refusal(text, text);

create or replace function private.list_catalogue_models() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', m.id,
    'kind', m.kind,
    'displayName', m.display_name,
    'ownedBy', m.owned_by,
    'enabled', m.enabled,
    'hasRoute', exists (select from ai.model_routes r where r.model_id = m.id and r.enabled),
    -- By the rule of calls, as if every provider were connected.
    'hasPrice', ai.priced_routes(m.id, array(select r.provider_id from ai.model_routes r where r.model_id = m.id)) is not null,
    -- As calls go: open routes first, in their order.
    'providers', (
      select coalesce(jsonb_agg(p.provider_id order by p.is_shut, p.position), '[]')
      from (
        select distinct on (r.provider_id) r.provider_id, not r.enabled as is_shut, r.position
        from ai.model_routes r
        where r.model_id = m.id
        order by r.provider_id, r.enabled desc, r.position
      ) as p
    ),
    'prices', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', p.id,
        'providerId', p.provider_id,
        'serviceTier', p.service_tier,
        'minInputTokens', p.min_input_tokens,
        'from', lower(p.valid),
        'until', upper(p.valid),
        'current', p.valid @> now(),
        'inputUsd', p.input_usd_per_million::text,
        'cachedInputUsd', p.cached_input_usd_per_million::text,
        'cacheWriteUsd', p.cache_write_usd_per_million::text,
        'cacheWrite1hUsd', p.cache_write_1h_usd_per_million::text,
        'outputUsd', p.output_usd_per_million::text,
        'audioInputUsd', p.audio_input_usd_per_million::text,
        'audioOutputUsd', p.audio_output_usd_per_million::text,
        'imageInputUsd', p.image_input_usd_per_million::text,
        'requestFeeUsd', p.request_fee_usd::text
      ) order by p.provider_id, p.service_tier, p.min_input_tokens, lower(p.valid) desc), '[]')
      from ai.model_prices p
      where p.model_id = m.id
    )
  ) order by ai.model_order(m)), '[]')
  from ai.models m
$$;

create or replace function private.list_provider_routes() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'model', m.id,
    'displayName', m.display_name,
    'routes', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'position', r.position,
        'provider', r.provider_id,
        'providerModel', r.provider_model,
        'enabled', r.enabled,
        'hasPrice', exists (
          select from ai.model_prices p
          where p.model_id = r.model_id and p.provider_id = r.provider_id and p.valid @> now()
        ),
        'failedLastHour', (
          select count(*)
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
            and f.at > now() - interval '1 hour'
        ),
        'lastFailure', (
          select jsonb_build_object(
            'at', f.at,
            'failure', f.failure,
            'status', f.status,
            'upstreamRequestId', f.upstream_request_id,
            'runId', f.run_id
          )
          from ai.failed_attempts f
          where f.model_id = r.model_id and f.provider_id = r.provider_id and f.provider_model = r.provider_model
          order by f.at desc, f.id desc
          limit 1
        )
      ) order by r.position), '[]')
      from ai.model_routes r
      where r.model_id = m.id
    )
  ) order by ai.model_order(m)), '[]')
  from ai.models m
  where m.enabled
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
  key_name text;
  is_strict boolean := false;
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
    caller, offer.reserved_tokens, 1, offer.maximum_cost_usd, priced.account_id, maximum_credits
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

  if caller.key_id is not null then
    select k.name, k.is_strict into key_name, is_strict from ai.keys k where k.id = caller.key_id;
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
    coalesce(to_json(key_name), 'null'),
    is_strict::text
  );
end
$$;

-- Definer: as begin_run.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(request);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  listed jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  select coalesce(jsonb_agg(ai.model_listing(m, case when shows_prices then p.routes end) order by ai.model_order(m)), '[]') into listed
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  cross join lateral (
    select ai.priced_routes(m.id, request.providers) as routes
  ) p
  where p.routes is not null and (request.model is null or m.id = request.model);
  if request.model is null then
    return jsonb_build_object('object', 'list', 'data', listed);
  end if;
  return coalesce(listed -> 0, ai.refusal('model_not_found'));
end
$$;

create or replace function ai.listed_prices(tiers jsonb) returns jsonb
  language sql
  immutable
  security invoker
as $$
  select jsonb_agg(
    (
      select jsonb_object_agg(
        case
          when p.key in ('min_input_tokens', 'service_tier') then p.key
          when p.key = 'request_fee' then 'request_fee_usd'
          else p.key || '_usd_per_million'
        end,
        case when jsonb_typeof(p.value) = 'string' and p.key <> 'service_tier'
          then to_jsonb(trim_scale((p.value #>> '{}')::numeric))
          else p.value
        end
      )
      from jsonb_each(tier) as p
    )
    order by place
  )
  from jsonb_array_elements(tiers) with ordinality as t (tier, place)
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
        'strict', k.is_strict
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
    k.revoked_at is not null or k.expires_at <= now(), k.requests_per_minute, k.tokens_per_minute,
    least(p.requests_per_minute, w.requests_per_minute), least(p.tokens_per_minute, w.tokens_per_minute)
  into
    key_is_over, caller.key_requests_per_minute, caller.key_tokens_per_minute,
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
  caller.workspace_id := run.workspace_id;
  caller.budgets := run.budget_scopes;

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
  held := ai.reserve_limits(caller, tokens, 0, step_usd, run.account_id, total_credits - run.reserved_credits);
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

create or replace function ai.consume_rate_limit(
  scope text, subject uuid, request_limit integer, token_limit bigint, tokens bigint, requests integer default 1
) returns ai.rate_window_use
  language plpgsql
  volatile
  security invoker
as $$
declare
  used ai.rate_window_use;
begin
  if request_limit is null and token_limit is null then
    used.admitted := true;
    return used;
  end if;
  update ai.rate_windows w
  set requests = w.requests + consume_rate_limit.requests, tokens = w.tokens + coalesce(consume_rate_limit.tokens, 0)
  where w.scope = consume_rate_limit.scope
    and w.subject_id = subject
    and (request_limit is null or consume_rate_limit.requests = 0 or w.requests + consume_rate_limit.requests <= request_limit)
    and (token_limit is null or w.tokens + consume_rate_limit.tokens <= token_limit)
  returning true, w.window_start, w.requests, w.tokens into used;
  used.admitted := found;
  return used;
end
$$;

create or replace function ai.return_tokens(scope text, subject uuid, counted ai.rate_window_use, tokens bigint) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  if counted.admitted and tokens <> 0 then
    update ai.rate_windows w set tokens = greatest(w.tokens - return_tokens.tokens, 0)
    where w.scope = return_tokens.scope and w.subject_id = subject and w.window_start = counted.started_at;
  end if;
end
$$;

create or replace function ai.settle_rate_windows(closed ai.closed_run[], token_changes bigint[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  update ai.rate_windows w
  set tokens = greatest(w.tokens + due.tokens, 0)
  from (
    select s.scope, s.subject_id, (c.run).tokens_reserved_at as minute, sum(c.tokens) as tokens
    from unnest(closed, token_changes) as c (
      run, kind, credits_due, credits_released, cost_due_usd, usd_released, key_unused, tokens
    )
    cross join lateral (values ('key', (c.run).key_lineage_id), ('workspace', (c.run).workspace_id)) as s (scope, subject_id)
    where c.tokens <> 0
    group by 1, 2, 3
  ) as due
  where w.scope = due.scope and w.subject_id = due.subject_id and w.window_start <= due.minute;
end
$$;

create or replace function ai.reserved_tokens(request ai.run_request, most ai.token_use, token_limit bigint) returns bigint
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select case
    when not coalesce((request).output_limit_assumed, false) then u.input + (most).output
    else greatest(
      u.input, least(u.input + least((request).output_limit, 500) * coalesce((request).choices, 1), token_limit)
    )
  end
  from (select (most).text + (most).image + (most).audio as input) as u
$$;

create or replace function ai.token_limit_refusal(caller ai.caller, most ai.token_use, tokens bigint) returns jsonb
  language sql
  immutable
  security invoker
  parallel safe
as $$
  select ai.refusal('invalid_request', jsonb_build_object('token_limit', jsonb_build_object(
    'scope', case
      when (caller).key_tokens_per_minute <= (caller).workspace_tokens_per_minute
        or (caller).workspace_tokens_per_minute is null then 'key'
      else 'workspace'
    end,
    'limit', least((caller).key_tokens_per_minute, (caller).workspace_tokens_per_minute),
    'input', (most).text + (most).image + (most).audio,
    'counted', tokens
  )))
$$;

create or replace function ai.reserve_limits(
  caller ai.caller, tokens bigint, requests integer, amount_usd numeric, account uuid, credits numeric
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
  foreach scope in array array['key', 'app', 'workspace'] loop
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
      scope, ai.budget_subject(scope, caller.lineage_id, caller.app_id, caller.workspace_id), caller.workspace_id, amount_usd
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
    where b.workspace_id = caller.workspace_id
      and b.scope = any (held.budget_scopes)
      and b.subject_id = ai.budget_subject(b.scope, caller.lineage_id, caller.app_id, caller.workspace_id);
  end if;
  return held;
end
$$;

create or replace function ai.current_window(scope text, subject uuid) returns ai.rate_window_use
  language sql
  stable
  security invoker
as $$
  select null::boolean, w.window_start, w.requests::bigint, w.tokens
  from ai.rate_windows w
  where w.scope = current_window.scope and w.subject_id = subject
$$;

create or replace function ai.limit_refusal(code text, caller ai.caller) returns jsonb
  language plpgsql
  stable
  security invoker
as $$
declare
  limits text := ai.call_limits(
    caller, ai.current_window('key', caller.lineage_id), ai.current_window('workspace', caller.workspace_id)
  );
begin
  return ai.refusal(code, case
    when num_nonnulls(
      caller.key_requests_per_minute, caller.key_tokens_per_minute,
      caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute
    ) > 0 then jsonb_build_object('limits', limits::json, 'at', now())
  end);
end
$$;

create or replace function ai.find_offer(request ai.run_request, caller ai.caller, previous ai.priced_call) returns ai.route_offer
  language plpgsql
  stable
  security invoker
as $$
declare
  model ai.models;
  offer ai.route_offer;
  most ai.token_use;
  token_limit bigint := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
begin
  if request.model is null then
    select m.id into request.model from ai.models m where m.kind = request.kind and m.is_default;
  end if;
  select m.* into model
  from ai.usable_models(
    caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
  ) m
  where m.id = request.model and m.kind = request.kind;
  if not found then
    offer.refusal := ai.refusal('model_not_found');
    return offer;
  end if;
  if request.voice is not null and not coalesce(request.voice = any (model.voices), false) then
    offer.refusal := ai.refusal('invalid_request', '{"param": "voice"}');
    return offer;
  end if;
  if model.kind = 'chat' and request.output_limit > model.output_limit and not coalesce(request.output_limit_assumed, false) then
    offer.refusal := ai.refusal('invalid_request', jsonb_build_object('model_output_limit', model.output_limit));
    return offer;
  end if;
  most := ai.maximum_use(request);
  request.output_limit := least(request.output_limit, model.output_limit);
  if request.output_limit_assumed then
    request.output_limit := least(
      request.output_limit, coalesce(model.output_limit, 2048),
      case when model.context_window is not null then
        greatest(2048, model.context_window - most.text - most.image - most.audio)
      end
    );
  end if;
  most.output := request.output_limit * coalesce(request.choices, 1);

  offer.model_id := model.id;
  offer.voice := coalesce(request.voice, model.voices[1]);
  offer.routes := case
    when model.id = (previous.offer).model_id and request.providers = (previous.request).providers then (previous.offer).routes
    else ai.priced_routes(model.id, request.providers)
  end;
  offer.context_window := model.context_window;
  offer.output_limit := case model.kind when 'chat' then request.output_limit end;
  if token_limit is not null then
    offer.reserved_tokens := ai.reserved_tokens(request, most, token_limit);
  end if;
  offer.maximum_cost_usd := ai.maximum_cost_usd(offer.routes, most, request.service_tier, model.kind = 'speech');
  offer.refusal := case
    when offer.routes is null then ai.refusal('model_not_found')
    when (most.audio > 0 or request.audio) and jsonb_path_exists(offer.routes, '$[*].prices[*] ? (!exists (@.audio_input))')
      then ai.refusal('unsupported_parameter', '{"param": "messages"}')
    when not ai.is_tier_priced(offer.routes, request.service_tier)
      then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
    when offer.maximum_cost_usd is null then ai.refusal('service_unavailable')
    when offer.reserved_tokens > token_limit then ai.token_limit_refusal(caller, most, offer.reserved_tokens)
  end;
  return offer;
end
$$;

create or replace function ai.priced_routes(model text, providers text[]) returns jsonb
  language plpgsql
  stable
  security invoker
as $$
begin
  return (
    select jsonb_agg(
      jsonb_build_object('position', r.position, 'provider', r.provider_id, 'model', r.provider_model, 'prices', p.tiers)
      || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
      || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
      || case
        when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
        else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
          'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
        )))
      end
      order by r.position
    )
    from ai.model_routes r
    cross join lateral (
      select jsonb_agg(t.as_offered order by t.service_tier <> 'default', t.service_tier, t.min_input_tokens) as tiers
      from ai.model_prices t
      where t.model_id = r.model_id and t.provider_id = r.provider_id and t.valid @> now()
    ) as p
    where r.model_id = model and r.enabled and p.tiers is not null and r.provider_id = any (providers)
  );
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
        scope, ai.budget_subject(scope, run.key_lineage_id, run.app_id, run.workspace_id), run.workspace_id
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

create or replace function ai.settle_batch(reports ai.run_report[], idle_since timestamptz) returns jsonb
  language plpgsql
  volatile
  security invoker
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

create or replace function ai.compute_settlement(outcome ai.run_outcome, run ai.runs, idle_since timestamptz) returns ai.closed_run
  language plpgsql
  stable
  security invoker
as $$
declare
  open boolean := run.status = 'running';
  before ai.runs := run;
  cost_usd numeric(24, 12) := coalesce(outcome.cost_usd, 0);
  credits numeric(24, 8) := coalesce(outcome.credits, 0);
  billed_credits numeric(24, 8) := case when run.exempt then 0 else credits end;
begin
  -- Open runs; and those that the sweep closed, when the provider's own counts arrive later.
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
    -- Closed without any count: the reservation is shown, not charged.
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

create or replace function ai.record_failed_attempts(closed ai.closed_run[]) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
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
  -- A skipped route was not asked, and a client that left is not the provider's failure.
  where a.failure not in ('skipped', 'cancelled')
$$;

-- Definer: the server's service role holds no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 10000) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  -- Rows that are in use stay.
  delete from ai.idempotency_keys i
  using (
    select e.workspace_id, e.principal_id, e.key
    from ai.idempotency_keys e
    where e.expires_at <= now()
    order by e.expires_at
    limit at_most
    for update skip locked
  ) as expired
  where i.workspace_id = expired.workspace_id and i.principal_id = expired.principal_id and i.key = expired.key;
  get diagnostics keys = row_count;

  delete from ai.rate_windows w
  using (
    select o.scope, o.subject_id
    from ai.rate_windows o
    where o.window_start < now() - interval '1 hour'
    limit at_most
    for update skip locked
  ) as old
  where w.scope = old.scope and w.subject_id = old.subject_id;
  get diagnostics windows = row_count;

  delete from ai.failed_attempts f
  using (
    select o.id
    from ai.failed_attempts o
    where o.at < now() - interval '7 days'
    order by o.at
    limit at_most
    for update skip locked
  ) as old
  where f.id = old.id;
  get diagnostics attempts = row_count;
  return keys + windows + attempts;
end
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
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict
  )
  select
    id, id, workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'), issue_key.lookup,
    decode(issue_key.secret_hash, 'hex'), app,
    case when jsonb_typeof(key -> 'allowedModels') = 'array'
      then array(select jsonb_array_elements_text(key -> 'allowedModels')) end,
    case when jsonb_typeof(key -> 'allowedAddresses') = 'array'
      then array(select address::cidr from jsonb_array_elements_text(key -> 'allowedAddresses') as address) end,
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false)
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
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict
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

-- Definer: as ai.list_runs.
create or replace function ai.read_run(member_id uuid, workspace uuid, run_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  found_run ai.runs := ai.find_run(run_id);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if found_run.workspace_id is distinct from workspace then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object('outcome', 'read') || ai.run_detail(found_run, ai.cost_visible(workspace));
end
$$;

create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select r
  from ai.runs r,
    -- The id is a UUID version 7 of its creation, so that it names its partition.
    to_timestamp(('x' || substr(replace(run_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) as begun
  where r.id = run_id and r.created_at >= begun - interval '1 second' and r.created_at < begun + interval '1 second'
$$;

create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible),
    'steps', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'step', s.step, 'type', s.type, 'name', s.name, 'status', s.status, 'latencyMs', s.latency_ms
      ) order by s.step), '[]')
      from jsonb_to_recordset((run).steps) as s (step smallint, type text, name text, status text, latency_ms integer)
    ),
    'attempts', case when cost_visible then (
      select coalesce(jsonb_agg(jsonb_build_object(
        'route', a.route,
        'provider', a.provider,
        'model', a.model,
        'status', a.status,
        'failure', a.failure,
        'upstreamRequestId', a.upstream_request_id,
        'mayHaveCharged', coalesce(a.may_have_charged, false),
        'latencyMs', a.latency_ms
      ) order by a.position), '[]')
      from rows from (jsonb_to_recordset((run).attempts) as (
        route smallint, provider text, model text, status smallint, failure text, upstream_request_id text,
        may_have_charged boolean, latency_ms integer
      )) with ordinality as a (
        route, provider, model, status, failure, upstream_request_id, may_have_charged, latency_ms, position
      )
    ) end,
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end
  )
$$;

create or replace function ai.run_summary(run ai.runs, cost_visible boolean) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (run).id,
    'requestId', (run).request_id,
    'createdAt', (run).created_at,
    'settledAt', (run).settled_at,
    'model', (run).model_id,
    'feature', (run).feature,
    'entityId', (run).entity_id,
    'credentialSource', (run).credential_source,
    'executionMode', (run).execution_mode,
    'keyId', (run).key_id,
    'keyName', (select k.name from ai.keys k where k.id = (run).key_id),
    'appId', (run).app_id,
    'userId', case when (run).credential_source <> 'key' then (run).actor_id end,
    'streamed', (run).streamed,
    'status', (run).status,
    'httpStatus', (run).http_status,
    'errorCode', (run).error_code,
    'usageSource', (run).usage_source,
    'inputTokens', (run).input_tokens,
    'cachedInputTokens', (run).cached_input_tokens,
    'outputTokens', (run).output_tokens,
    'reasoningTokens', (run).reasoning_tokens,
    'audioInputTokens', (run).audio_input_tokens,
    'audioOutputTokens', (run).audio_output_tokens,
    'cacheWriteTokens', (run).cache_write_tokens + (run).cache_write_1h_tokens,
    'imageInputTokens', (run).image_input_tokens,
    'feeRequests', (run).fee_requests,
    'servedTier', case when cost_visible then (run).served_tier end,
    'marks', (run).marks,
    'billedCredits', trim_scale((run).billed_credits)::text,
    'unmeteredCredits', trim_scale((run).unmetered_credits)::text,
    'costUsd', case when cost_visible then trim_scale((run).cost_usd)::text end,
    'firstByteMs', (run).first_byte_ms,
    'latencyMs', (run).latency_ms
  )
$$;

create or replace function private.find_runs(term text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', r.id,
    'createdAt', r.created_at,
    'workspaceId', r.workspace_id,
    'workspaceName', w.name,
    'model', r.model_id,
    'status', r.status,
    'errorCode', r.error_code
  ) order by r.created_at desc, r.id desc), '[]')
  from (
    select f.* from ai.find_run(private.uuid_or_null(term)) as f where f.id is not null
    union
    (
      select of_workspace.*
      from public.workspaces s
      -- The index of request ids begins with the workspace.
      cross join lateral (
        select * from ai.runs r
        where r.workspace_id = s.id and r.request_id = term and r.created_at > now() - interval '31 days'
      ) as of_workspace
      order by of_workspace.created_at desc
      limit 20
    )
  ) as r
  left join public.workspaces w on w.id = r.workspace_id
$$;

create or replace function private.read_run(run_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select ai.run_detail(r, true) || jsonb_build_object(
    'workspace', jsonb_build_object('id', r.workspace_id, 'name', w.name),
    'billing', jsonb_build_object('name', r.billing_name, 'account', r.billing_account)
  )
  from ai.find_run(run_id) as r
  left join public.workspaces w on w.id = r.workspace_id
  where r.id is not null
$$;

create or replace function ai.model_listing(model ai.models, routes jsonb) returns jsonb
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
      'prices', coalesce(ai.listed_prices(routes -> 0 -> 'prices'), '[]')
    ) || jsonb_strip_nulls(jsonb_build_object(
      'voices', model.voices,
      'default', nullif(model.is_default, false),
      'routes', (
        select jsonb_agg(
          jsonb_build_object(
            'provider', route -> 'provider',
            'model', route -> 'model',
            'prices', ai.listed_prices(route -> 'prices'),
            'tier_multipliers', route -> 'tier_multipliers'
          )
          order by place
        )
        from jsonb_array_elements(routes) with ordinality as r (route, place)
      )
    ))
  )
$$;

comment on function ai.delete_expired(integer) is
  'Deletes up to at_most expired idempotency keys, as many rate windows older than an hour and as many failed attempts older '
  'than seven days. Returns their number; 0 while another deletion runs.';

comment on function ai.find_offer(ai.run_request, ai.caller, ai.priced_call) is
  'Returns the model of a call with its routes, prices, output limit and maximum cost for a caller; or, in refusal, why there '
  'is none. An output limit that the caller did not state is lowered to the model''s and to what the context window has room '
  'for; to 2,048 where the model''s is unknown. '
  'Calls of a batch for one model read its routes once.';

comment on function ai.lock_outcomes(jsonb) is 'Locks the runs of outcomes, then their rate windows, budgets and balances.';

comment on function ai.model_listing(ai.models, jsonb) is
  'Returns a model as OpenAI lists it, with its limits, its prices at the first route, and its routes with their prices. '
  'Without routes, prices are left out.';

comment on function ai.read_run(uuid, uuid, uuid) is
  'Returns a run for a member with use_ai_studio: { outcome: read } with the members of ai.run_detail, or { outcome: '
  'not_found or not_allowed }.';

comment on function ai.run_summary(ai.runs, boolean) is
  'A run for its workspace''s members. servedTier and costUsd are null where the workspace''s policy hides what providers '
  'charge.';

comment on function ai.current_window(text, uuid) is 'Returns what a rate window counts; nulls without one. The window is locked.';

comment on function ai.find_run(uuid) is 'Returns a run by its id alone; nulls where there is none.';

comment on function ai.limit_refusal(text, ai.caller) is
  'Returns a refusal by a limit, budget or balance, with all rate limits of the caller and what they count.';

comment on function ai.listed_prices(jsonb) is
  'Returns the prices of a route as the list of models has them: numbers with all their digits, and their unit in the name.';

comment on function ai.record_failed_attempts(ai.closed_run[]) is
  'Copies the failed attempts of closed runs to ai.failed_attempts.';

comment on function ai.reserved_tokens(ai.run_request, ai.token_use, bigint) is
  'Returns what a call counts in rate windows until it is settled: its input and its output limit; without an output limit '
  'of the caller''s, 500 tokens a choice, as far as the token limit has room for them.';

comment on function ai.return_tokens(text, uuid, ai.rate_window_use, bigint) is
  'Takes the tokens of a call that another limit refused out of a rate window again. The request stays counted.';

comment on function ai.run_detail(ai.runs, boolean) is
  'Returns { run, steps, attempts, answeredBy }: a run''s summary, what it did, its requests to providers, and the route that '
  'answered with its prices of then. attempts and answeredBy are null where provider cost is hidden.';

comment on function ai.settle_rate_windows(ai.closed_run[], bigint[]) is
  'Changes what closed runs count in the rate windows that hold their tokens. The windows are locked and current, or later; '
  'the changes are in the order of the runs, null for a run whose windows are past.';

comment on function ai.token_limit_refusal(ai.caller, ai.token_use, bigint) is
  'Refuses a call that counts more tokens than a whole token limit of its key or workspace: no later minute has room for it.';

comment on function private.find_runs(text) is
  'Returns the run with an id, and the newest 20 runs of the last 31 days with a request id.';

comment on function private.list_provider_routes() is
  'Returns each enabled model with its routes in order: whether they have a current price, and what failed in the last seven days.';

comment on function private.read_run(uuid) is
  'Returns ai.run_detail of any run with its workspace and who bills it, with the facts that the workspace hides from its '
  'members; null where the run does not exist.';

grant execute on function ai.find_run(uuid) to service_role;

grant execute on function ai.priced_routes(text, text[]) to service_role;

grant execute on function ai.run_detail(ai.runs, boolean) to service_role;

grant execute on function ai.run_summary(ai.runs, boolean) to service_role;

grant execute on function private.find_runs(text) to service_role;

grant execute on function private.list_provider_routes() to service_role;

grant execute on function private.read_run(uuid) to service_role;

grant execute on function private.uuid_or_null(text) to service_role;
