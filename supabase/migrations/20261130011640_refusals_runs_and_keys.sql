-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

drop function ai.find_runs_of_page(uuid, uuid, jsonb, jsonb, integer, integer);

drop function ai.key_summaries(uuid, ai.keys[]);

drop function ai.latency_quantiles(numeric);

drop function ai.latency_summary(numeric, numeric);

drop function ai.list_keys(uuid, uuid, jsonb, integer);

drop function ai.list_run_rows(uuid, uuid, jsonb, jsonb, integer, integer);

drop function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer);

drop function ai.read_keys_page(uuid, uuid, jsonb, integer);

drop function ai.read_run(uuid, uuid, uuid);

drop function ai.read_run_page(uuid, uuid, uuid);

drop function ai.read_runs_page(uuid, uuid, jsonb, jsonb, integer, integer);

drop function public.list_workspace_roles(uuid);

-- Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent,
-- provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed, proven }], otherSessions: { key,
-- count, isNew } }. Returns null if the account doesn't exist. The entries come from private.account_credentials; an
-- app and a device's login have one entry each. ways contains at most max_sessions sessions: the calling session, then
-- the most recently refreshed. otherSessions counts the remaining sessions, up to 1,001. kind is password, identity,
-- passkey, authenticator, recovery_codes, recovery_mail, session, phone_approval, app, device or agent. isNew is true
-- if the entry was added after the owner last confirmed the list or, without a confirmation, after the account was
-- created. In a session that began with a password reset or recovery, only confirmations by such sessions count. proven
-- is true for the authenticator whose code the calling session entered, which shows that the caller has that app.
-- device and address are null if no event records where the entry was added.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, max_sessions integer default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- A session that began with a password reset or recovery counts only confirmations by such sessions. An intruder
    -- who knew the password could have confirmed their own additions in any other session.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      c.listed_as as key,
      split_part(c.listed_as, ':', 1) as kind,
      nullif(split_part(c.listed_as, ':', 2), '') as id,
      -- A client may act for the account at several resources.
      string_agg(distinct c.name, ', ') as name,
      null::text as user_agent,
      null::text as address,
      max(c.provider) as provider,
      -- An app that was connected several times counts as added at its latest connection.
      max(case
        -- Supabase Auth creates a new account and its first identity in one call, but reads the clock twice.
        when c.kind = 'identity' and c.added_at < a.created_at + interval '500 milliseconds' then a.created_at
        else c.added_at
      end) as added_at,
      max(case when c.kind = 'password' then (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) else c.last_used_at end) as last_used_at,
      (array_agg(case
        when c.kind = 'password' then (
          select v.id
          from public.security_events v
          where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
          order by v.created_at desc, v.id
          limit 1
        )
        when c.kind = 'identity' then private.addition_event(a.id, c.id, 'identity_linked')
        when c.kind = 'passkey' then private.addition_event(a.id, c.id, 'passkey_added')
        when c.kind = 'authenticator' then private.addition_event(a.id, c.id, 'authenticator_added')
        when c.kind = 'device_request' then private.addition_event(a.id, c.id, 'device_approved')
        when c.session_id is null then private.addition_event(a.id, c.source_id, 'device_approved')
        else private.sign_in_event(a.id, c.session_id)
      end order by c.added_at desc, c.id))[1] as event_id
    from account a
    join private.account_credentials c on c.user_id = a.id
    where c.kind <> 'session'
      and c.is_live
      and (c.kind <> 'identity' or c.provider not in ('email', 'phone'))
      -- An approval of the calling session is part of that session.
      and (c.kind <> 'phone_approval' or c.session_id is distinct from actor_session_id)
    group by c.listed_as

    union all
    select
      'session:' || s.id, 'session', s.id::text, s.device, s.user_agent, s.ip, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => max_sessions) s
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', w.key,
        'kind', w.kind,
        'id', w.id,
        'name', case w.kind
          when 'device' then w.name || coalesce(' (' || (e.details ->> 'requester') || ')', '')
          else w.name
        end,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then w.address else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null,
        'proven', w.kind = 'authenticator' and exists (
          select
          from auth.sessions s
          where s.id = actor_session_id and s.user_id = a.id and s.aal = 'aal2' and s.factor_id::text = w.id
        )
      ) order by array_position(array[
        'password', 'identity', 'passkey', 'authenticator', 'recovery_codes', 'recovery_mail', 'session',
        'phone_approval', 'app', 'device', 'agent'
      ], w.kind), d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- The row may be older than the addition: an authenticator's row dates from the start of enrolment, a link's from
      -- the visit to the provider, and a copied session's from the original sign-in.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, max_sessions),
        'isNew', exists (
          select
          from private.account_credentials c
          where c.user_id = a.id and c.kind = 'session' and c.is_live and c.added_at > a.since
            and c.listed_as not in (select w.key from ways w)
        )
      )
      from private.count_account_sessions(a.id, max_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

-- Gives a new account the name that its owner typed at sign-up, and its personal workspace the name that follows.
-- Definer: the service role cannot update profiles.
create or replace function private.name_new_account(subject_id uuid, display_name text) returns void
  language sql volatile security definer set search_path = ''
as $$
  update public.profiles p set display_name = name_new_account.display_name where p.id = subject_id;
  update public.workspaces w
  set name = private.personal_workspace_name(name_new_account.display_name)
  where w.personal_user_id = subject_id;
$$;

-- Returns whether the owner is emailed about events of this kind. Excludes sign-ins, which are emailed only if they
-- come from a new location.
create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'device_approved', 'email_changed',
    'identity_linked', 'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_sign_in',
    'recovery_code_used', 'recovery_codes_created', 'session_revoked', 'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

-- Stores the records of a call, each independently of the others. Returns { results }, which has a result of
-- ai.store_provider_cost for each record in the order of the call, or { refused } if the credential does not allow
-- imports.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.import_provider_costs(call jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  item record;
  results jsonb[] := '{}';
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  perform ai.record_key_use(array[caller.key_id]);
  -- Stores the records in a fixed order, so that concurrent batches cannot deadlock.
  for item in
    select r.value as record, r.ordinality::integer as place
    from jsonb_array_elements(call -> 'records') with ordinality as r
    order by
      ai.provider_name(r.value ->> 'provider') collate "C", r.value ->> 'accountId' collate "C",
      r.value ->> 'externalRunId' collate "C", r.ordinality
  loop
    results[item.place] := ai.store_provider_cost(caller.workspace_id, caller.app_id, item.record);
  end loop;
  return jsonb_build_object('results', to_jsonb(results));
end
$$;

-- Stores an invoice that an app sends. Returns the result of ai.store_provider_invoice, or { refused } if the
-- credential does not allow imports.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.import_provider_invoice(call jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  answer jsonb;
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  perform ai.record_key_use(array[caller.key_id]);
  answer := ai.store_provider_invoice(caller.workspace_id, caller.app_id, call -> 'record');
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      caller.workspace_id, caller.app_id, call -> 'record' || jsonb_build_object('id', answer -> 'id'),
      jsonb_build_object('actor', case when caller.source = 'app_token' then caller.actor_id end)
    );
  end if;
  return answer;
end
$$;

-- Prices the calls, reserves their maximum costs and opens the runs of those that fit. Returns the results of
-- ai.begin_runs, in the order of the calls.
create or replace function ai.admit_calls(calls jsonb) returns text[]
  language plpgsql volatile security invoker
  -- Every query finds its rows by key. These settings force index lookups in a generic plan, so that wrong statistics
  -- can't lead to a slow plan, and avoid hash tables, which are slow to create for a few rows.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set enable_material = off set enable_hashagg = off set enable_memoize = off set jit = off
as $$
declare
  claims ai.claim[] := ai.price_calls(calls);
  claim ai.claim;
  opens_accounts boolean := false;
  stores_keys boolean := false;
  answers text[] := '{}';
  -- Many refusals in one batch are a storm. Suggestions for all of them would hold the locks of admitted calls for long.
  max_suggestions constant integer := 4;
  suggestions integer := 0;
begin
  foreach claim in array claims loop
    opens_accounts := opens_accounts
      or claim.refusal is null and claim.account_id is null and ai.payer_id(claim.caller) is not null;
    stores_keys := stores_keys or (claim.request).idempotency_key is not null;
  end loop;
  if opens_accounts then
    -- In the order of their owners' ids, so that two batches can't deadlock.
    perform ai.open_credit_account(o.payer, o.id, o.initial_credits)
    from (
      select distinct (c.caller).payer, ai.payer_id(c.caller) as id, (c.caller).initial_credits
      from unnest(claims) as c
      where c.refusal is null and c.account_id is null and ai.payer_id(c.caller) is not null
      order by 2
    ) as o;
    claims := ai.price_calls(calls);
  end if;
  claims := ai.reserve(claims);
  for place in 1..cardinality(claims) loop
    if claims[place].refusal is not null then
      claims[place].refusal := ai.explain_refusal(claims[place], with_suggestions => suggestions < max_suggestions);
      suggestions := suggestions + 1;
    end if;
    answers[place] := claims[place].refusal::text;
  end loop;
  if array_position(answers, null) is null then
    return answers;
  end if;
  with opened as (
    insert into ai.runs (
      id, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, idempotency_key, streamed, model_id, routes, markup, exempt, account_id, reserved_usd, reserved_credits,
      budget_scopes, reserved_tokens, tokens_reserved_at
    )
    select
      c.run_id, (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, case (c.caller).source when 'key' then 'background' else 'interactive' end,
      (c.request).feature, (c.request).request_id, c.label, (c.request).idempotency_key,
      coalesce((c.request).streamed, false), c.model_id, c.routes, (c.caller).markup, ai.payer_id(c.caller) is null,
      c.account_id, c.cost_usd, c.credits, c.budget_scopes, c.tokens, case when c.tokens is not null then c.minute end
    from unnest(claims) as c
    where c.refusal is null
  )
  select
    -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
    array_agg(coalesce(c.refusal::text, format(
      '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,'
      '"credits_per_usd":"%s","exempt":%s,"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,'
      '"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s}',
      c.run_id, to_json(now()), (c.caller).workspace_id, to_json(c.model_id), coalesce(c.context_window::text, 'null'),
      coalesce(to_json(c.voice), 'null'), c.routes, ai.credits_per_usd((c.caller).markup),
      (ai.payer_id(c.caller) is null)::text, c.cost_usd, c.credits, coalesce(c.tokens::text, 'null'),
      coalesce(c.output_limit::text, 'null'), (ai.payer_id(c.caller) is null or (c.caller).cost_visible)::text,
      (c.caller).capture::text, c.limits, coalesce(to_json((c.caller).key_name), 'null'),
      coalesce((c.caller).is_strict, false)::text
    )) order by c.ordinality)
  into answers
  from unnest(claims) with ordinality as c;
  if stores_keys then
    insert into ai.idempotency_keys as i (workspace_id, principal_id, key, fingerprint, run_created_at, run_id)
    select
      (c.caller).workspace_id, ai.principal_id(c.caller), (c.request).idempotency_key,
      decode((c.request).fingerprint, 'hex'), now(), c.run_id
    from unnest(claims) as c
    where c.refusal is null and (c.request).idempotency_key is not null
    on conflict (workspace_id, principal_id, key) do update
    set fingerprint = excluded.fingerprint, state = 'running', run_created_at = excluded.run_created_at,
      run_id = excluded.run_id, expires_at = excluded.expires_at;
  end if;
  return answers;
end
$$;

-- Returns those of the required scopes that a caller lacks.
create or replace function ai.missing_scopes(caller ai.caller, required text[]) returns jsonb
  language sql immutable security invoker
as $$
  select jsonb_build_object(
    'kind', 'scope',
    'scopes', array(select s.scope from unnest(required) as s (scope) where not s.scope = any (coalesce((caller).scopes, '{}')))
  )
$$;

-- Returns the models that a credential may use now, in OpenAI's format and in the order of ai.model_order, or {refused:
-- code}. A model is left out if no provider can serve it or its calls have no price. If the call has model, returns
-- only that model. If the call has paths, [{ path, kind, providers }], returns the list as text and adds endpoints.
-- endpoints has, for each model, the paths of the model's kind that at least one of its providers serves. regions has the
-- regions of a model's providers, and unknown for a provider without one. credits_per_usd is what one USD of provider
-- cost takes from the balance, null if the calls are free of credits. Until 0.4.0: gateways of release 0.2.0 state no
-- regions.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.list_models(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  request ai.run_request := jsonb_populate_record(null::ai.run_request, call);
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
  shows_prices boolean := caller.cost_visible or caller.app_id is not null;
  credits_per_usd numeric := case
    when ai.payer_id(caller) is not null then trim_scale(ai.credits_per_usd(caller.markup))
  end;
  usable_providers text[] := case
    when caller.allowed_regions is null then request.providers
    else ai.providers_in_regions(request.providers, request.regions, caller.allowed_regions)
  end;
  -- The models as JSON text, because building one jsonb from all models would be slow.
  listed text;
  endpoints jsonb;
begin
  if refusal is not null then
    return refusal;
  end if;
  -- Reads all models in one pass. With a large catalogue, calling a function for each model would take most of the
  -- query's time.
  with usable as (
    select m.*, ai.model_order(m) as sorts_as
    from ai.usable_models(
      caller.workspace_id, caller.plan_id, caller.workspace_models, caller.denied_models, caller.key_models
    ) m
    where request.model is null or m.id = request.model
  ),
  routes as (
    select
      p.model_id, p.place, p.provider_id,
      case when shows_prices then jsonb_build_object(
        'provider', p.provider_id,
        'model', p.provider_model,
        'prices', (
          select jsonb_agg(ai.listed_price(t.price) order by t.place)
          from jsonb_array_elements(p.prices) with ordinality as t (price, place)
        )
      ) || case
        when p.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', p.tier_multipliers)
        else jsonb '{}'
      end end as listed
    from ai.open_routes(usable_providers) p
    where request.model is null or p.model_id = request.model
  ),
  served as (
    select
      r.model_id, jsonb_agg(r.listed order by r.place) as routes, array_agg(r.provider_id) as providers,
      jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown')) as regions
    from routes r
    group by r.model_id
  ),
  paths as materialized (
    select p.place, p.path ->> 'path' as path, p.path ->> 'kind' as kind,
      array(select jsonb_array_elements_text(p.path -> 'providers')) as providers
    from jsonb_array_elements(call -> 'paths') with ordinality as p (path, place)
  )
  select
    string_agg(jsonb_build_object(
      'id', u.id,
      'object', 'model',
      'created', floor(extract(epoch from u.created_at)),
      'owned_by', u.owned_by,
      'platform', jsonb_build_object(
        'name', u.display_name,
        'kind', u.kind,
        'context_window', u.context_window,
        'output_limit', u.output_limit,
        'default_output_limit', u.default_output_limit,
        'prices', case when shows_prices then s.routes -> 0 -> 'prices' else '[]' end
      )
      || case when u.voices is null then jsonb '{}' else jsonb_build_object('voices', u.voices) end
      || case when request.regions is null then jsonb '{}' else jsonb_build_object('regions', s.regions) end
      || case when u.is_default then jsonb '{"default": true}' else jsonb '{}' end
      || case
        when shows_prices then jsonb_build_object('routes', s.routes, 'credits_per_usd', credits_per_usd)
        else jsonb '{}'
      end
    )::text, ', ' order by u.sorts_as),
    coalesce(jsonb_agg(e.endpoints order by u.sorts_as), '[]')
  into listed, endpoints
  from usable u
  join served s on s.model_id = u.id
  cross join lateral (
    select coalesce(jsonb_agg(p.path order by p.place), '[]') as endpoints
    from paths p
    where p.kind = u.kind and p.providers && s.providers
  ) e;
  if request.model is null then
    listed := format('{"data": [%s], "object": "list"}', listed);
  elsif listed is null then
    return ai.refusal('model_not_found', ai.missing_model(request, caller));
  end if;
  return case when call ? 'paths' then jsonb_build_object('listing', listed, 'endpoints', endpoints) else listed::jsonb end;
end
$$;

-- Reserves the maximum cost of another provider call of an open run. Requires that the run's key is not revoked, that
-- its app's registration is still valid, and that rate limits, budgets and balance have room. A key that expires
-- meanwhile does not end a run, which ends with the longest call at the latest. Returns everything that is reserved for
-- the run, or {refused: code, …}.
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
    k.name, p.id, p.payer, coalesce(w.provider_cost_visible, true)
  into
    caller.entity_id, key_is_revoked, caller.key_requests_per_minute, caller.key_tokens_per_minute,
    caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute,
    caller.key_name, caller.plan_id, caller.payer, caller.cost_visible
  from public.workspaces s
  left join ai.plans p on p.id = s.plan_id
  left join ai.workspace_policies w on w.workspace_id = s.id
  left join ai.keys k on k.id = run.key_id
  where s.id = run.workspace_id and s.deleted_at is null;
  if not found or key_is_revoked then
    return ai.refusal('invalid_api_key');
  end if;
  caller.source := run.credential_source;
  caller.markup := run.markup;
  caller.lineage_id := run.key_lineage_id;
  caller.app_id := run.app_id;
  caller.actor_id := run.actor_id;
  caller.workspace_id := run.workspace_id;
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

  token_limit := least(caller.key_tokens_per_minute, caller.workspace_tokens_per_minute);
  if token_limit is not null then
    claim.tokens := ai.reserved_tokens(
      input_tokens, request.output_limit, request.choices, request.output_limit_assumed, token_limit
    );
    if claim.tokens > token_limit then
      claim.refusal := ai.token_limit_refusal(caller, input_tokens, claim.tokens);
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

-- Reserves provider calls in the rate windows, budgets and balances that they share, in the order of the calls. A call
-- that a limit refuses reserves nothing, but counts as a request in the rate windows before that limit. Returns the calls
-- with their limits and the start of their windows, or with the refusal, whose limit and room ai.explain_refusal turns
-- into what the caller may read. Not granted to any role, because it trusts its caller.
create or replace function ai.reserve(claims ai.claim[]) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
  locks ai.lock_list := ai.collect_locks(claims);
  locked record := ai.lock_rows(locks);
  -- The locked rows, which the loop changes and the end writes.
  windows ai.rate_windows[];
  budgets ai.budgets[] := locked.budgets;
  accounts ai.credit_accounts[] := locked.accounts;
  window_ids uuid[];
  budget_ids ai.limit_subject[];
  account_ids uuid[];
  claim ai.claim;
  -- The places of a call's rows, which are null for limits that it does not have.
  of_key integer;
  of_workspace integer;
  of_budgets integer[];
  scopes text[];
  of_account integer;
  of_budget integer;
  full_budget integer;
  full_scope text;
  scope text;
  earlier ai.idempotency_keys;
  tokens bigint;
  refused_by text;
  frees boolean;
  room_usd numeric;
  has_counted boolean := false;
  has_reserved boolean := false;
  has_refused boolean := false;
begin
  if locks.rate_windows is not null then
    windows := array(
      select w
      from ai.rate_windows w
      where w.subject_id = any (array(select s.subject_id from unnest(locks.rate_windows) as s))
    );
  end if;
  for place in 1..coalesce(cardinality(windows), 0) loop
    window_ids[place] := windows[place].subject_id;
  end loop;
  for place in 1..coalesce(cardinality(budgets), 0) loop
    budget_ids[place] := row(budgets[place].scope, budgets[place].subject_id, budgets[place].workspace_id)::ai.limit_subject;
  end loop;
  for place in 1..coalesce(cardinality(accounts), 0) loop
    account_ids[place] := accounts[place].id;
  end loop;

  -- Decides in memory, because a call must find what the calls before it have left of every limit.
  for place in 1..cardinality(claims) loop
    claim := claims[place];
    continue when claim.refusal is not null;
    earlier := null;
    if (claim.request).idempotency_key is not null then
      select i.* into earlier
      from ai.idempotency_keys i
      where i.workspace_id = (claim.caller).workspace_id
        and i.principal_id = ai.principal_id(claim.caller)
        and i.key = (claim.request).idempotency_key
        and i.expires_at > now();
    end if;
    of_key := case
      when num_nonnulls((claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).lineage_id), 0)
    end;
    of_workspace := case
      when num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).workspace_id), 0)
    end;
    of_account := case
      when claim.account_id is not null and (claim.request).is_free is not true then coalesce(array_position(account_ids, claim.account_id), 0)
    end;
    of_budgets := '{}';
    scopes := '{}';
    full_budget := null;
    full_scope := null;
    if budgets is not null and claim.budget_scopes is not null then
      foreach scope in array claim.budget_scopes loop
        of_budget := array_position(budget_ids, ai.claimed_budget(claim, scope));
        continue when of_budget is null;
        of_budgets := of_budgets || of_budget;
        scopes := scopes || scope;
        if full_scope is null and not ai.fits_budget(claim, budgets[of_budget], month) then
          full_budget := of_budget;
          full_scope := scope;
        end if;
      end loop;
    end if;
    claim.budget_scopes := scopes;
    -- In the window of the run's last reservation, replaces the tokens that earlier steps reserved and did not use.
    tokens := claim.tokens - case
      when claim.minute = greatest(windows[of_key].window_start, windows[of_workspace].window_start)
        then claim.replaced_tokens
      else 0
    end;
    refused_by := case
      when of_key is not null and not ai.fits_window(
        windows[of_key], claim.requests, case when earlier.key is null then tokens else 0 end,
        (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
      ) then 'key_window'
      when earlier.key is not null then 'idempotency'
      when full_scope <> 'workspace' then 'budget'
      when of_workspace is not null and not ai.fits_window(
        windows[of_workspace], claim.requests, tokens,
        (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
      ) then 'workspace_window'
      when full_scope is not null then 'workspace_budget'
      when not coalesce(accounts[of_account].balance - accounts[of_account].reserved >= claim.credits, of_account is null)
        then 'balance'
    end;

    has_counted := has_counted or refused_by is distinct from 'key_window';
    if of_key is not null and refused_by is distinct from 'key_window' then
      windows[of_key].requests := windows[of_key].requests + claim.requests;
    end if;
    if of_workspace is not null and coalesce(refused_by in ('workspace_budget', 'balance'), true) then
      windows[of_workspace].requests := windows[of_workspace].requests + claim.requests;
    end if;
    if refused_by is null then
      has_reserved := true;
      if of_key is not null then
        windows[of_key].tokens := windows[of_key].tokens + coalesce(tokens, 0);
      end if;
      if of_workspace is not null then
        windows[of_workspace].tokens := windows[of_workspace].tokens + coalesce(tokens, 0);
      end if;
      foreach of_budget in array of_budgets loop
        budgets[of_budget].spent_usd := ai.spent_since(budgets[of_budget], month);
        budgets[of_budget].period_start := greatest(budgets[of_budget].period_start, month);
        budgets[of_budget].reserved_usd := budgets[of_budget].reserved_usd + claim.cost_usd;
      end loop;
      if of_account is not null then
        accounts[of_account].reserved := accounts[of_account].reserved + claim.credits;
      end if;
    elsif refused_by in ('budget', 'workspace_budget') then
      -- Stores the time of the month's first refusal, and of later refusals at most once a minute.
      if budgets[full_budget].reserved_usd + claim.cost_usd + ai.spent_since(budgets[full_budget], month)
          > budgets[full_budget].limit_usd
        and coalesce(
          budgets[full_budget].refused_at < greatest(now() - interval '1 minute', month::timestamp at time zone 'UTC'), true
        ) then
        budgets[full_budget].refused_at := now();
        has_refused := true;
      end if;
    elsif refused_by = 'balance' and of_account > 0 then
      if coalesce(accounts[of_account].refused_at < now() - interval '1 minute', true) then
        accounts[of_account].refused_at := now();
        has_refused := true;
      end if;
    end if;

    claim.minute := greatest(windows[of_key].window_start, windows[of_workspace].window_start);
    claim.limits := ai.rate_limit_headers(
      coalesce(windows[of_key].window_start, windows[of_workspace].window_start), array[
        (claim.caller).key_requests_per_minute, windows[of_key].requests,
        (claim.caller).key_tokens_per_minute, windows[of_key].tokens,
        (claim.caller).workspace_requests_per_minute, windows[of_workspace].requests,
        (claim.caller).workspace_tokens_per_minute, windows[of_workspace].tokens
      ]
    );
    if refused_by = 'idempotency' then
      claim.refusal := ai.idempotent_refusal(earlier, decode((claim.request).fingerprint, 'hex'));
    elsif refused_by is not null then
      -- Whether the budgets and the balance had room if no other call reserved anything. If so, the call may be admitted
      -- as soon as running calls are settled.
      frees := refused_by in ('budget', 'workspace_budget', 'balance')
        and coalesce(accounts[of_account].balance >= claim.credits, claim.credits = 0);
      room_usd := null;
      foreach of_budget in array of_budgets loop
        frees := frees and ai.fits_when_settled(claim, budgets[of_budget]);
        room_usd := least(room_usd, ai.budget_room(claim, budgets[of_budget], month));
      end loop;
      claim.refusal := ai.refusal(
        case refused_by
          when 'key_window' then 'rate_limit_exceeded'
          when 'workspace_window' then 'rate_limit_exceeded'
          when 'balance' then 'insufficient_credits'
          else 'budget_exceeded'
        end,
        case
          when coalesce(of_key, of_workspace) is not null then jsonb_build_object('limits', claim.limits::json, 'at', now())
          else '{}'
        end || case when frees then jsonb '{"frees": true}' else '{}' end || jsonb_build_object(
          'limit', case
            when refused_by = 'key_window' then ai.window_limit(
              'key', windows[of_key], claim.requests, tokens,
              (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
            )
            when refused_by = 'workspace_window' then ai.window_limit(
              'workspace', windows[of_workspace], claim.requests, tokens,
              (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
            )
            when refused_by = 'balance' then ai.balance_limit(accounts[of_account])
            else ai.budget_limit(budgets[full_budget], month)
          end,
          'room', jsonb_build_object(
            'usd', room_usd,
            'credits', accounts[of_account].balance - accounts[of_account].reserved,
            'tokens', claim.tokens - tokens + least(
              (claim.caller).key_tokens_per_minute - windows[of_key].tokens,
              (claim.caller).workspace_tokens_per_minute - windows[of_workspace].tokens
            )
          ),
          'need', case
            when refused_by in ('key_window', 'workspace_window') then jsonb_strip_nulls(jsonb_build_object('tokens', tokens))
            when refused_by = 'balance' then jsonb_build_object('credits', claim.credits)
            else jsonb_build_object('usd', claim.cost_usd)
          end
        )
      );
    end if;
    claims[place] := claim;
  end loop;

  if locks.keys is not null then
    perform ai.record_key_use(locks.keys);
  end if;
  if windows is not null and has_counted then
    update ai.rate_windows w set requests = n.requests, tokens = n.tokens
    from unnest(windows) as n
    where w.subject_id = any (window_ids) and w.subject_id = n.subject_id and w.scope = n.scope
      and (w.requests, w.tokens) <> (n.requests, n.tokens);
  end if;
  if budgets is not null and (has_reserved or has_refused) then
    update ai.budgets b
    set reserved_usd = n.reserved_usd, spent_usd = n.spent_usd, period_start = n.period_start, refused_at = n.refused_at
    from unnest(budgets) as n
    where b.scope = n.scope and b.subject_id = n.subject_id and b.workspace_id = n.workspace_id
      and b is distinct from n;
  end if;
  if accounts is not null and (has_reserved or has_refused) then
    update ai.credit_accounts a set reserved = n.reserved, refused_at = n.refused_at
    from unnest(accounts) as n
    where a.id = any (account_ids) and a.id = n.id and a is distinct from n;
  end if;
  return claims;
end
$$;

-- Returns what a budget has left for a call: null if the budget can't refuse it, less than nothing if it refuses every
-- call.
create or replace function ai.budget_room(claim ai.claim, budget ai.budgets, month date) returns numeric
  language sql immutable security invoker
as $$
  select case
    when (budget).scope = 'label' and ((claim).caller).entity_id is null then null
    when (budget).limit_usd = 0 then -1
    else (budget).limit_usd - (budget).reserved_usd - ai.spent_since(budget, month)
  end
$$;

-- Returns a budget as a refusal states it. ai.explain_refusal completes it for the caller.
create or replace function ai.budget_limit(budget ai.budgets, month date) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'budget', 'scope', (budget).scope, 'window', 'month',
    'resets_at', ai.utc_text((month + interval '1 month') at time zone 'UTC'),
    'limit_usd', trim_scale((budget).limit_usd),
    'spent_usd', trim_scale(ai.spent_since(budget, month)),
    'reserved_usd', trim_scale((budget).reserved_usd),
    'remaining_usd', trim_scale(greatest((budget).limit_usd - ai.spent_since(budget, month) - (budget).reserved_usd, 0))
  )
$$;

-- Returns a balance as a refusal states it.
create or replace function ai.balance_limit(account ai.credit_accounts) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'balance',
    'balance_credits', trim_scale((account).balance),
    'reserved_credits', trim_scale((account).reserved),
    'remaining_credits', trim_scale(greatest((account).balance - (account).reserved, 0))
  )
$$;

-- Returns a rate limit as a refusal states it: the limit of requests if that one is reached, otherwise that of tokens.
create or replace function ai.window_limit(
  scope text, counted ai.rate_windows, requests integer, tokens bigint, request_limit integer, token_limit bigint
) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'rate', 'scope', scope, 'unit', l.unit, 'window', 'minute',
    'resets_at', ai.utc_text(w.resets_at),
    'reset_seconds', greatest(ceil(extract(epoch from w.resets_at - now())), 1),
    'limit', l.maximum, 'used', l.used, 'remaining', greatest(l.maximum - l.used, 0)
  )
  from (select coalesce((counted).window_start, date_trunc('minute', now())) + interval '1 minute' as resets_at) as w
  cross join lateral (
    select 'requests' as unit, request_limit::bigint as maximum, coalesce((counted).requests, 0)::bigint as used
    where request_limit is not null and requests > 0 and (counted).requests + requests > request_limit
    union all
    select 'tokens', token_limit, coalesce((counted).tokens, 0) where token_limit is not null
    limit 1
  ) as l
$$;

-- Returns a call's refusal with what its caller may know about it. Amounts are left out if GET /v1/key would not show
-- them to this caller. fitting_output_limit is the highest output limit with which the same call fits all limits now, or
-- null if no limit does. run is the run that an extension belongs to. Without suggestions, says neither what would fit nor
-- which models and regions there are, because that takes longer than everything else.
create or replace function ai.explain_refusal(
  claim ai.claim, run ai.runs default null, with_suggestions boolean default true
) returns jsonb
  language plpgsql stable security invoker
as $$
declare
  caller ai.caller := claim.caller;
  request ai.run_request := claim.request;
  refusal jsonb := claim.refusal - 'room';
  room jsonb := claim.refusal -> 'room';
  reached jsonb := claim.refusal -> 'limit';
  token_limit jsonb := claim.refusal -> 'token_limit';
  is_exempt boolean := ai.payer_id(caller) is null;
  hides_balance boolean := caller.payer = 'member' and caller.source = 'key' and not is_exempt;
  fits bigint;
begin
  if refusal ->> 'refused' = 'model_not_found' then
    return refusal || case
      when with_suggestions then ai.missing_model(request, caller)
      else jsonb_strip_nulls(jsonb_build_object('model', request.model))
    end;
  elsif refusal ->> 'refused' = 'region_not_allowed' and with_suggestions then
    return refusal || jsonb_build_object(
      'allowed_regions', caller.allowed_regions,
      'regions', (
        select jsonb_agg(distinct coalesce(request.regions ->> r.provider_id, 'unknown'))
        from ai.open_routes(request.providers) r
        where r.model_id = claim.model_id
      )
    );
  elsif refusal #>> '{missing,kind}' = 'address' then
    return jsonb_set(refusal, '{missing,address}', coalesce(to_jsonb(host(request.address)), 'null'));
  elsif refusal ? 'model_output_limit' then
    return refusal || jsonb_build_object(
      'limit', jsonb_build_object('kind', 'model_output', 'limit', refusal -> 'model_output_limit'),
      'need', jsonb_build_object('tokens', request.output_limit),
      'fitting_output_limit', refusal -> 'model_output_limit'
    );
  elsif token_limit is not null then
    reached := jsonb_build_object(
      'kind', 'rate', 'scope', token_limit -> 'scope', 'unit', 'tokens', 'window', 'minute', 'limit', token_limit -> 'limit'
    );
    refusal := refusal || jsonb_build_object(
      'need', jsonb_build_object('tokens', token_limit -> 'counted', 'input_tokens', token_limit -> 'input')
    );
    if request.kind = 'chat' then
      refusal := refusal || jsonb_build_object('fitting_output_limit', nullif(greatest(
        ((token_limit ->> 'limit')::bigint - (token_limit ->> 'input')::bigint) / coalesce(request.choices, 1), 0
      ), 0));
    end if;
  elsif reached is null then
    return refusal;
  elsif with_suggestions and request.kind = 'chat' and reached ->> 'unit' is distinct from 'requests' then
    fits := case when not (hides_balance and reached ->> 'kind' = 'balance') then ai.fitting_output_limit(claim, room, run) end;
    -- With prices, an output limit that a balance determines would tell what another person has left.
    if not hides_balance or reached ->> 'kind' <> 'balance'
      and fits is not distinct from ai.fitting_output_limit(claim, room - 'credits', run) then
      refusal := refusal || jsonb_build_object('fitting_output_limit', fits);
    end if;
  end if;

  if run.id is not null then
    refusal := refusal || jsonb '{"is_step": true}';
  end if;
  if reached ->> 'kind' = 'budget' then
    reached := reached || jsonb_strip_nulls(jsonb_build_object('name', case reached ->> 'scope'
      when 'key' then caller.key_name
      when 'app' then (select a.display_name from private.apps a where a.id = caller.app_id)
      when 'label' then caller.entity_id
    end)) || case
      when reached ->> 'scope' = 'member' and caller.source <> 'key' then jsonb '{"is_caller": true}'
      else '{}'
    end;
    if not (is_exempt or caller.cost_visible) then
      reached := reached - array['limit_usd', 'spent_usd', 'reserved_usd', 'remaining_usd'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'kind' = 'balance' then
    reached := reached || jsonb_build_object('payer', caller.payer) || case
      when caller.payer = 'member' and caller.source <> 'key' then jsonb '{"is_caller": true}'
      else '{}'
    end;
    if not (caller.cost_visible and (caller.payer = 'workspace' or caller.source = 'session')) then
      reached := reached - array['balance_credits', 'reserved_credits', 'remaining_credits'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'scope' = 'key' then
    reached := reached || jsonb_build_object('name', caller.key_name);
  elsif reached ->> 'scope' = 'workspace' and (
    select case reached ->> 'unit' when 'requests' then p.requests_per_minute else p.tokens_per_minute end
    from ai.plans p
    where p.id = caller.plan_id
  ) = (reached ->> 'limit')::bigint then
    reached := reached || jsonb '{"scope": "plan"}';
  end if;
  return refusal || jsonb_build_object('limit', reached);
end
$$;

-- Returns the highest output limit with which a refused call, or the refused step of a run, would fit into what is left
-- of its limits (room has usd, credits and tokens, each null without such a limit). Returns null if none fits. A call
-- that states its output limit counts it in full. If the call stated none, the field that states it lengthens the input.
create or replace function ai.fitting_output_limit(claim ai.claim, room jsonb, run ai.runs) returns bigint
  language plpgsql stable security invoker
as $$
declare
  request ai.run_request := claim.request;
  caller ai.caller := claim.caller;
  choices bigint := coalesce(request.choices, 1);
  reads bigint := coalesce(request.input_reads, 1);
  stated_bytes bigint := case when request.output_limit_assumed then 48 else 0 end;
  room_usd numeric := (room ->> 'usd')::numeric;
  room_credits numeric := (room ->> 'credits')::numeric;
  spare_usd numeric;
  input record;
  fits bigint := 1;
  exceeds bigint := claim.output_limit;
  guess bigint;
  low numeric;
  high numeric;
  cost numeric(24, 12);
begin
  select least(i.text_tokens, claim.context_window * reads) as text_tokens, i.image_tokens, i.audio_tokens into input
  from ai.input_tokens(request.input_bytes + stated_bytes, request.images, request.audio_seconds) as i;
  exceeds := least(exceeds, 1 + (
    (room ->> 'tokens')::bigint - input.text_tokens / reads - input.image_tokens / reads - input.audio_tokens
  ) / choices);
  -- Credits as dollars, to choose the next guess. Whether it fits is decided in credits.
  spare_usd := least(
    room_usd, (room_credits + coalesce(run.reserved_credits, 0)) / ai.credits_per_usd(caller.markup) - coalesce(run.reserved_usd, 0)
  );

  -- Tries 1, the highest limit that the tokens allow, and then what lies on the line between the nearest known costs. A
  -- cost is the highest of several lines, one for each price, so few guesses are needed. Every fourth one halves the
  -- rest, so that no price can need many.
  for attempt in 0..200 loop
    exit when exceeds - fits <= 1 and attempt > 0;
    if exceeds <= 1 then
      return null;
    end if;
    guess := case
      when attempt = 0 then 1
      when attempt = 1 then exceeds - 1
      when attempt % 4 = 0 or high is null or high <= low then (fits + exceeds) / 2
      else least(greatest(fits + floor((spare_usd - low) / (high - low) * (exceeds - fits))::bigint, fits + 1), exceeds - 1)
    end;
    select x.usd into cost
    from ai.maximum_cost(
      claim.routes, input.text_tokens, input.image_tokens, input.audio_tokens, guess * choices, request.hour_writes,
      request.service_tier, request.fee_requests, false
    ) as x;
    if coalesce(cost <= room_usd, true) and coalesce(
      ai.usd_to_credits(coalesce(run.reserved_usd, 0) + cost, caller.markup) - coalesce(run.reserved_credits, 0) <= room_credits,
      true
    ) then
      fits := guess;
      low := cost;
    elsif attempt = 0 then
      return null;
    else
      exceeds := guess;
      high := cost;
    end if;
  end loop;
  return fits;
end
$$;

-- Returns the requested model of a call that does not find it, and the ids of at most three models that the caller may use
-- and whose ids resemble the requested one, closest first. Whether the requested model exists makes no difference.
create or replace function ai.missing_model(request ai.run_request, caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'model', (request).model, 'similar_models', jsonb_agg(s.id order by s.similarity desc, s.id)
  ))
  from (
    select m.id, u.similarity
    from ai.usable_models(
      (caller).workspace_id, (caller).plan_id, (caller).workspace_models, (caller).denied_models, (caller).key_models
    ) m
    cross join lateral (select extensions.similarity(m.id, left((request).model, 128)) as similarity) as u
    where (m.kind = (request).kind or (request).kind is null)
      and m.id <> (request).model
      and u.similarity >= 0.4
      and exists (
        select
        from ai.open_routes(case
          when (caller).allowed_regions is null then (request).providers
          else ai.providers_in_regions((request).providers, (request).regions, (caller).allowed_regions)
        end) r
        where r.model_id = m.id
      )
    order by u.similarity desc, m.id
    limit 3
  ) as s
$$;

-- Records refused calls that the gateway gathered, by caller: { callers: [{ credential, workspace, age_ms, calls,
-- counts }] }. calls has the first calls of a minute in full, and counts the number of all of them by model, feature and
-- code. Adds all to the daily sums, and stores at most 20 calls a caller and minute. Ignores callers whose credential is
-- unknown by now, and sessions of people who are not members of the workspace that they name. Returns false, and records
-- nothing, while another process is recording: waiting would hold a connection of the gateway.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.record_refused_calls(batch jsonb) returns boolean
  language plpgsql volatile security definer set search_path = ''
  -- Partitions and sums are small when a plan is made and large when it is used. Lookups are subselects and lateral
  -- joins, which these settings leave as they are. All other joins are between sets of any size.
  set enable_seqscan = off set enable_nestloop = off set jit = off
as $$
declare
  max_calls constant integer := 20;
  max_combinations constant integer := 20;
  people ai.caller[];
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.record_refused_calls', 0)) then
    return false;
  end if;
  people := ai.user_callers(batch -> 'callers');
  with callers as materialized (
    select
      (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, (c.caller).entity_id, b.value as refused
    from ai.find_callers(batch -> 'callers', people) as c
    join jsonb_array_elements(batch -> 'callers') with ordinality as b (value, place) on b.place = c.place
    where (select true from public.workspaces w where w.id = (c.caller).workspace_id and w.deleted_at is null)
      and ((c.caller).source <> 'session' or (
        select true from public.workspace_members m
        where m.user_id = (c.caller).actor_id and m.workspace_id = (c.caller).workspace_id
      ))
  ), calls as materialized (
    select
      c.*, e.*, m.created_at, date_trunc('minute', m.created_at) as minute,
      row_number() over (
        partition by c.workspace_id, c.actor_id, c.app_id, c.key_id, date_trunc('minute', m.created_at)
        order by m.created_at
      ) as place
    from callers c
    cross join lateral jsonb_to_recordset(c.refused -> 'calls') as e (
      age_ms double precision, request_id text, endpoint text, feature text, label text, model text, streamed boolean,
      status smallint, code text, param text, details jsonb
    )
    cross join lateral (select ai.moment_before(e.age_ms) as created_at) as m
  ), earlier as materialized (
    -- Reads each minute of a workspace once, for all its callers.
    select s.workspace_id, m.minute, row(s.actor_id, s.app_id, s.key_id)::text as caller, count(*) as calls
    from (select distinct c.workspace_id, c.minute from calls c) as m
    cross join lateral (
      select *
      from ai.refused_calls r
      where r.workspace_id = m.workspace_id
        and r.created_at >= m.minute and r.created_at < m.minute + interval '1 minute'
      offset 0
    ) as s
    group by 1, 2, 3
  ), stored as (
    insert into ai.refused_calls (
      id, created_at, workspace_id, actor_id, app_id, key_id, key_lineage_id, credential_source, feature, entity_id,
      request_id, model_id, endpoint, streamed, http_status, error_code, param, details
    )
    select
      ai.run_id(c.created_at), c.created_at, c.workspace_id, c.actor_id, c.app_id, c.key_id, c.lineage_id, c.source,
      c.feature, coalesce(c.entity_id, c.label), c.request_id, left(c.model, 128), c.endpoint,
      coalesce(c.streamed, false), c.status, c.code, left(c.param, 256), c.details
    from calls c
    left join earlier e
      on e.workspace_id = c.workspace_id and e.minute = c.minute
      and e.caller = row(c.actor_id, c.app_id, c.key_id)::text
    where coalesce(e.calls, 0) + c.place <= max_calls
  ), counted as materialized (
    select
      c.workspace_id, (ai.moment_before((c.refused ->> 'age_ms')::double precision) at time zone 'UTC')::date as day,
      c.app_id, c.lineage_id, c.actor_id,
      (select m.id from ai.models m where m.id = n.model) as model_id, n.feature,
      case c.source when 'key' then 'background' else 'interactive' end as execution_mode, n.code,
      sum(n.count)::bigint as refused
    from callers c
    cross join lateral jsonb_to_recordset(c.refused -> 'counts') as n (
      model text, feature text, code text, count bigint
    )
    where n.count > 0
    group by 1, 2, 3, 4, 5, 6, 7, 8, 9
  ), totals as (
    insert into ai.totals as t (figure, label, total)
    select 'refused_calls', c.code, sum(c.refused)
    from counted c
    group by c.code
    on conflict (figure, label) do update set total = t.total + excluded.total
  ), summed as materialized (
    select
      c.workspace_id, c.day, c.app_id, c.lineage_id, c.actor_id, c.model_id, c.feature, c.execution_mode,
      row(c.app_id, c.lineage_id, c.actor_id, c.execution_mode)::text as caller,
      row(c.model_id, c.feature)::text as combination, sum(c.refused) as refused
    from counted c
    group by 1, 2, 3, 4, 5, 6, 7, 8
  ), known as materialized (
    -- Reads each day of a workspace once, for all its callers.
    select
      d.workspace_id, d.day, row(d.app_id, d.key_lineage_id, d.actor_id, d.execution_mode)::text as caller,
      row(d.model_id, d.feature)::text as combination
    from (select distinct s.workspace_id, s.day from summed s) as w
    cross join lateral (
      select * from ai.refused_daily r where r.workspace_id = w.workspace_id and r.day = w.day offset 0
    ) as d
  ), bounded as (
    select
      s.*,
      k.combination is not null or coalesce(n.combinations, 0) + row_number() over (
        partition by s.workspace_id, s.day, s.caller, k.combination is null
      ) <= max_combinations as has_row
    from summed s
    left join known k
      on k.workspace_id = s.workspace_id and k.day = s.day and k.caller = s.caller and k.combination = s.combination
    left join (select workspace_id, day, caller, count(*) as combinations from known group by 1, 2, 3) as n
      on n.workspace_id = s.workspace_id and n.day = s.day and n.caller = s.caller
  )
  insert into ai.refused_daily as d (
    workspace_id, day, app_id, key_lineage_id, actor_id, model_id, feature, execution_mode, refused
  )
  select
    b.workspace_id, b.day, b.app_id, b.lineage_id, b.actor_id, case when b.has_row then b.model_id end,
    case when b.has_row then b.feature end, b.execution_mode, sum(b.refused)
  from bounded b
  group by 1, 2, 3, 4, 5, 6, 7, 8
  on conflict (workspace_id, day, app_id, key_lineage_id, actor_id, model_id, feature, execution_mode)
    do update set refused = d.refused + excluded.refused;
  return true;
end
$$;

-- Returns the time that was age_ms milliseconds ago, at most an hour. The gateway sends ages, because its clock may
-- differ from the database's.
create or replace function ai.moment_before(age_ms double precision) returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select now() - least(greatest(age_ms, 0), 3600000) * interval '1 millisecond'
$$;

-- Creates the partitions of ai.refused_calls for today and the next two days, and drops those of days that ended more
-- than seven days ago. Waits only briefly for the lock on the table, because recording and reading then wait too; the
-- next call tries again. Returns the number of partitions that it created or dropped.
create or replace function ai.rotate_refused_call_partitions() returns integer
  language plpgsql volatile security invoker
  -- Partitions cover UTC days, regardless of the caller's time zone.
  set timezone = 'UTC' set search_path = '' set lock_timeout = '100ms'
as $$
declare
  day date;
  partition text;
  changed integer := 0;
begin
  for day in select now()::date + n from generate_series(0, 2) as n loop
    partition := format('ai.refused_calls_%s', to_char(day, 'YYYY_MM_DD'));
    continue when to_regclass(partition) is not null;
    -- Rows in the default partition stay there.
    continue when exists (
      select from ai.refused_calls_default c where c.created_at >= day and c.created_at < day + 1
    );
    execute format(
      'create table %s partition of ai.refused_calls for values from (%L) to (%L)',
      partition, day::timestamptz, (day + 1)::timestamptz
    );
    perform ai.protect_partition(partition::regclass);
    changed := changed + 1;
  end loop;
  for partition in
    select i.inhrelid::regclass::text
    from pg_catalog.pg_inherits i
    join pg_catalog.pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'ai.refused_calls'::regclass
      and c.relname ~ '^refused_calls_\d{4}_\d\d_\d\d$'
      and to_date(right(c.relname, 10), 'YYYY_MM_DD') + 8 <= now()::date
  loop
    execute format('drop table %s', partition);
    changed := changed + 1;
  end loop;
  return changed;
exception when lock_not_available then
  return 0;
end
$$;

-- Deletes expired idempotency keys, rate windows older than an hour, and failed attempts and refused calls older than
-- seven days, up to at_most of each. Returns the total number of deleted rows; 0 while another deletion is running.
-- Definer: the server's service role has no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
  refused integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.delete_expired', 0)) then
    return 0;
  end if;
  keys := private.delete_expired_rows('ai.idempotency_keys', 'expires_at', '0', at_most);

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

  attempts := private.delete_expired_rows('ai.failed_attempts', 'at', '7 days', at_most);
  refused := private.delete_expired_rows('ai.refused_calls_default', 'created_at', '7 days', at_most);
  -- Last, because this locks ai.refused_calls until the transaction ends.
  perform ai.rotate_refused_call_partitions();
  return keys + windows + attempts + refused;
end
$$;

-- Returns the usage report of the calling app for a window of at most 365 days, or { refused }. Amounts are exact
-- decimals. A row's refused calls are those of the whole day. notes_use: the request counts as a use of the key.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.report_usage(call jsonb) returns json
  language plpgsql volatile security definer set search_path = ''
  -- Days of the report are UTC days.
  set timezone = 'UTC'
  -- Sorts a year's groups in memory, and plans the query only once per connection.
  set work_mem = '32MB' set plan_cache_mode = force_generic_plan
as $$
declare
  caller ai.caller := ai.app_caller(call);
  report_window record := ai.usage_window((call ->> 'from')::timestamptz, (call ->> 'to')::timestamptz, 365);
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  if report_window.fault is not null then
    return ai.refusal('invalid_request', jsonb_build_object('param', 'from', 'message', report_window.fault));
  end if;
  if (call -> 'notes_use')::boolean then
    perform ai.record_key_use(array[caller.key_id]);
  end if;
  return (
    select json_build_object(
      'currency', 'USD',
      'source', 'platform_ai_metering',
      'workspaceId', caller.workspace_id,
      'appId', caller.app_id,
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', case when ai.has_usage_before(caller.workspace_id, caller.app_id, report_window.window_from) then json_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ) end,
      'rows', coalesce(json_agg(d), '[]')
    )
    from (
      select
        u.day,
        u.model_id as model,
        u.feature,
        u.execution_mode as "executionMode",
        trim_scale(sum(u.cost_usd)) as "amountUsd",
        sum(u.requests) as requests,
        sum(u.failed) as failed,
        sum(u.input_tokens) as "inputTokens",
        sum(u.output_tokens) as "outputTokens",
        trim_scale(sum(u.billed_credits)) as "billedCredits",
        trim_scale(sum(u.unmetered_credits)) as "unmeteredCredits",
        sum(u.refused) as refused
      from (
        select
          b.day, b.model_id, b.feature, b.execution_mode, b.cost_usd, b.requests, b.failed, b.input_tokens,
          b.output_tokens, b.billed_credits, b.unmetered_credits, 0 as refused
        from ai.usage_between(caller.workspace_id, report_window.window_from, report_window.window_to) b
        where b.app_id = caller.app_id
        union all
        select
          r.day, coalesce(r.model_id, 'unknown'), coalesce(r.feature, 'unknown'), r.execution_mode, 0, 0, 0, 0, 0, 0, 0,
          r.refused
        from ai.refused_between(caller.workspace_id, report_window.window_from, report_window.window_to) r
        where r.app_id = caller.app_id
      ) as u
      group by u.day, u.model_id, u.feature, u.execution_mode
      having sum(u.requests) > 0 or sum(u.refused) > 0
      order by u.day, u.model_id collate "C", u.feature collate "C", u.execution_mode collate "C"
    ) as d
  );
end
$$;

-- Checks whether a credential may import costs and read usage. Used if the request body is invalid. Returns {
-- workspace_id } or { refused }.
-- Definer: gateway has no grant on any table. The function derives the caller from the credential and trusts no id in
-- the request.
create or replace function ai.check_app_caller(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  return jsonb_build_object('workspace_id', caller.workspace_id);
end
$$;

-- Connects a coding agent to a workspace. Returns { state: connected, connection }; a repeated call returns the same
-- connection. If the member needs an approval, opens a request, queues emails to members with manage_ai_keys, and
-- returns { state: requested }. Refusals are { refused: … | not_found | forbidden }. forbidden: the member lacks
-- use_ai_studio.
-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.connect_agent(
  token_hash bytea, workspace_id uuid, tool text, host text, email jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Serializes a member's calls, so that a second call finds the connection of the first.
  perform private.lock_app_credentials(caller.user_id);
  perform
  from private.user_workspaces(caller.user_id) u
  join public.workspaces w on w.id = u.id
  where w.id = connect_agent.workspace_id
  for key share of w;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not ai.may_connect_agents(caller.user_id, connect_agent.workspace_id) then
    if not private.user_has_workspace_permission(caller.user_id, connect_agent.workspace_id, 'use_ai_studio') then
      return jsonb_build_object('refused', 'forbidden');
    end if;
    return jsonb_build_object('state', ai.request_agent_access(
      caller.user_id, connect_agent.workspace_id, connect_agent.tool, connect_agent.host, connect_agent.email
    ));
  end if;
  -- A new login of the same member, agent and host continues the connection of a login that has ended.
  update ai.agent_connections c
  set login_id = caller.login_id
  where c.id = (
    select o.id
    from ai.agent_connections o
    where o.workspace_id = connect_agent.workspace_id
      and o.user_id = caller.user_id
      and o.tool = connect_agent.tool
      and o.revoked_at is null
      and (o.login_id = caller.login_id or (o.host = connect_agent.host and ai.agent_login_end(o.login_id) is null))
    order by o.login_id is not distinct from caller.login_id desc, o.created_at desc
    limit 1
  )
  returning * into connection;
  if not found then
    insert into ai.agent_connections as c (workspace_id, user_id, login_id, tool, host)
    values (
      connect_agent.workspace_id, caller.user_id, caller.login_id, connect_agent.tool, connect_agent.host
    )
    returning c.* into connection;
    perform private.add_account_event(
      caller.user_id, 'agent_connected',
      details => jsonb_build_object('agent', ai.agent_name(connection.tool) || ' on ' || connection.host)
    );
  end if;
  return jsonb_build_object('state', 'connected', 'connection', ai.describe_connection(connection));
end
$$;

-- Signs one session in with a recovery code and keeps the authenticators. The code becomes an approval of that session,
-- like the one of a phone: it satisfies required MFA for 12 hours, only for that session and browser, only with a proof
-- made with the key, and never for a step-up. It ends with the account's oldest authenticator, whose code it replaces.
-- Takes { claims, codeHash, proofKey }; the claims include a proof made with proofKey. Returns { validUntil }, or null if
-- no unused code matches or the session would still not satisfy required MFA. The code is then not used.
-- Definer: the authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.sign_in_with_recovery_code(sign_in jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  claims constant jsonb := sign_in -> 'claims';
  subject constant uuid := private.uuid_or_null(claims ->> 'sub');
  session constant uuid := private.uuid_or_null(claims ->> 'session_id');
  code_id uuid;
  approval private.login_challenges;
begin
  -- Locks the account before the code, as begin_mfa_recovery does.
  perform from auth.users u where u.id = subject for no key update;
  select c.id into code_id
  from private.mfa_recovery_codes c
  where c.user_id = subject and c.code_hash = decode(sign_in ->> 'codeHash', 'hex') and c.used_at is null
  for update;
  insert into private.login_challenges (
    kind, status, user_id, session_id, secret_hash, pair_code_hash, expires_at, approved_at, approver_session_id,
    approver_factor_id, second_factor_at, approval_metadata, bound_session_id, bound_at, valid_until, proof_key
  )
  -- The code stands for the approving session. The hashes are random, because no phone presents a code.
  select
    'mfa_mobile', 'bound', subject, session, sha256(gen_random_uuid()::text::bytea),
    sha256(gen_random_uuid()::text::bytea), now() + interval '5 minutes', now(), code_id, f.id, now(),
    jsonb_build_object(
      'method', 'recovery_code', 'device', jsonb_build_object('name', 'Recovery code'), 'sessionId', session
    ), session, now(), now() + interval '12 hours', (sign_in ->> 'proofKey')::bytea
  from auth.mfa_factors f
  where f.user_id = subject and f.status = 'verified' and code_id is not null
  order by f.created_at, f.id
  limit 1
  returning * into approval;
  if not found then
    return null;
  end if;
  if not private.session_satisfies_mfa(claims) then
    delete from private.login_challenges c where c.id = approval.id;
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = now(), session_id = session, completed_at = now()
  where c.id = code_id;
  perform private.add_account_event(subject, 'recovery_code_sign_in', session_id => session);
  return jsonb_build_object('validUntil', approval.valid_until);
end
$$;

-- Issues an authorization code, valid for 60 seconds, to the session with these verified claims. Returns {scopes} or
-- {refused: client | unauthenticated | mfa_required | unavailable | login_required | acr | consent_required | scope |
-- request}. If consents is true, the person has just agreed, and the consent is stored. If authenticated_since is given,
-- an authentication before that second is refused with login_required. If essential_acr is given, the login states one of
-- these values or is refused with acr. request_hash is the handle of a kept request, which this call answers: it is
-- refused with request if another call has answered it. id_token_claims and userinfo_claims are the names in the request's
-- parameter claims. With a resource, the tokens are for that app only; clients that registered themselves must name one.
-- Definer: the service role can neither read Supabase Auth's tables nor apply the rule of required MFA.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null,
  essential_acr text[] default null,
  id_token_claims text[] default '{}',
  userinfo_claims text[] default '{}',
  request_hash bytea default null,
  resource text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  resource_id uuid;
  session_check record;
  authentication private.openid_authentication;
  granted text[];
  consent_scopes text[];
begin
  -- Locks the app. A transaction that disables the app either commits first, or waits until the authorization code is
  -- stored and then revokes the code. Apps are locked before accounts.
  select * into app
  from private.apps a
  where a.id = private.openid_client_app(issue_authorization_code.client_id) and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri)
    or (client.requires_pkce and issue_authorization_code.code_challenge is null) then
    return jsonb_build_object('refused', 'client');
  end if;
  select a.id into resource_id
  from private.apps a
  where a.resource_url = issue_authorization_code.resource and a.enabled
  for share;
  if resource_id is null and (client.registration <> 'operator' or issue_authorization_code.resource is not null) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into session_check from private.session_proof(issue_authorization_code.claims);
  if session_check.refused is not null then
    return jsonb_build_object('refused', session_check.refused);
  end if;
  -- Issues no code for a session that may only replace the password.
  if exists (select from private.password_replacements r where r.session_id = (session_check.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, session_check.proof, session_check.valid_until is not null
  );
  if authenticated_since is not null
    and (extract(epoch from authentication.auth_time) >= authenticated_since) is not true then
    return jsonb_build_object('refused', 'login_required');
  end if;
  authentication.acr := private.stated_acr(authentication.acr, essential_acr);
  if authentication.acr is null then
    return jsonb_build_object('refused', 'acr');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes, resource_id);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  consent_scopes := private.openid_consent_scopes(
    app.id, granted, issue_authorization_code.id_token_claims || issue_authorization_code.userinfo_claims
  );
  if not consents
    and not private.has_openid_consent(
      (session_check.proof).user_id, client, consent_scopes, issue_authorization_code.redirect_uri, resource_id
    ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  if request_hash is not null and not private.end_authorization_request(request_hash) then
    return jsonb_build_object('refused', 'request');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, resource_id, scopes)
    values ((session_check.proof).user_id, app.id, resource_id, consent_scopes)
    on conflict on constraint openid_consents_key do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
    perform private.add_account_event(
      (session_check.proof).user_id, 'app_connected', session_id => (session_check.proof).session_id,
      details => jsonb_build_object('app', app.display_name)
    );
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, resource_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce,
    id_token_claims, userinfo_claims, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, resource_id, (session_check.proof).user_id, session_check.proof, session_check.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    private.consented_claims(issue_authorization_code.id_token_claims, consent_scopes),
    private.consented_claims(issue_authorization_code.userinfo_claims, consent_scopes),
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

-- Returns the claims auth_time, acr and amr (RFC 8176) of a session. auth_time is the time of the latest sign-in or
-- second factor. by_approval is true if the second factor was proved on a phone or by a recovery code. Only the first
-- is an approval on another channel (mca).
create or replace function private.openid_authentication_of(claims jsonb, proof private.mfa_proof, by_approval boolean)
  returns private.openid_authentication
  language sql stable security invoker set search_path = ''
as $$
  select row(
    to_timestamp(greatest(proof.primary_second, proof.second_factor_second)),
    case when proof.second_factor_second is null then 'aal1' else 'aal2' end,
    array(
      select distinct m.value
      from (
        -- Omits the identity backend's `otp`, which may stand for an emailed link or for approval on a phone. Omits
        -- sign-ins with an identity provider, because the registry of `amr` values (RFC 8176) has no value for such
        -- sign-ins.
        select case e.entry ->> 'method' when 'password' then 'pwd' when 'passkey' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        union all
        select case e.entry ->> 'method' when 'totp' then 'otp' when 'mfa/phone' then 'sms' when 'mfa/webauthn' then 'hwk' end
        from jsonb_array_elements(case when jsonb_typeof(claims -> 'amr') = 'array' then claims -> 'amr' else '[]' end)
          as e (entry)
        where proof.second_factor_second is not null and not by_approval
        union all
        select case when by_approval and not exists (
          select
          from private.login_challenges c
          where c.bound_session_id = proof.session_id
            and c.status = 'bound'
            and floor(extract(epoch from c.second_factor_at)) = proof.second_factor_second
            and c.approval_metadata ->> 'method' = 'recovery_code'
        ) then 'mca' end
        union all
        select case when proof.second_factor_second is not null then 'mfa' end
      ) as m (value)
      where m.value is not null
      order by m.value
    )
  )::private.openid_authentication
$$;

-- Returns the accounts of a browser that presents a valid device secret: { secret: current | previous, arrived, old,
-- active: { userId, sessionId, tag } | null, accounts }. arrived is true if the browser has presented its current
-- secret. old is true if the secret was rotated more than 30 days ago. Returns null for an unknown device.
-- Definer: reads emails from Supabase Auth's tables, which the service role cannot read.
create or replace function private.device_state(device_id uuid, secret text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return (
    select jsonb_build_object(
      'secret', secret_status,
      'arrived', d.previous_hash is null or d.previous_until is not null,
      'old', d.rotated_at < now() - interval '30 days',
      'active', (
        select jsonb_build_object('userId', e.user_id, 'sessionId', e.session_id, 'tag', e.token_tag)
        from private.account_vault_entries e
        where e.device_id = d.id and e.user_id = d.active_user_id and e.session_id = d.active_session_id
          and private.is_vault_entry_usable(e)
      ),
      'accounts', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', e.user_id,
            'email', u.email,
            'displayName', p.display_name,
            'avatarUrl', p.avatar_url,
            -- The comparison is null if the browser has no active account.
            'active', coalesce(usable and e.user_id = d.active_user_id and e.session_id = d.active_session_id, false),
            'requiresReauth', not usable,
            'endReason', case when not usable then private.session_end_reason(e) end,
            'lastRoute', e.last_route,
            'lastActiveAt', e.last_active_at,
            'addedAt', e.added_at
          )
          order by (usable and e.user_id = d.active_user_id) desc nulls last, e.last_active_at desc, e.user_id
        )
        from private.account_vault_entries e
        join auth.users u on u.id = e.user_id
        left join public.profiles p on p.id = e.user_id
        cross join lateral private.is_vault_entry_usable(e) as usable
        where e.device_id = d.id
      ), '[]')
    )
    from private.account_devices d
    cross join lateral private.device_secret_status(d, device_state.secret) as secret_status
    where d.id = device_state.device_id and secret_status in ('current', 'previous')
  );
end
$$;

-- Returns why an entry's session has ended: the kind of the first event since the browser last used it that ended every
-- other session or this one. Without such an event, session_revoked if a session of the account was revoked, which may
-- have been this one, or idle after 30 days without use. Returns null if the reason is unknown. Only for a browser that
-- presented its device's secret.
create or replace function private.session_end_reason(entry private.account_vault_entries) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (
      select v.kind
      from public.security_events v
      where v.user_id = entry.user_id
        and v.created_at >= entry.last_active_at
        and case v.kind
          when 'sign_out' then v.session_id = entry.session_id
          -- The session in which a change was made stays signed in.
          when 'all_sessions_revoked' then true
          else v.session_id is distinct from entry.session_id
            and v.kind in (
              'session_revoked', 'other_sessions_revoked', 'signed_out_by_admin', 'authenticators_reset', 'account_banned',
              'password_changed', 'password_added', 'recovery_code_used', 'account_recovered'
            )
        end
      order by v.kind = 'session_revoked', v.created_at, v.id
      limit 1
    ),
    case when entry.last_active_at <= now() - interval '30 days' then 'idle' end
  )
$$;

-- Returns the facts that must be current on every request, read in one statement: { alive, sessionId, notAfter, aal,
-- hasVerifiedFactor, mustReplacePassword, infrastructureAdmin, user: { id, email, displayName, avatarUrl, banned,
-- deleted }, policy: { state, required, since, satisfied, byApproval } }. Returns { alive: false } if the session has
-- ended. policy.since is the Unix time from which required MFA accepts proofs, or null if MFA is optional.
-- policy.state is optional, required, recovery_in_progress or malformed. Until 0.4.0: servers of release 0.2.0
-- require policy.byApproval.
-- Definer: the caller cannot read Supabase Auth's tables. A session must learn its state even if its second factor is
-- missing or its account is closed, so required MFA does not apply here. Returns facts only about the caller's own
-- token.
create or replace function public.session_state() returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  claims jsonb := private.caller_claims();
begin
  return coalesce((
    select jsonb_build_object(
      'alive', true,
      'sessionId', f.session_id,
      'notAfter', f.not_after,
      'aal', claims ->> 'aal',
      'user', jsonb_build_object(
        'id', f.user_id,
        'email', f.email,
        'displayName', p.display_name,
        'avatarUrl', p.avatar_url,
        'banned', f.banned,
        'deleted', f.deleted
      ),
      'hasVerifiedFactor', f.has_verified_factor,
      'policy', jsonb_build_object(
        'state', m.state,
        'required', m.state <> 'optional',
        'since', case when m.state in ('required', 'recovery_in_progress') then
          f.app_metadata #> '{platform_required_mfa,boundary}'
        end,
        'satisfied', not f.banned and not f.deleted and v.satisfied,
        'byApproval', false
      ),
      'mustReplacePassword', exists (
        select from private.password_replacements r where r.session_id = f.session_id
      ),
      'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = f.user_id)
    )
    from private.session_facts(claims) f
    cross join lateral private.required_mfa_state(f.app_metadata) as m (state)
    cross join lateral private.satisfies_required_mfa(
      f.app_metadata, claims, f.has_verified_factor, f.session_factor_verified, f.approval_second,
      floor(extract(epoch from now()))::bigint
    ) as v (satisfied)
    left join public.profiles p on p.id = f.user_id
  ), jsonb_build_object('alive', false));
end
$$;

-- Begins a switch to another account and takes the device's lease for 10 s. Returns status: unknown (the device is
-- unknown), no_account, active (the account is already active), busy (another switch holds the lease) or begun.
create or replace function private.begin_account_switch(device_id uuid, secret text, target_id uuid, lease uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  device private.account_devices;
  target private.account_vault_entries;
  usable boolean;
begin
  select d.* into device from private.account_devices d where d.id = begin_account_switch.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  select e.* into target
  from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  usable := private.is_vault_entry_usable(target);
  if usable and device.active_user_id = target.user_id and device.active_session_id = target.session_id then
    return jsonb_build_object('status', 'active', 'lastRoute', target.last_route);
  end if;
  if device.lease_id is not null and device.lease_id <> lease and device.lease_expires_at > now() then
    return jsonb_build_object('status', 'busy');
  end if;
  update private.account_devices d
  set lease_id = lease, lease_expires_at = now() + interval '10 seconds'
  where d.id = device.id;
  return jsonb_build_object(
    'status', 'begun',
    'usable', usable,
    'lastRoute', target.last_route,
    'target', private.vault_entry_view(target)
  );
end
$$;

-- Returns an entry for our server: { userId, sessionId, sealed, keyId, tag, approvedUntil }. approvedUntil is when the
-- approval that a phone gave this session expires, or null. It lets the server set the approval's cookie again when the
-- session becomes active; private.session_facts still checks that cookie on every request.
-- Definer: authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.vault_entry_view(entry private.account_vault_entries) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'userId', entry.user_id,
    'sessionId', entry.session_id,
    'sealed', entry.sealed,
    'keyId', entry.key_id,
    'tag', entry.token_tag,
    'approvedUntil', (
      select max(c.valid_until)
      from private.login_challenges c
      join auth.mfa_factors f on f.id = c.approver_factor_id and f.user_id = c.user_id
      where c.bound_session_id = entry.session_id
        and c.user_id = entry.user_id
        and c.kind = 'mfa_mobile'
        and c.status = 'bound'
        and c.valid_until > now()
        and f.status = 'verified'
    )
  )
$$;

-- Replaces an account's stored session with its rotated session. Takes { deviceId, userId, sessionId, expectedTag,
-- sealed, keyId, tag, lastRoute }. Without sealed, records only that the session was used. Returns { kept: true }, or {
-- kept: false, current } if another rotation came first. The caller then adopts current.
create or replace function private.store_account_session(entry jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored_entry private.account_vault_entries;
begin
  -- Locks the device before its entry, like every function here that locks both.
  perform from private.account_devices d where d.id = (entry ->> 'deviceId')::uuid for update;
  select e.* into stored_entry
  from private.account_vault_entries e
  where e.device_id = (entry ->> 'deviceId')::uuid and e.user_id = (entry ->> 'userId')::uuid
  for update;
  if not found then
    return jsonb_build_object('kept', false, 'current', null);
  end if;
  if stored_entry.session_id <> (entry ->> 'sessionId')::uuid
    or stored_entry.token_tag is distinct from entry ->> 'expectedTag' then
    return jsonb_build_object('kept', false, 'current', private.vault_entry_view(stored_entry));
  end if;
  update private.account_vault_entries e
  set sealed = coalesce(entry ->> 'sealed', e.sealed),
      key_id = coalesce(entry ->> 'keyId', e.key_id),
      token_tag = coalesce(entry ->> 'tag', e.token_tag),
      last_route = coalesce(entry ->> 'lastRoute', e.last_route),
      last_active_at = now()
  where e.device_id = stored_entry.device_id and e.user_id = stored_entry.user_id;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = stored_entry.device_id;
  return jsonb_build_object('kept', true);
end
$$;

-- Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and the credits used in
-- the window. The default window is the last 30 days. Used credits are credits billed for runs and credits deducted
-- without a run. availableUsd is the provider cost that a balance pays for at the plan's markup. With with_totals =
-- false, returns only the page, for an export that reads page by page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50, with_totals boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  last_id bigint := coalesce(before_id, 9223372036854775807);
  -- Null if the workspace hides provider cost, or if its calls are free.
  credits_per_usd numeric := case when ai.cost_visible(workspace) then (
    select nullif(ai.credits_per_usd(p.markup), 0)
    from public.workspaces w
    join ai.plans p on p.id = w.plan_id
    where w.id = workspace
  ) end;
  listed jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(report_window.window_from),
    'to', ai.utc_text_microseconds(report_window.window_to),
    'entries', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id::text,
          'createdAt', ai.utc_text_microseconds(p.created_at),
          'payer', p.payer,
          'kind', p.kind,
          'amount', trim_scale(p.amount)::text,
          'balanceAfter', trim_scale(p.balance_after)::text,
          'runId', p.run_id,
          'description', p.description
        )
        order by p.id desc
      ), '[]')
      from (
        select case when a.workspace_id is null then 'member' else 'workspace' end as payer, e.*
        from ai.credit_accounts_of(member_id, workspace) a
        cross join lateral (
          select *
          from ai.credit_ledger l
          where l.account_id = a.id
            and l.created_at >= report_window.window_from
            and l.created_at < report_window.window_to
            and l.id < last_id
            -- A member's balance pays for runs in all of their free workspaces, but only this workspace's runs are
            -- listed here.
            and (
              a.workspace_id is not null
              or l.run_id is null
              or exists (
                select from ai.runs r
                where r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = workspace
              )
            )
          order by l.id desc
          limit page_size
        ) as e
        order by e.id desc
        limit page_size
      ) p
    )
  );
  if not with_totals then
    return listed;
  end if;
  return listed || (
    with accounts as materialized (
      select a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to) u
    ), unlinked as (
      select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits
    )
    select jsonb_build_object(
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text,
            'availableUsd', trim_scale(round((a.balance - a.reserved) / credits_per_usd, 12))::text
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'totals', (
        select jsonb_build_object(
          'runCredits', trim_scale(r.billed)::text,
          'otherDeductions', trim_scale(o.credits)::text,
          'usedCredits', trim_scale(r.billed + o.credits)::text,
          'unmeteredCredits', trim_scale(r.unmetered)::text,
          'addedCredits', trim_scale((
            select coalesce(sum(l.amount), 0)
            from accounts a
            join ai.credit_ledger l on l.account_id = a.id
            where l.run_id is null and l.amount > 0
              and l.created_at >= report_window.window_from and l.created_at < report_window.window_to
          ))::text
        )
        from runs r cross join unlinked o
      )
    )
  );
end
$$;

-- Returns the details of the latest 20 keys that a key replaced, newest first. Follows the rotations back from the key.
create or replace function ai.replaced_keys(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with recursive chain as (
    select k.id, k as replaced, 1 as place from ai.keys k where k.replaced_by = (key).id and (key).connection_id is null
    union all
    select k.id, k, c.place + 1 from chain c join ai.keys k on k.replaced_by = c.id where c.place < 20
  )
  select coalesce(jsonb_agg(ai.key_summary(c.replaced, null) order by c.place), '[]') from chain c
$$;

-- Returns the settings of a key that ai.change_key can change, except the budget.
create or replace function ai.key_settings(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'name', (key).name,
    'environment', (key).environment,
    'expiresAt', ai.utc_text_microseconds((key).expires_at),
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute
  )
$$;

-- Returns the monthly budget of a key and of the keys that it replaced, or null.
create or replace function ai.key_budget(key ai.keys) returns numeric
  language sql stable security invoker set search_path = ''
as $$
  select b.limit_usd from ai.budgets b
  where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
$$;

-- Returns a key with the given changes of its settings.
create or replace function ai.apply_key_changes(key ai.keys, changes jsonb) returns ai.keys
  language plpgsql immutable security invoker set search_path = ''
as $$
begin
  key.name := coalesce(changes ->> 'name', key.name);
  key.environment := coalesce(changes ->> 'environment', key.environment);
  key.is_strict := coalesce((changes ->> 'strict')::boolean, key.is_strict);
  if changes ? 'expiresAt' then
    key.expires_at := (changes ->> 'expiresAt')::timestamptz;
  end if;
  if changes ? 'allowedModels' then
    key.allowed_models := ai.text_list(changes -> 'allowedModels');
  end if;
  if changes ? 'allowedAddresses' then
    key.allowed_addresses := ai.text_list(changes -> 'allowedAddresses')::cidr[];
  end if;
  if changes ? 'requestsPerMinute' then
    key.requests_per_minute := (changes ->> 'requestsPerMinute')::integer;
  end if;
  if changes ? 'tokensPerMinute' then
    key.tokens_per_minute := (changes ->> 'tokensPerMinute')::bigint;
  end if;
  return key;
end
$$;

-- Returns whether a key could be used for anything for which another version of it could not: longer, for other models,
-- from other addresses, more often, or with what strict mode refuses.
create or replace function ai.key_allows_more(key ai.keys, than ai.keys) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce((key).expires_at, 'infinity') > coalesce((than).expires_at, 'infinity')
    or (than).allowed_models is not null and coalesce(not (key).allowed_models <@ (than).allowed_models, true)
    or (than).allowed_addresses is not null and (
      (key).allowed_addresses is null
      or exists (select from unnest((key).allowed_addresses) as a where not coalesce(a <<= any ((than).allowed_addresses), false))
    )
    or coalesce((key).requests_per_minute, 'infinity'::numeric) > coalesce((than).requests_per_minute, 'infinity'::numeric)
    or coalesce((key).tokens_per_minute, 'infinity'::numeric) > coalesce((than).tokens_per_minute, 'infinity'::numeric)
    or (than).is_strict and not (key).is_strict
$$;

-- Returns the coding agent that renews a key: { tool, host, status, endsAt }. status is what the gateway answers to the
-- agent (ai.agent_key_statuses). endsAt is the time at which the agent's login ends, or null with the status over.
-- Returns null if no agent renews the key.
create or replace function ai.agent_of_key(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'tool', c.tool,
    'host', c.host,
    'status', s.status,
    'endsAt', case when s.status <> 'over' then ai.agent_login_end(c.login_id) end
  )
  from ai.agent_connections c
  cross join lateral (select ai.agent_key_statuses(array[c.id]) ->> c.id::text as status) s
  where c.id = (key).connection_id
$$;

-- Returns a page of a workspace's keys, newest first, for a member with manage_ai_keys. Returns { outcome: listed,
-- approval, keys } or { outcome: not_allowed }. before is { createdAt, id } of the last key on the previous page. Keys
-- are listed even if the workspace is not approved. With nested, replaced keys are not in the list: each key has its
-- latest replaced keys in replaced.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, nested boolean default false
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', ai.key_summaries(workspace, nested => nested, listed => array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        -- Lists only the latest key of a coding agent's connection.
        and (k.replaced_by is null or (k.connection_id is null and not nested))
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Changes the given settings of a key that works; null removes a limit. Requires manage_ai_keys and, if the key could
-- then be used for more than before, what creating a key requires. read_version is the version that the member saw, or
-- null. The budget follows the rules of ai.change_budget. Outcomes: changed and changed_meanwhile (with key),
-- not_allowed, not_approved, not_found, not_active, agent_key, unknown_models (with param and models).
-- Definer: the service role cannot write keys, so every change passes these checks.
create or replace function ai.change_key(
  member_id uuid, workspace uuid, key_id uuid, changes jsonb, read_version text default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  issue_permission text;
  old ai.keys;
  new_key ai.keys;
  unknown text[];
  differences jsonb;
begin
  -- Budgets are compared and changed under this lock, and it comes before the locks of rows.
  perform ai.lock_policy(workspace);
  issue_permission := ai.key_issue_permission(member_id, workspace);
  if issue_permission = 'not_allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  -- Logging refers to the workspace. Deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = workspace for key share;
  select * into old from ai.keys k where k.id = change_key.key_id and k.workspace_id = workspace for no key update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.connection_id is not null then
    return jsonb_build_object('outcome', 'agent_key');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  if read_version <> ai.key_version(old) then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'key', ai.key_summaries(workspace, array[old]) -> 0);
  end if;
  new_key := ai.apply_key_changes(old, changes);
  -- Models that the key already has may have left the catalogue.
  unknown := ai.unknown_models(array(
    select m from unnest(new_key.allowed_models) as m where m <> all (coalesce(old.allowed_models, '{}'))
  ));
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if issue_permission <> 'allowed' and ai.key_allows_more(new_key, old) then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  select jsonb_object_agg(n.key, jsonb_build_object('before', o.value, 'after', n.value)) into differences
  from jsonb_each(ai.key_settings(new_key)) n
  join jsonb_each(ai.key_settings(old)) o using (key)
  where n.value <> o.value;
  if differences is not null then
    update ai.keys k
    set
      name = new_key.name,
      environment = new_key.environment,
      expires_at = new_key.expires_at,
      allowed_models = new_key.allowed_models,
      allowed_addresses = new_key.allowed_addresses,
      requests_per_minute = new_key.requests_per_minute,
      tokens_per_minute = new_key.tokens_per_minute,
      is_strict = new_key.is_strict
    where k.id = old.id;
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.changed', old.id, new_key.name, differences);
  end if;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.change_budget(
      member_id, workspace, 'key', old.lineage_id, changes ->> 'monthlyBudgetUsd', ai.key_budget(old)::text
    );
  end if;
  return jsonb_build_object('outcome', 'changed', 'key', ai.key_summaries(workspace, array[new_key]) -> 0);
end
$$;

-- Returns the key of the row to which a daily sum of refused calls belongs, as ai.usage_key does.
create or replace function ai.refused_key(part ai.refused_daily, grouped_by text, first_day date, days_each integer)
  returns text
  language sql immutable security invoker
as $$
  select case grouped_by
    when 'day' then (((part).day - first_day) / days_each * days_each)::text
    when 'model' then coalesce((part).model_id, '')
    when 'feature' then coalesce((part).feature, '')
    when 'key' then coalesce((part).key_lineage_id::text, '')
    when 'app' then coalesce((part).app_id::text, '')
    when 'member' then coalesce((part).actor_id::text, '')
    else ''
  end
$$;

-- Estimates the median and 95th percentile of run durations, in ms, from a histogram (a sum of ai.latency_mark) and, if
-- known, the sum of the durations. Each estimate is in the same bucket as the exact value, so its error is at most the
-- width of a bucket, 19%. No estimate exceeds the longest duration: in the highest bucket, it is the lowest mean that the
-- sum allows, or the bucket's first millisecond. So the estimates of equal durations with a sum are exact. Returns nulls
-- if the histogram contains no run.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.latency_quantiles(marks numeric, total_ms numeric default null)
  returns table (p50 integer, p95 integer)
  language sql immutable security invoker parallel safe
as $$
  with d as materialized (
    -- A byte at a position can be read directly, while a character of a text is found only by counting.
    select lpad(marks::text, 12 * 81, '0')::bytea as digits
  ), b as materialized (
    select
      c.*,
      (sum(c.runs) over (order by c.bucket) - c.runs)::double precision as before,
      (sum(c.runs) over ())::double precision as total
    from (
      select
        n as bucket,
        encode(substr(d.digits, 12 * (80 - n) + 1, 12), 'escape')::bigint as runs,
        case n when 0 then 0 else 2 ^ ((n - 1) / 4.0::double precision) end as low,
        2 ^ (n / 4.0::double precision) as high
      from d
      cross join generate_series(0, 80) as n
    ) c
    where c.runs > 0
  ), longest as (
    select t.bucket, greatest(ceil(t.low), (total_ms - s.below_ms) / t.runs) as ms
    from (select * from b order by bucket desc limit 1) t
    cross join (
      select coalesce(sum(runs * (ceil(high) - 1)), 0) as below_ms from b where bucket < (select max(bucket) from b)
    ) s
  ), e as (
    select
      q.part,
      case when b.bucket < l.bucket then b.low + (b.high - b.low) * (q.part * b.total - b.before) / b.runs else l.ms end
        as ms
    from b
    cross join longest l
    cross join (values (0.5), (0.95)) as q (part)
    where b.before < q.part * b.total and b.before + b.runs >= q.part * b.total
  )
  select
    max(round(e.ms)) filter (where e.part = 0.5)::integer, max(round(e.ms)) filter (where e.part = 0.95)::integer
  from e
$$;

-- Returns { keys, agents, approval }: a page of keys, the members with agents, and the state of the keys' approval.
create or replace function ai.read_keys_page(
  member_id uuid, workspace uuid, before jsonb, page_size integer, nested boolean default false
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'keys', ai.list_keys(member_id, workspace, before, page_size, nested),
    'agents', ai.list_agent_access(member_id, workspace),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Returns a page of refused calls, newest first, for a member with use_ai_studio: { outcome: listed, calls,
-- continueBefore } or { outcome: not_allowed }. Takes the filters of ai.list_runs. Examines at most scan_limit calls; if
-- that fills no page, continueBefore is the position to continue from.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_refused_calls(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer
) returns jsonb
  language plpgsql stable security definer set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := (before ->> 'id')::uuid;
  ends_at timestamptz := least((filter ->> 'to')::timestamptz, last_at + interval '1 microsecond');
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  with scanned as (
    select c.*
    from ai.refused_calls c
    where c.workspace_id = workspace
      and c.created_at >= starts_at
      and c.created_at < ends_at
      and not (c.created_at = last_at and c.id >= last_id)
      and (filter ->> 'requestId' is null or c.request_id = filter ->> 'requestId')
    order by c.created_at desc, c.id desc
    limit scan_limit
  ), page as (
    select s.*
    from scanned s
    where (filter ->> 'model' is null or s.model_id = filter ->> 'model')
      and (filter ->> 'feature' is null or s.feature = filter ->> 'feature')
      and (filter ->> 'keyId' is null or s.key_id = (filter ->> 'keyId')::uuid)
      and (filter ->> 'appId' is null or s.app_id = (filter ->> 'appId')::uuid)
      and (filter ->> 'memberId' is null or s.actor_id = (filter ->> 'memberId')::uuid)
      and (filter ->> 'entityId' is null or s.entity_id = filter ->> 'entityId')
      -- Refused calls reached no provider.
      and not filter ? 'provider'
    order by s.created_at desc, s.id desc
    limit page_size
  )
  select jsonb_build_object(
    'outcome', 'listed',
    'calls', coalesce(
      (
        select jsonb_agg(
          ai.refused_call_summary(row(p.*)::ai.refused_calls, r.reader) order by p.created_at desc, p.id desc
        )
        from page p
        cross join (select ai.refusal_reader(member_id, workspace) as reader) as r
      ),
      '[]'
    ),
    'continueBefore', (
      select jsonb_build_object('createdAt', s.created_at, 'id', s.id)
      from scanned s
      where (select count(*) from page) < page_size
      order by s.created_at desc, s.id desc
      offset scan_limit - 1
      limit 1
    )
  )
  into answer;
  return answer;
end
$$;

-- Returns what decides which details of refused calls a member sees: { memberId, costVisible, keysVisible }. keysVisible
-- is as in ai.read_budgets.
create or replace function ai.refusal_reader(member_id uuid, workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'memberId', member_id,
    'costVisible', ai.cost_visible(workspace),
    'keysVisible', private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
      or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
  )
$$;

-- Returns the members of an object, also of nested objects, except amounts in dollars.
create or replace function ai.without_amounts(details jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_object_agg(
      d.key, case jsonb_typeof(d.value) when 'object' then ai.without_amounts(d.value) else d.value end
    ),
    '{}'
  )
  from jsonb_each(details) d
  where d.key !~* 'usd'
$$;

-- Gives a person who joins, or whose role changes, the monthly budget of the new role. A budget that the person already
-- has in the workspace stays as it is.
-- Definer: people who accept invitations or change members have no grant to write budgets.
create or replace function private.start_member_budget() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  role_budget_usd constant numeric := (select r.member_budget_usd from public.workspace_roles r where r.id = new.role_id);
begin
  if role_budget_usd is null then
    return null;
  end if;
  perform ai.lock_policy(new.workspace_id);
  perform from ai.budgets b
  where b.scope = 'member' and b.subject_id = new.user_id and b.workspace_id = new.workspace_id and b.limit_usd is not null;
  if found then
    return null;
  end if;
  perform ai.set_budget('member', new.user_id, new.workspace_id, role_budget_usd);
  perform private.log_workspace_change(
    new.workspace_id, 'budget.changed', new.user_id, ai.budget_name('member', new.user_id, new.workspace_id),
    jsonb_build_object('scope', 'member', 'before', null, 'after', trim_scale(role_budget_usd)::text)
  );
  return null;
end
$$;

-- Returns a run for a member with use_ai_studio: { outcome: read } merged with the fields of ai.run_detail, or {
-- outcome: not_found | not_allowed }. With a filter, also returns adjacent, its neighbours in the list of runs, unless it
-- filters by a provider that the workspace hides.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_run(
  member_id uuid, workspace uuid, run_id uuid, filter jsonb default null, sort text default 'time',
  scan_limit integer default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  found_run ai.runs := ai.find_run(run_id);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if found_run.workspace_id is distinct from workspace then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object('outcome', 'read') || ai.run_detail(found_run, visible) || case
    when filter is null or filter ? 'provider' and not visible then '{}'
    else jsonb_build_object('adjacent', ai.find_adjacent_runs(found_run, filter, sort, scan_limit, visible))
  end;
end
$$;

-- Returns the time that a UUIDv7 contains, which determines the partition of its row.
create or replace function ai.time_of_id(id uuid) returns timestamptz
  language sql immutable security invoker parallel safe
as $$
  select to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$$;

-- Returns the details of a run: { run, modelKind, steps, attempts, ledger, answeredBy }. run is the summary. modelKind is
-- null if the model is no longer in the catalogue. attempts are the
-- requests to providers. ledger contains the ledger entries, with charged credits as positive amounts. answeredBy is
-- the route that answered, with its prices at that time. attempts and answeredBy are null if provider cost is hidden.
create or replace function ai.run_detail(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.run_summary(run, cost_visible) || ai.run_pricing_facts(run, cost_visible),
    'modelKind', (select m.kind from ai.models m where m.id = (run).model_id),
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
        'region', jsonb_path_query_first(
          (run).routes, '$[*] ? (@.position == $position).region', jsonb_build_object('position', a.route)
        ),
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
    'ledger', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', l.kind, 'credits', trim_scale(-l.amount)::text, 'createdAt', l.created_at
      ) order by l.id), '[]')
      from ai.credit_ledger l
      where l.run_id = (run).id
    ),
    'answeredBy', case when cost_visible then
      jsonb_path_query_first((run).routes, '$[*] ? (@.position == $position)', jsonb_build_object('position', (run).route))
    end
  )
$$;

-- Returns whether a run matches the filters of ai.list_runs, except its range.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.matches_run_filter(run ai.runs, filter jsonb) returns boolean
  language sql stable security invoker
as $$
  select (filter ->> 'model' is null or (run).model_id = filter ->> 'model')
    and (filter ->> 'feature' is null or (run).feature = filter ->> 'feature')
    and (filter ->> 'status' is null or (run).status = filter ->> 'status')
    and (filter ->> 'keyId' is null or (run).key_id = (filter ->> 'keyId')::uuid)
    and (filter ->> 'appId' is null or (run).app_id = (filter ->> 'appId')::uuid)
    and (filter ->> 'memberId' is null or (run).actor_id = (filter ->> 'memberId')::uuid)
    and (filter ->> 'provider' is null or ai.run_provider((run).routes, (run).route) = filter ->> 'provider')
    and (filter ->> 'entityId' is null or (run).entity_id = filter ->> 'entityId')
    and (filter ->> 'requestId' is null or (run).request_id = filter ->> 'requestId')
$$;

-- Returns values by which a workspace's runs can be filtered, at most 100 of each kind, for a member with
-- use_ai_studio, and all models that it may call. Returns { outcome: listed, models, keys (newest first), apps, members,
-- providers } or { outcome: not_allowed }. providers is null if the workspace hides providers.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_filters(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'models', (
      select coalesce(jsonb_agg(m.id order by m.id), '[]')
      from (
        select distinct g.model_id as id
        from ai.model_grants g
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
      ) m
    ),
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'ended', k.revoked_at is not null or coalesce(k.expires_at <= now(), false)
      ) order by k.created_at desc, k.id), '[]')
      from (
        select * from ai.keys o where o.workspace_id = workspace order by o.created_at desc, o.id limit 100
      ) k
    ),
    'apps', (
      select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id), '[]')
      from (
        select o.id, o.display_name
        from private.app_workspaces l
        join private.apps o on o.id = l.app_id
        where l.workspace_id = workspace
        order by o.display_name, o.id
        limit 100
      ) a
    ),
    'members', (
      select coalesce(jsonb_agg(jsonb_build_object('id', m.user_id, 'name', m.name)), '[]')
      from public.list_workspace_members(workspace, page_size => 100) m
    ),
    'providers', case when ai.cost_visible(workspace) then (
      select coalesce(jsonb_agg(p.id order by p.id), '[]')
      from (
        select distinct r.provider_id as id
        from ai.model_routes r
        join ai.model_grants g on g.model_id = r.model_id
        join public.workspaces w on w.id = workspace and (g.plan_id = w.plan_id or g.workspace_id = w.id)
        order by 1
        limit 100
      ) p
    ) end
  );
end
$$;

-- Returns the value by which ai.list_runs sorts a run, or null if it sorts by time. Runs without a latency come last.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.run_sort_value(run ai.runs, sort text, cost_visible boolean) returns numeric
  language sql immutable security invoker
as $$
  select case sort
    when 'cost' then case when cost_visible then (run).cost_usd else (run).billed_credits end
    when 'tokens' then ((run).input_tokens + (run).output_tokens)::numeric
    when 'latency' then coalesce((run).latency_ms, -1)::numeric
  end
$$;

-- Returns whether a workspace has more than most runs in a range. Reads at most one more. Sorting has no index, because
-- each index slows down every gateway call.
create or replace function ai.has_more_runs_than(most integer, workspace uuid, starts_at timestamptz, ends_at timestamptz)
  returns boolean
  language sql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
  select count(*) > most
  from (
    select
    from ai.runs r
    where r.workspace_id = workspace and r.created_at >= starts_at and r.created_at < ends_at
    limit most + 1
  ) as counted
$$;

-- Returns { previous, next }, the ids of the runs before and after a run in the list that ai.list_runs returns for these
-- filters, or nulls. Searches at most scan_limit runs in each direction.
create or replace function ai.find_adjacent_runs(
  run ai.runs, filter jsonb, sort text, scan_limit integer, cost_visible boolean
) returns jsonb
  language plpgsql stable security invoker set search_path = '' set plan_cache_mode = force_custom_plan
as $$
declare
  workspace uuid := run.workspace_id;
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filter ->> 'to')::timestamptz, 'infinity');
  run_value numeric;
  found_ids record;
begin
  if sort <> 'time' and ai.has_more_runs_than(scan_limit, workspace, starts_at, ends_at) then
    sort := 'time';
  end if;
  if sort <> 'time' then
    run_value := ai.run_sort_value(run, sort, cost_visible);
    select
      (array_agg(s.id order by s.value, s.created_at, s.id)
        filter (where (s.value, s.created_at, s.id) > (run_value, run.created_at, run.id)))[1] as previous,
      (array_agg(s.id order by s.value desc, s.created_at desc, s.id desc)
        filter (where (s.value, s.created_at, s.id) < (run_value, run.created_at, run.id)))[1] as next
    into found_ids
    from (
      select r.id, r.created_at, ai.run_sort_value(r, sort, cost_visible) as value
      from ai.runs r
      where r.workspace_id = workspace and r.created_at >= starts_at and r.created_at < ends_at
        and ai.matches_run_filter(r, filter)
    ) s;
  else
    select (
      select scanned.id
      from (
        select *
        from ai.runs r
        where r.workspace_id = workspace and r.created_at >= greatest(starts_at, run.created_at) and r.created_at < ends_at
          and not (r.created_at = run.created_at and r.id <= run.id)
        order by r.created_at, r.id
        limit scan_limit
      ) as scanned
      where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
      order by scanned.created_at, scanned.id
      limit 1
    ) as previous, (
      select scanned.id
      from (
        select *
        from ai.runs r
        where r.workspace_id = workspace and r.created_at >= starts_at
          and r.created_at < least(ends_at, run.created_at + interval '1 microsecond')
          and not (r.created_at = run.created_at and r.id >= run.id)
        order by r.created_at desc, r.id desc
        limit scan_limit
      ) as scanned
      where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
      order by scanned.created_at desc, scanned.id desc
      limit 1
    ) as next
    into found_ids;
  end if;
  return jsonb_build_object('previous', found_ids.previous, 'next', found_ids.next);
end
$$;

-- Returns a page of a workspace's runs for a member with use_ai_studio: { outcome: listed, runs, sort, sortValue,
-- unknown, continueBefore } or { outcome: not_allowed }. filter has any of from, to (half-open), model, feature, status,
-- keyId, appId, memberId, provider, entityId, requestId. unknown names a filter with a value that does not exist.
-- sort is time (newest first) or cost, tokens or latency (largest first). If the range has more than scan_limit runs,
-- the answer is sorted by time, as its sort says. sortValue is that of the last run before the page's additional one,
-- and continues the list together with the run's createdAt and id. With scan_limit, a filter without an index examines
-- at most that many runs. In this case continueBefore is the position to continue from, or null if no older run can
-- match.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_runs(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit, sort, visible);
  sorted_by text := page.answer ->> 'sort';
begin
  return page.answer || case when page.runs is null then '{}' else jsonb_build_object('runs', (
    select coalesce(jsonb_agg(
      -- Calls ai.run_pricing_facts directly. A call inside ai.run_summary would make Postgres plan ai.run_pricing_facts
      -- again for each run.
      ai.run_summary(r, visible) || ai.run_pricing_facts(r, visible)
      order by ai.run_sort_value(r, sorted_by, visible) desc, r.created_at desc, r.id desc
    ), '[]')
    from unnest(page.runs) r
  )) end;
end
$$;

-- Returns a page of runs like ai.list_runs, for files of many thousand runs: each run is an array of the values that
-- ai.run_summary and ai.run_pricing_facts return, in the order of remix-app/studio/runs/run-file.ts. A run's routes are
-- JSON text, which its reader need not parse again for the next run.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_run_rows(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns json
  language plpgsql stable security definer set search_path = ''
as $$
declare
  visible boolean := ai.cost_visible(workspace);
  page record := ai.find_runs_of_page(member_id, workspace, filter, before, page_size, scan_limit, sort, visible);
  sorted_by text := page.answer ->> 'sort';
begin
  return json_build_object(
    'outcome', page.answer -> 'outcome',
    'unknown', page.answer -> 'unknown',
    'continueBefore', page.answer -> 'continueBefore',
    'sort', page.answer -> 'sort',
    'sortValue', page.answer -> 'sortValue',
    'runs', (
      select coalesce(json_agg(json_build_array(
        r.id, r.request_id, r.created_at, r.settled_at, r.model_id, r.feature, r.entity_id, r.credential_source,
        r.execution_mode, r.key_id, k.name, r.app_id, a.display_name, r.actor_id, p.display_name,
        case when r.credential_source <> 'key' then r.actor_id end,
        case when visible then ai.run_provider(r.routes, r.route) end,
        r.streamed, r.status, r.http_status, r.error_code, r.usage_source, r.input_tokens, r.cached_input_tokens,
        r.output_tokens, r.reasoning_tokens, r.audio_input_tokens, r.audio_output_tokens,
        r.cache_write_tokens + r.cache_write_1h_tokens, r.image_input_tokens, r.fee_requests,
        case when visible then r.served_tier end, r.marks, trim_scale(r.billed_credits)::text,
        trim_scale(r.unmetered_credits)::text, case when visible then trim_scale(r.cost_usd)::text end, r.first_byte_ms,
        r.latency_ms, r.cache_write_1h_tokens, r.exempt, r.swept, r.idempotency_key is not null,
        ai.has_provider_call(r.steps), case when r.status = 'running' then trim_scale(r.reserved_credits)::text end,
        case when visible then trim_scale(r.markup)::text end, case when visible then r.route end,
        case when visible then ai.charged_routes(r.routes, r.route, r.attempts)::text end,
        case when visible then r.attempts end
      ) order by ai.run_sort_value(r, sorted_by, visible) desc, r.created_at desc, r.id desc), '[]')
      from unnest(page.runs) r
      left join ai.keys k on k.id = r.key_id
      left join private.apps a on a.id = r.app_id
      left join public.profiles p on p.id = r.actor_id
    )
  );
end
$$;

-- Returns the runs of a page, and the other fields of ai.list_runs as answer. runs is null if the member may not see
-- them.
create or replace function ai.find_runs_of_page(
  member_id uuid,
  workspace uuid,
  filter jsonb,
  before jsonb,
  page_size integer,
  scan_limit integer,
  sort text,
  cost_visible boolean,
  out answer jsonb,
  out runs ai.runs[]
)
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would use no index and read every partition.
  set plan_cache_mode = force_custom_plan
as $$
declare
  starts_at timestamptz := coalesce((filter ->> 'from')::timestamptz, '-infinity');
  ends_at timestamptz := coalesce((filter ->> 'to')::timestamptz, 'infinity');
  of_request text := filter ->> 'requestId';
  has_outer_filter boolean := filter - '{from,to,requestId}'::text[] <> '{}';
  last_value numeric := (before ->> 'value')::numeric;
  last_at timestamptz;
  last_id uuid;
  unknown_name text;
  scanned_to record;
  older_than timestamptz;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    answer := '{"outcome": "not_allowed"}';
    return;
  end if;
  runs := '{}';
  if sort <> 'time' and ai.has_more_runs_than(scan_limit, workspace, starts_at, ends_at) then
    sort := 'time';
  end if;
  -- Starts over if the position belongs to another order, because the range now has more runs.
  if (sort = 'time') = (last_value is null) then
    last_at := (before ->> 'createdAt')::timestamptz;
    last_id := (before ->> 'id')::uuid;
  end if;
  last_at := coalesce(last_at, 'infinity');
  answer := jsonb_build_object('outcome', 'listed', 'sort', sort);
  unknown_name := ai.unknown_run_filter(workspace, filter);
  -- Continues for an unknown app or member, because a deleted app or account can still have runs.
  if unknown_name in ('provider', 'keyId') then
    answer := answer || jsonb_build_object('unknown', unknown_name);
    return;
  end if;
  if sort <> 'time' then
    runs := array(
      select row(r.*)::ai.runs
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and ai.matches_run_filter(r, filter)
        and (
          last_id is null
          or (ai.run_sort_value(r, sort, cost_visible), r.created_at, r.id) < (last_value, last_at, last_id)
        )
      order by ai.run_sort_value(r, sort, cost_visible) desc, r.created_at desc, r.id desc
      limit page_size
    );
    answer := answer || jsonb_build_object(
      'sortValue', ai.run_sort_value(runs[page_size - 1], sort, cost_visible)::text,
      'unknown', case when before is null and runs = '{}' then unknown_name end
    );
    return;
  end if;
  -- Compares created_at separately, because the row comparison (created_at, id) < (last_at, last_id) would prune no
  -- partition.
  ends_at := least(ends_at, last_at + interval '1 microsecond');
  -- The request id has an index. The other filters have none, because each index slows down every gateway call.
  if of_request is not null or not has_outer_filter then
    scan_limit := null;
  end if;
  runs := array(
    select row(scanned.*)::ai.runs
    from (
      select *
      from ai.runs r
      where r.workspace_id = workspace
        and r.created_at >= starts_at
        and r.created_at < ends_at
        and not (r.created_at = last_at and r.id >= last_id)
        and (of_request is null or r.request_id = of_request)
      order by r.created_at desc, r.id desc
      -- Without a limit here, Postgres would plan to read all runs, because the outer limit does not reach this query.
      limit case when has_outer_filter then scan_limit else page_size end
    ) as scanned
    where ai.matches_run_filter(row(scanned.*)::ai.runs, filter)
    order by scanned.created_at desc, scanned.id desc
    limit page_size
  );
  if scan_limit is null or cardinality(runs) >= page_size then
    answer := answer || jsonb_build_object('unknown', case when before is null and runs = '{}' then unknown_name end);
    return;
  end if;
  select r.created_at, r.id into scanned_to
  from ai.runs r
  where r.workspace_id = workspace
    and r.created_at >= starts_at
    and r.created_at < ends_at
    and not (r.created_at = last_at and r.id >= last_id)
  order by r.created_at desc, r.id desc
  offset scan_limit - 1
  limit 1;
  older_than := ai.runs_may_exist_before(workspace, filter, scanned_to.created_at);
  answer := answer || jsonb_build_object(
    'unknown', case when before is null and runs = '{}' and older_than is null then unknown_name end,
    'continueBefore', case when older_than is not null then jsonb_build_object(
      'createdAt', older_than,
      'id', case when older_than = scanned_to.created_at then scanned_to.id else '00000000-0000-0000-0000-000000000000' end
    ) end
  );
end
$$;

-- Returns a workspace's usage for a member with use_ai_studio: a page of rows, the totals of the whole window, and the
-- credits deducted without a run. Rows are grouped by any of day, model, feature, executionMode, provider, key (its
-- lineage), app and member. Alternatively they are grouped by label, or by label and day. provider is null if the
-- workspace hides provider cost. refused counts the refused calls of all days that overlap the window; it is null in
-- rows by label. The default window is the last 30 days. after is the position of the last row on the previous page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_usage(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  group_by text[] default '{day,model,feature,executionMode}', after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  by_member boolean := 'member' = any (group_by);
  by_label boolean := 'label' = any (group_by);
  visible boolean := ai.cost_visible(workspace);
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  return (
    with parts as materialized (
      select
        u.day, u.model_id, u.feature, u.execution_mode, u.provider_id, u.key_lineage_id, u.app_id, u.actor_id,
        u.requests, u.failed, u.input_tokens, u.output_tokens, u.cost_usd, u.billed_credits, u.unmetered_credits,
        u.latency_ms, u.timed, 0 as refused
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to, by_member) u
      union all
      select
        r.day, coalesce(r.model_id, ''), coalesce(r.feature, ''), r.execution_mode, null, r.key_lineage_id, r.app_id,
        r.actor_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, r.refused
      from ai.refused_between(workspace, report_window.window_from, report_window.window_to) r
    ), grouped as (
      select
        array[
          case when 'day' = any (group_by) then u.day::text else '' end,
          case when 'model' = any (group_by) then u.model_id else '' end,
          case when 'feature' = any (group_by) then u.feature else '' end,
          case when 'executionMode' = any (group_by) then u.execution_mode else '' end,
          case when 'provider' = any (group_by) and visible then coalesce(u.provider_id, '') else '' end,
          case when 'key' = any (group_by) then coalesce(u.key_lineage_id::text, '') else '' end,
          case when 'app' = any (group_by) then coalesce(u.app_id::text, '') else '' end
        -- A key has an eighth part only when grouping by member or label.
        ] || case when by_member then array[coalesce(u.actor_id::text, '')] end as key,
        sum(u.requests) as requests, sum(u.failed) as failed, sum(u.input_tokens) as input_tokens,
        sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd, sum(u.billed_credits) as billed_credits,
        sum(u.unmetered_credits) as unmetered_credits, sum(u.latency_ms) as latency_ms, sum(u.timed) as timed,
        sum(u.refused) as refused
      from parts u
      where not by_label
      group by 1
      having sum(u.requests) > 0 or sum(u.refused) > 0
      union all
      select
        array[case when 'day' = any (group_by) then l.day::text else '' end, '', '', '', '', '', '', l.label],
        sum(l.requests), sum(l.failed), sum(l.input_tokens), sum(l.output_tokens), sum(l.cost_usd), sum(l.billed_credits),
        sum(l.unmetered_credits), sum(l.latency_ms), sum(l.timed), null
      from ai.label_usage_between(workspace, report_window.window_from, report_window.window_to) l
      where by_label
      group by 1
      having sum(l.requests) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(report_window.window_from),
      'to', ai.utc_text_microseconds(report_window.window_to),
      'previous', jsonb_build_object(
        'from', ai.utc_text_microseconds(report_window.window_from - (report_window.window_to - report_window.window_from)),
        'to', ai.utc_text_microseconds(report_window.window_from)
      ),
      'totals', (
        select ai.usage_sums(
          sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens),
          case when visible then coalesce(sum(u.cost_usd), 0) end, sum(u.billed_credits), sum(u.unmetered_credits),
          sum(u.latency_ms), sum(u.timed)
        ) || jsonb_build_object(
          'refused', coalesce(sum(u.refused), 0),
          'otherDeductions', trim_scale(d.credits)::text,
          'usedCredits', trim_scale(d.credits + coalesce(sum(u.billed_credits), 0))::text
        )
        from (select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits) d
        left join parts u on true
        group by d.credits
      ),
      'rows', (
        select coalesce(jsonb_agg(
          ai.usage_sums(
            p.requests, p.failed, p.input_tokens, p.output_tokens, case when visible then p.cost_usd end,
            p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed
          ) || jsonb_build_object(
            'refused', p.refused,
            'day', nullif(p.key[1], ''),
            'model', nullif(p.key[2], ''),
            'feature', nullif(p.key[3], ''),
            'executionMode', nullif(p.key[4], ''),
            'provider', nullif(p.key[5], ''),
            'keyId', nullif(p.key[6], ''),
            'keyName', (
              select k.name from ai.keys k
              where k.lineage_id = nullif(p.key[6], '')::uuid and k.workspace_id = workspace
              order by k.created_at desc limit 1
            ),
            'appId', nullif(p.key[7], ''),
            'appName', ai.app_label(nullif(p.key[7], '')::uuid),
            'memberId', case when by_member then nullif(p.key[8], '') end,
            'memberName', case when by_member then ai.member_label(workspace, nullif(p.key[8], '')::uuid) end,
            'label', case when by_label then nullif(p.key[8], '') end,
            'position', p.key
          )
          order by p.key collate "C"
        ), '[]')
        from (
          select * from grouped g
          where after is null or g.key collate "C" > after collate "C"
          order by g.key collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

-- Returns whether a workspace's book is in use: an app is linked, or costs or invoices were recorded. False for callers
-- who may not read the book, and without the required MFA.
-- Definer: users cannot read links and records.
create or replace function public.uses_cost_book(workspace_id uuid) returns boolean
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return private.account_required_mfa_satisfied()
    and private.user_has_workspace_permission(auth.uid(), uses_cost_book.workspace_id, 'use_ai_studio')
    and (
      exists (select from private.app_workspaces l where l.workspace_id = uses_cost_book.workspace_id)
      or exists (select from ai.external_provider_costs c where c.workspace_id = uses_cost_book.workspace_id)
      or exists (select from ai.external_provider_invoices i where i.workspace_id = uses_cost_book.workspace_id)
    );
end
$$;

-- Returns { workspace } or, with the frame, { workspace, others, creditNotice, usesCostBook }. Returns null if row-level
-- security does not show the workspace to the caller as a member. workspace is { id, name, planId, personal, createdAt,
-- role, isOwner, permissions }. personal tells whether it is the caller's own. others lists up to eight workspaces to
-- switch to.
create or replace function public.read_workspace(workspace_id uuid, with_frame boolean default false) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  workspace jsonb := (
    select jsonb_build_object(
      'id', w.id,
      'name', w.name,
      'planId', w.plan_id,
      'personal', w.personal_user_id is not distinct from m.user_id,
      'createdAt', w.created_at,
      'role', r.name,
      'isOwner', r.is_owner,
      'permissions', r.permissions
    )
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.workspace_id = read_workspace.workspace_id and m.user_id = (select auth.uid())
  );
begin
  if workspace is null then
    return null;
  end if;
  if not with_frame then
    return jsonb_build_object('workspace', workspace);
  end if;
  return jsonb_build_object(
    'workspace', workspace,
    'others', (
      select coalesce(jsonb_agg(jsonb_build_object('id', o.id, 'name', o.name) order by o.place), '[]')
      from (
        select l.id, l.name, l.place
        from public.list_workspaces(null, 9) with ordinality as l (id, name, plan_id, personal, role, place)
        where l.id <> read_workspace.workspace_id
        order by l.place
        limit 8
      ) o
    ),
    'creditNotice', public.read_credit_notice(read_workspace.workspace_id),
    'usesCostBook', public.uses_cost_book(read_workspace.workspace_id)
  );
end
$$;

-- Returns a workspace's refused calls on all days that overlap a half-open window.
-- Has no settings of its own, so Postgres inlines it into its callers' plans.
create or replace function ai.refused_between(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns setof ai.refused_daily
  language sql stable security invoker
as $$
  select r.*
  from ai.refused_daily r
  where r.workspace_id = workspace
    and r.day >= (window_from at time zone 'UTC')::date
    and r.day <= ((window_to - interval '1 microsecond') at time zone 'UTC')::date
$$;

-- Logs a change to a row that belongs to a workspace.
-- Definer, like the triggers below: the roles that change these rows have no grant to write the log.
create or replace function private.log_workspace_row() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  row_before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  row_after jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  subject_row jsonb := coalesce(row_after, row_before);
  verb text := case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'changed' else 'deleted' end;
begin
  if tg_table_name = 'workspaces' then
    if tg_op = 'INSERT' then
      perform private.log_workspace_change(new.id, 'workspace.created', new.id, new.name);
    elsif old.deleted_at is null and new.deleted_at is not null then
      perform private.log_workspace_change(new.id, 'workspace.deleted', new.id, old.name);
    elsif new.name is distinct from old.name or new.plan_id is distinct from old.plan_id then
      perform private.log_workspace_change(new.id, 'workspace.changed', new.id, new.name, jsonb_build_object(
        'before', jsonb_build_object('name', old.name, 'plan', old.plan_id),
        'after', jsonb_build_object('name', new.name, 'plan', new.plan_id)
      ));
    end if;
  elsif tg_table_name = 'workspace_members' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'member.' || case tg_op when 'INSERT' then 'joined' when 'UPDATE' then 'role_changed' else 'left' end,
      (subject_row ->> 'user_id')::uuid,
      (select p.display_name from public.profiles p where p.id = (subject_row ->> 'user_id')::uuid),
      jsonb_strip_nulls(jsonb_build_object(
        'before', (select r.name from public.workspace_roles r where r.id = (row_before ->> 'role_id')::uuid),
        'after', (select r.name from public.workspace_roles r where r.id = (row_after ->> 'role_id')::uuid)
      ))
    );
  elsif tg_table_name = 'workspace_roles' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid, 'role.' || verb, (subject_row ->> 'id')::uuid, subject_row ->> 'name',
      jsonb_strip_nulls(jsonb_build_object('before', row_before -> 'permissions', 'after', row_after -> 'permissions'))
        || case
          when row_before ->> 'member_budget_usd' is distinct from row_after ->> 'member_budget_usd' then jsonb_build_object(
            'budgetBefore', row_before ->> 'member_budget_usd', 'budgetAfter', row_after ->> 'member_budget_usd'
          )
          else '{}'
        end
    );
  elsif tg_table_name = 'workspace_invitations' then
    if tg_op = 'UPDATE' and new.accepted_at is null then
      return null;
    end if;
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'invitation.' || case tg_op when 'INSERT' then 'sent' when 'UPDATE' then 'accepted' else 'withdrawn' end,
      (subject_row ->> 'id')::uuid, subject_row ->> 'email'
    );
  end if;
  return null;
end
$$;

-- Returns a workspace's roles, each with its number of members. Stops counting at 1,001.
create or replace function public.list_workspace_roles(workspace_id uuid)
  returns table (
    id uuid,
    name text,
    is_owner boolean,
    permissions public.workspace_permission[],
    members bigint,
    member_budget_usd numeric
  )
  language sql stable security invoker set search_path = ''
as $$
  select
    r.id, r.name, r.is_owner, r.permissions,
    (
      select count(*)
      from (
        select from public.workspace_members m where m.workspace_id = r.workspace_id and m.role_id = r.id limit 1001
      ) as counted
    ),
    r.member_budget_usd
  from public.workspace_roles r
  where r.workspace_id = list_workspace_roles.workspace_id
$$;

-- Returns what a caller lacks whose credential is refused as insufficient_scope or app_not_allowed: scopes, an address,
-- a permission, the app's link to the workspace or the person's membership.
create or replace function ai.missing_right(caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object('missing', case
    when (caller).refused = 'app_not_allowed' then jsonb_build_object('kind', case
      when ai.app_can_act_in_workspace((caller).app_id, (caller).workspace_id) then 'membership'
      else 'app_link'
    end)
    when (caller).source = 'session' then jsonb '{"kind": "permission", "permission": "use_ai_studio"}'
    when (caller).source = 'app_token' then ai.missing_scopes(caller, '{workspace:session,ai:use}')
    when (caller).app_id is not null and not 'workspace:session' = any ((caller).scopes)
      then ai.missing_scopes(caller, '{workspace:session}')
    else jsonb '{"kind": "address"}'
  end)
$$;

-- Returns the result of device_state, with the active account's encrypted session added. Returns null for an unknown
-- device.
create or replace function private.open_account_device(device_id uuid, secret text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select state.device || jsonb_build_object(
    'vault', (
      select private.vault_entry_view(e)
      from private.account_vault_entries e
      where e.device_id = open_account_device.device_id
        and e.user_id = (state.device #>> '{active,userId}')::uuid
        and e.sealed is not null
    )
  )
  from (select private.device_state(open_account_device.device_id, open_account_device.secret)) as state (device)
$$;

-- Returns the details of a workspace's keys, newest first. With nested, each has the details of its replaced keys.
create or replace function ai.key_summaries(workspace uuid, listed ai.keys[], nested boolean default false) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    ai.key_summary(k, c.cost_usd) || case when nested then jsonb_build_object('replaced', ai.replaced_keys(k)) else '{}' end
    order by k.created_at desc, k.id desc
  ), '[]')
  from unnest(listed) as k
  left join (
    select u.key_lineage_id, sum(u.cost_usd) as cost_usd
    from ai.usage_between(workspace, date_trunc('month', now(), 'UTC'), 'infinity') u
    where u.key_lineage_id in (select l.lineage_id from unnest(listed) as l)
    group by u.key_lineage_id
  ) c on c.key_lineage_id = k.lineage_id
$$;

-- Returns a text that differs after each change of a key's settings or budget, so that a change made from an older
-- state can be refused.
create or replace function ai.key_version(key ai.keys) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(ai.key_settings(key)::text || coalesce(ai.key_budget(key)::text, ''))
$$;

-- Returns a range's sums (the argument of ai.overview_sums), grouped by ai.usage_key or by label. The row with a null key
-- covers the whole range. Rows of labels have neither histograms nor refused calls.
-- Has no `set` clause, so that Postgres can inline it into its callers' plans.
create or replace function ai.usage_by_key(
  workspace uuid, window_from timestamptz, window_to timestamptz, grouped_by text, days_each integer
) returns table (key text, sums numeric[], cost_usd numeric, billed_credits numeric, requests numeric)
  language sql stable security invoker
as $$
  select
    u.key,
    array[
      sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd), sum(u.billed_credits),
      sum(u.unmetered_credits), sum(u.latency_ms), sum(u.timed), sum(u.latency_marks), sum(u.first_token_marks),
      coalesce(sum(u.refused), 0)
    ],
    sum(u.cost_usd), sum(u.billed_credits), sum(u.requests)
  from (
    select
      ai.usage_key(p, grouped_by, (window_from at time zone 'UTC')::date, days_each) as key, p.requests, p.failed,
      p.input_tokens, p.output_tokens, p.cost_usd, p.billed_credits, p.unmetered_credits, p.latency_ms, p.timed,
      p.latency_marks, p.first_token_marks, 0 as refused
    from ai.usage_between(workspace, window_from, window_to, grouped_by = 'member') p
    union all
    select
      ai.refused_key(r, grouped_by, (window_from at time zone 'UTC')::date, days_each), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      r.refused
    from ai.refused_between(workspace, window_from, window_to) r
  ) u
  group by grouping sets ((u.key), ())
  -- For labels, keeps only the row for the whole range. The rows of labels come from ai.label_usage_between.
  having u.key is null or (grouped_by <> 'label' and (sum(u.requests) > 0 or sum(u.refused) > 0))
  union all
  select
    b.label,
    array[
      sum(b.requests), sum(b.failed), sum(b.input_tokens), sum(b.output_tokens), sum(b.cost_usd), sum(b.billed_credits),
      sum(b.unmetered_credits), sum(b.latency_ms), sum(b.timed)
    ],
    sum(b.cost_usd), sum(b.billed_credits), sum(b.requests)
  from ai.label_usage_between(workspace, window_from, window_to) b
  where grouped_by = 'label'
  group by b.label
  having sum(b.requests) > 0
$$;

-- Formats the quantiles of a histogram of durations, with their sum, and of one of times to the first token.
create or replace function ai.latency_summary(latency_marks numeric, first_token_marks numeric, latency_ms numeric)
  returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'latencyP50Ms', l.p50, 'latencyP95Ms', l.p95, 'firstTokenP50Ms', f.p50, 'firstTokenP95Ms', f.p95
  )
  from ai.latency_quantiles(latency_marks, latency_ms) as l
  cross join ai.latency_quantiles(first_token_marks) as f
$$;

-- Returns { page, filters, refused }: a page of runs, the values to filter them by, and a page of refused calls. The
-- status refused lists only these, and a request id without a status lists both. Otherwise refused is null.
create or replace function ai.read_runs_page(
  member_id uuid, workspace uuid, filter jsonb, before jsonb, page_size integer, scan_limit integer,
  sort text default 'time'
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'page', case when filter ->> 'status' = 'refused' then '{"outcome": "listed", "runs": []}'
      else ai.list_runs(member_id, workspace, filter, before, page_size, scan_limit, sort) end,
    'filters', ai.list_run_filters(member_id, workspace),
    'refused', case when coalesce(filter ->> 'status' = 'refused', filter ? 'requestId' and before is null)
      then ai.list_refused_calls(member_id, workspace, filter, before, page_size, scan_limit) end
  )
$$;

-- Returns the details of a refused call that a reader may see. Only members see their own balance, also when they pay
-- for the calls of a key. The fitting output limit would tell it, too. What a key's budget has left, and the address
-- from which a key was used, are for those who see the budgets of keys.
create or replace function ai.visible_details(call ai.refused_calls, reader jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select case
    when r.reached @> '{"kind": "balance", "payer": "member"}' and (call).actor_id::text is distinct from reader ->> 'memberId'
      then r.details - '{need,fitting_output_limit}'::text[] || jsonb_build_object(
        'limit', r.reached - '{balance_credits,reserved_credits,remaining_credits}'::text[]
      )
    when (reader ->> 'keysVisible')::boolean then r.details
    when r.reached @> '{"kind": "budget", "scope": "key"}' then ai.without_amounts(r.details) - 'fitting_output_limit'
    when r.details @> '{"missing": {"kind": "address"}}' then null
    else r.details
  end
  from (
    select d.details, d.details -> 'limit' as reached
    from (
      select case when (reader ->> 'costVisible')::boolean then (call).details else ai.without_amounts((call).details) end
    ) as d (details)
  ) as r
$$;

-- Returns the run with this id, in any workspace. Returns a row of nulls if the run does not exist.
create or replace function ai.find_run(run_id uuid) returns ai.runs
  language sql stable security invoker set search_path = ''
as $$
  select r
  from ai.runs r, ai.time_of_id(run_id) as run_time
  where r.id = run_id and r.created_at >= run_time - interval '1 second' and r.created_at < run_time + interval '1 second'
$$;

-- Returns the refusal of a caller whose credential may not be used, with what the caller lacks.
create or replace function ai.credential_refusal(caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select ai.refusal((caller).refused, case
    when (caller).refused in ('insufficient_scope', 'app_not_allowed') then ai.missing_right(caller)
  end)
$$;

-- Returns a key's details without its secret, which is stored only as a hash. Amounts are exact text. Spend is for the
-- current UTC month and includes the keys that this key replaced. A replaced key has no spend of its own, so that a sum
-- over keys counts each amount once. For an agent's key, the last use is the latest use of any key of the agent.
create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.key_settings(key) || jsonb_build_object(
    'id', (key).id,
    'lineageId', (key).lineage_id,
    'version', ai.key_version(key),
    'prefix', 'ttr_ai_' || (key).lookup,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', case
      when (key).connection_id is null then (key).last_used_at
      else (select max(k.last_used_at) from ai.keys k where k.connection_id = (key).connection_id)
    end,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).connection_id is not null
        then case when ai.agent_of_key(key) ->> 'status' = 'good' then 'active' else 'expired' end
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'entityId', (key).entity_id,
    'spentThisMonthUsd', case
      when (key).replaced_by is null and ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text
    end,
    'agent', ai.agent_of_key(key),
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when (key).replaced_by is not null or not ai.cost_visible(b.workspace_id) then null
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

-- Formats sums of ai.usage_by_key for display, with latency quantiles. Returns null for null. Called only for displayed
-- rows, because a day may have thousands of labels.
-- Has no `set` clause and no subselect, so that Postgres can inline it into its callers' plans.
create or replace function ai.overview_sums(sums numeric[], cost_visible boolean) returns jsonb
  language sql immutable security invoker
as $$
  select case when sums is not null then
    ai.usage_sums(
      sums[1], sums[2], sums[3], sums[4], case when cost_visible then coalesce(sums[5], 0) end, sums[6], sums[7], sums[8],
      sums[9]
    ) || jsonb_build_object('refused', sums[12]) || case
      when sums[10] > 0 then ai.latency_summary(sums[10], sums[11], sums[8])
      else '{"latencyP50Ms": null, "latencyP95Ms": null, "firstTokenP50Ms": null, "firstTokenP95Ms": null}'
    end
  end
$$;

-- Returns a refused call for its workspace's members. reader is what ai.refusal_reader returns.
create or replace function ai.refused_call_summary(call ai.refused_calls, reader jsonb) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (call).id,
    'requestId', (call).request_id,
    'createdAt', (call).created_at,
    'model', (call).model_id,
    'endpoint', (call).endpoint,
    'feature', (call).feature,
    'entityId', (call).entity_id,
    'credentialSource', (call).credential_source,
    'keyId', (call).key_id,
    'keyName', (select k.name from ai.keys k where k.id = (call).key_id),
    'appId', (call).app_id,
    'appName', (select a.display_name from private.apps a where a.id = (call).app_id),
    'memberId', (call).actor_id,
    'memberName', (select p.display_name from public.profiles p where p.id = (call).actor_id),
    'streamed', (call).streamed,
    'httpStatus', (call).http_status,
    'errorCode', (call).error_code,
    'param', (call).param,
    'details', ai.visible_details(call, reader)
  )
$$;

-- Returns the refusal of a caller that may not make calls, otherwise null. If a kind is given, also checks that the
-- caller may make calls of that kind.
create or replace function ai.call_refusal(caller ai.caller, kind text default null) returns jsonb
  language sql stable security invoker
as $$
  select case
    when (caller).source is null then ai.refusal('invalid_api_key')
    when (caller).refused is not null then ai.credential_refusal(caller)
    when (caller).app_id is not null and not 'ai:use' = any ((caller).scopes)
      or kind is not null and (
        (caller).app_id is not null and kind = 'speech' and not 'tts:use' = any ((caller).scopes)
        or (caller).payer = 'member' and not (caller).actor_is_member
      ) then ai.refusal('insufficient_scope', jsonb_build_object('missing', case
        when (caller).app_id is not null and not 'ai:use' = any ((caller).scopes) then ai.missing_scopes(caller, '{ai:use}')
        when (caller).app_id is not null and kind = 'speech' and not 'tts:use' = any ((caller).scopes)
          then ai.missing_scopes(caller, '{tts:use}')
        else jsonb '{"kind": "membership"}'
      end))
  end
$$;

-- Returns a refused call of a workspace for a member with use_ai_studio, or null.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_refused_call(member_id uuid, workspace uuid, call_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.refused_call_summary(c, ai.refusal_reader(member_id, workspace))
  from ai.refused_calls c, ai.time_of_id(call_id) as call_time
  where c.id = call_id
    and c.created_at >= call_time - interval '1 second'
    and c.created_at < call_time + interval '1 second'
    and c.workspace_id = workspace
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;

-- Returns { run, content, refused }: a run, its neighbours in the list with this filter and order, and whether its content
-- is stored. If no run has the id, refused is the refused call that has it.
create or replace function ai.read_run_page(
  member_id uuid, workspace uuid, run_id uuid, filter jsonb default '{}', sort text default 'time',
  scan_limit integer default 10000
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'run', ai.read_run(member_id, workspace, run_id, filter, sort, scan_limit),
    'content', ai.describe_run_content(member_id, workspace, run_id),
    'refused', ai.read_refused_call(member_id, workspace, run_id)
  )
$$;

create or replace trigger start_member_budget after insert or update of role_id on public.workspace_members
  for each row execute function private.start_member_budget();

grant execute on function ai.change_key(uuid, uuid, uuid, jsonb, text) to service_role;

grant execute on function ai.list_keys(uuid, uuid, jsonb, integer, boolean) to service_role;

grant execute on function ai.list_refused_calls(uuid, uuid, jsonb, jsonb, integer, integer) to service_role;

grant execute on function ai.list_run_rows(uuid, uuid, jsonb, jsonb, integer, integer, text) to service_role;

grant execute on function ai.list_runs(uuid, uuid, jsonb, jsonb, integer, integer, text) to service_role;

grant execute on function ai.read_keys_page(uuid, uuid, jsonb, integer, boolean) to service_role;

grant execute on function ai.read_refused_call(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_run(uuid, uuid, uuid, jsonb, text, integer) to service_role;

grant execute on function ai.read_run_page(uuid, uuid, uuid, jsonb, text, integer) to service_role;

grant execute on function ai.read_runs_page(uuid, uuid, jsonb, jsonb, integer, integer, text) to service_role;

grant execute on function ai.record_refused_calls(jsonb) to gateway;

grant execute on function ai.time_of_id(uuid) to service_role;

grant execute on function private.name_new_account(uuid, text) to service_role;

grant execute on function private.sign_in_with_recovery_code(jsonb) to service_role;

grant execute on function private.vault_entry_view(private.account_vault_entries) to service_role;

grant execute on function public.list_workspace_roles(uuid) to authenticated;

grant execute on function public.uses_cost_book(uuid) to authenticated;

notify pgrst, 'reload schema';
