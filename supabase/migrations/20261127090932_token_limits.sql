-- Generated from supabase/schemas by npm run db:migration.

drop function ai.limit_refusal(text, text);

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

  -- As text: building JSON from values looks up how each type is written.
  return format(
    '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,"credits_per_usd":"%s","exempt":%s,'
    '"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,"cost_visible":%s,"capture":%s,"limits":%s}',
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
    (exempt or caller.cost_visible)::text,
    caller.capture::text,
    ai.call_limits(caller, key_window, held.workspace_window)
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
  most ai.token_use := ai.maximum_use(request);
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
  if model.kind = 'speech' then
    most.output := least(most.output, model.output_limit);
  end if;

  offer.model_id := model.id;
  offer.voice := coalesce(request.voice, model.voices[1]);
  offer.routes := case
    when model.id = (previous.offer).model_id and request.providers = (previous.request).providers then (previous.offer).routes
    else ai.priced_routes(model.id, request.providers)
  end;
  offer.context_window := model.context_window;
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
    touched_at = now(),
    settled_at = now(),
    swept = idle_since is not null
  from unnest(closed) as c
  where r.created_at = (c.run).created_at and r.id = (c.run).id
    and r.created_at >= first_begun and r.created_at <= last_begun;
  if have_keys then
    perform ai.complete_idempotency_keys(closed);
  end if;
  return ended;
end
$$;

comment on function ai.lock_outcomes(jsonb) is 'Locks the runs of outcomes, then their rate windows, budgets and balances.';

comment on function ai.current_window(text, uuid) is 'Returns what a rate window counts; nulls without one. The window is locked.';

comment on function ai.limit_refusal(text, ai.caller) is
  'Returns a refusal by a limit, budget or balance, with all rate limits of the caller and what they count.';

comment on function ai.reserved_tokens(ai.run_request, ai.token_use, bigint) is
  'Returns what a call counts in rate windows until it is settled: its input and its output limit; without an output limit '
  'of the caller''s, 500 tokens a choice, as far as the token limit has room for them.';

comment on function ai.return_tokens(text, uuid, ai.rate_window_use, bigint) is
  'Takes the tokens of a call that another limit refused out of a rate window again. The request stays counted.';

comment on function ai.settle_rate_windows(ai.closed_run[], bigint[]) is
  'Changes what closed runs count in the rate windows that hold their tokens. The windows are locked and current, or later; '
  'the changes are in the order of the runs, null for a run whose windows are past.';

comment on function ai.token_limit_refusal(ai.caller, ai.token_use, bigint) is
  'Refuses a call that counts more tokens than a whole token limit of its key or workspace: no later minute has room for it.';
