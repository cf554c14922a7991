-- Generated from supabase/schemas by npm run generate.
set lock_timeout = '500ms';

drop function ai.book_settlements(ai.settlement[], ai.run_outcome[], timestamp with time zone, timestamp with time zone, boolean);

drop function ai.budget_limit(ai.budgets, date);

drop function ai.budget_room(ai.claim, ai.budgets, date);

drop function ai.budget_subject(text, uuid, uuid, uuid, uuid, text);

drop function ai.change_budget(uuid, uuid, text, uuid, text, text, text);

drop function ai.fits_budget(ai.claim, ai.budgets, date);

drop function ai.price_refusal(ai.run_request, ai.caller, ai.models, jsonb, numeric, bigint, bigint, bigint);

drop function ai.rate_limit_headers(timestamp with time zone, bigint[]);

drop function ai.read_budgets(uuid, uuid, text[], integer, text[]);

drop function ai.read_workspace_home(uuid, uuid, timestamp with time zone, timestamp with time zone, timestamp with time zone, timestamp with time zone, integer, integer, integer, text[]);

drop function ai.reset_budget_alert(text, uuid, uuid);

drop function ai.set_budget(text, uuid, uuid, numeric, text);

drop function ai.spent_since(ai.budgets, date);

drop function ai.sweep_budget_alerts(integer);

drop function ai.token_limit_refusal(ai.caller, bigint, bigint);

drop function private.connect_agent(bytea, uuid, text, text, jsonb);

-- Returns a text that differs after each change of a provider's limits, so that a change made from an older state can be
-- refused.
create or replace function private.provider_limit_version(limits ai.provider_limits) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(concat_ws(' ', coalesce((limits).requests_per_minute, 0), coalesce((limits).tokens_per_minute, 0)))
$$;

-- Sets or removes a provider's limits. The change is { actor, provider, seen (the version that the admin saw),
-- requestsPerMinute, tokensPerMinute, reason, requestId, ip }; null removes a limit. What was taken of a limit stays
-- taken. Returns {} or { refused: forbidden | not_found | conflict (with last) }.
create or replace function private.save_provider_limit(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  provider text := change ->> 'provider';
  requests integer := (change ->> 'requestsPerMinute')::integer;
  tokens bigint := (change ->> 'tokensPerMinute')::bigint;
  before ai.provider_limits;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  -- One change at a time, because the row may not exist yet.
  perform pg_advisory_xact_lock(hashtextextended('provider limit ' || provider, 0));
  if jsonb_array_length(private.list_provider_limits(provider)) = 0 then
    return jsonb_build_object('refused', 'not_found');
  end if;
  select * into before from ai.provider_limits l where l.provider_id = provider;
  if private.provider_limit_version(before) is distinct from change ->> 'seen' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('provider ' || provider));
  end if;
  if num_nonnulls(requests, tokens) = 0 then
    delete from ai.provider_limits l where l.provider_id = provider;
  else
    insert into ai.provider_limits as l (provider_id, requests_per_minute, tokens_per_minute)
    values (provider, requests, tokens)
    on conflict (provider_id) do update
    set requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute;
  end if;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'provider.limit',
    'target', 'provider ' || provider,
    'before', jsonb_build_object(
      'requests_per_minute', before.requests_per_minute, 'tokens_per_minute', before.tokens_per_minute
    ),
    'after', jsonb_build_object('requests_per_minute', requests, 'tokens_per_minute', tokens)
  ));
  return '{}';
end
$$;

-- Returns the envelope that holds a call with the given label: one that a person opened for all of the principal's calls,
-- otherwise the one of the label. An envelope without a label holds only the calls that name an envelope.
create or replace function ai.find_envelope(workspace uuid, principal uuid, label text, names_envelope boolean)
  returns setof ai.envelopes
  language sql stable security invoker
as $$
  -- Each lookup has the whole unique key, so that a principal's other envelopes and wrong statistics cost nothing.
  select e.*
  from (values (''), (nullif(find_envelope.label, ''))) as l (label)
  cross join lateral (
    select c.*
    from ai.envelopes c
    where c.principal_id = principal and c.workspace_id = workspace and c.label = l.label and c.superseded_at is null
    offset 0
  ) as e
  where e.label <> '' or e.holds_all or names_envelope and coalesce(find_envelope.label, '') = ''
  order by e.holds_all desc
  limit 1
$$;

-- Returns the number of a principal's open envelopes, at most 1,000. Reads only the newest 2,000, so that many expired ones
-- don't make it slow.
create or replace function ai.open_envelope_count(workspace uuid, principal uuid) returns bigint
  language sql stable security invoker
as $$
  select least(count(*), 1000)
  from (
    select e.id
    from ai.envelopes e
    where e.principal_id = principal and e.workspace_id = workspace and e.superseded_at is null and e.ended_at is null
    order by e.opened_at desc
    limit 2000
  ) as e
  -- Finds each budget by the envelope's id, even if the statistics are wrong: a condition on the workspace could lead to
  -- reading all its budgets.
  cross join lateral (
    select b.ends_at from ai.budgets b where b.scope = 'envelope' and b.subject_id = e.id offset 0
  ) as b
  where b.ends_at > now()
$$;

-- Opens an envelope for a person, for the calls of a key's lineage or for their own. Without a label, it holds all calls
-- of the principal. Takes the place of an envelope that has ended. Returns { outcome: opened | exists | too_many, id }.
-- Callers have checked what the person may do.
create or replace function ai.open_envelope(
  workspace uuid, principal uuid, label text, envelope jsonb, opened_by uuid, key_lineage uuid default null,
  owner uuid default null, ends_at timestamptz default null
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
#variable_conflict use_column
declare
  existing ai.envelopes;
  opened ai.envelopes;
  new_label text := coalesce(open_envelope.label, '');
begin
  -- Serializes people who open one for the same principal. A call that opens the same one waits at the unique key.
  perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'ai.open_envelope', workspace, principal), 0));
  select * into existing
  from ai.envelopes e
  where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null
  for update;
  if found then
    perform from ai.budgets b
    where b.scope = 'envelope' and b.subject_id = existing.id and b.workspace_id = workspace and b.ends_at > now();
    if found then
      return jsonb_build_object('outcome', 'exists', 'id', existing.id);
    end if;
    update ai.envelopes e set superseded_at = now() where e.id = existing.id;
  end if;
  if ai.open_envelope_count(workspace, principal) >= 1000 then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  insert into ai.envelopes (
    workspace_id, principal_id, label, holds_all, key_lineage_id, actor_id, opened_usd, opened_calls, ttl_seconds, opened_by
  )
  values (
    workspace, principal, new_label, new_label = '', key_lineage, coalesce(owner, open_envelope.opened_by),
    (envelope ->> 'usd')::numeric, (envelope ->> 'calls')::bigint, (envelope ->> 'ttl_seconds')::integer,
    open_envelope.opened_by
  )
  on conflict do nothing
  returning * into opened;
  if not found then
    -- A call has opened it since it was read.
    select * into existing
    from ai.envelopes e
    where e.principal_id = principal and e.workspace_id = workspace and e.label = new_label and e.superseded_at is null;
    return jsonb_build_object('outcome', 'exists', 'id', existing.id);
  end if;
  insert into ai.budgets (scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at, thresholds)
  values (
    'envelope', opened.id, workspace, 'total', opened.opened_usd, opened.opened_calls, '-infinity',
    coalesce(
      open_envelope.ends_at,
      opened.opened_at + coalesce(opened.ttl_seconds * interval '1 second', interval '30 days')
    ),
    '{100}'
  );
  return jsonb_build_object('outcome', 'opened', 'id', opened.id);
end
$$;

-- Returns open, ended by a person, or expired.
create or replace function ai.envelope_state(envelope ai.envelopes, budget ai.budgets) returns text
  language sql stable security invoker
as $$
  select case
    when (envelope).ended_at is not null then 'ended'
    when (budget).ends_at <= now() then 'expired'
    else 'open'
  end
$$;

-- Returns what an envelope allows and what is left of it. Amounts only if the reader may see cost.
create or replace function ai.envelope_room(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'limit_usd', case when cost_visible then trim_scale((budget).limit_usd) end,
    'spent_usd', case when cost_visible then trim_scale((budget).spent_usd) end,
    'reserved_usd', case when cost_visible then trim_scale((budget).reserved_usd) end,
    'remaining_usd', case
      when cost_visible then trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))
    end,
    'max_calls', (budget).max_calls,
    'calls', (budget).calls,
    'remaining_calls', case when (budget).max_calls is not null then greatest((budget).max_calls - (budget).calls, 0) end,
    'ends_at', ai.utc_text((budget).ends_at)
  ))
$$;

-- Returns an envelope: { id, label, state } and what is left of it.
create or replace function ai.envelope_summary(envelope ai.envelopes, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('id', (envelope).id, 'label', (envelope).label, 'state', ai.envelope_state(envelope, b))
    || ai.envelope_room(b, cost_visible)
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = (envelope).id and b.workspace_id = (envelope).workspace_id
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
  opens_envelopes boolean := false;
  stores_keys boolean := false;
  answers text[] := '{}';
  -- Many refusals in one batch are a storm. Suggestions for all of them would hold the locks of admitted calls for long.
  max_suggestions constant integer := 4;
  suggestions integer := 0;
begin
  foreach claim in array claims loop
    opens_accounts := opens_accounts
      or claim.refusal is null and claim.account_id is null and ai.payer_id(claim.caller) is not null;
    opens_envelopes := opens_envelopes
      or claim.refusal is null and claim.envelope_id is null and (claim.request).envelope is not null
        and (claim.request).is_free is not true;
    stores_keys := stores_keys or (claim.request).idempotency_key is not null;
  end loop;
  if opens_envelopes then
    perform ai.open_named_envelopes(claims);
  end if;
  if opens_accounts then
    -- In the order of their owners' ids, so that two batches can't deadlock.
    perform ai.open_credit_account(o.payer, o.id, o.initial_credits)
    from (
      select distinct (c.caller).payer, ai.payer_id(c.caller) as id, (c.caller).initial_credits
      from unnest(claims) as c
      where c.refusal is null and c.account_id is null and ai.payer_id(c.caller) is not null
      order by 2
    ) as o;
  end if;
  if opens_accounts or opens_envelopes then
    claims := ai.price_calls(calls);
  end if;
  if opens_envelopes then
    claims := ai.refuse_unopened_envelopes(claims);
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
      budget_scopes, envelope_id, reserved_tokens, tokens_reserved_at
    )
    select
      c.run_id, (c.caller).workspace_id, (c.caller).actor_id, (c.caller).app_id, (c.caller).key_id, (c.caller).lineage_id,
      (c.caller).source, case (c.caller).source when 'key' then 'background' else 'interactive' end,
      (c.request).feature, (c.request).request_id, c.label, (c.request).idempotency_key,
      coalesce((c.request).streamed, false), c.model_id, c.routes, (c.caller).markup, ai.payer_id(c.caller) is null,
      c.account_id, c.cost_usd, c.credits, c.budget_scopes, c.envelope_id, c.tokens, case when c.tokens is not null then c.minute end
    from unnest(claims) as c
    where c.refusal is null
  )
  select
    -- Formats the JSON as text, because Postgres's JSON functions first look up how to write each value's type.
    array_agg(coalesce(c.refusal::text, format(
      '{"run_id":"%s","created_at":%s,"workspace_id":"%s","model":%s,"context_window":%s,"voice":%s,"routes":%s,'
      '"credits_per_usd":"%s","exempt":%s,"reserved_usd":"%s","reserved_credits":"%s","reserved_tokens":%s,'
      '"output_limit":%s,"cost_visible":%s,"capture":%s,"limits":%s,"key_name":%s,"strict":%s,'
      '"envelope":%s}',
      c.run_id, to_json(now()), (c.caller).workspace_id, to_json(c.model_id), coalesce(c.context_window::text, 'null'),
      coalesce(to_json(c.voice), 'null'), c.routes, ai.credits_per_usd((c.caller).markup),
      (ai.payer_id(c.caller) is null)::text, c.cost_usd, c.credits, coalesce(c.tokens::text, 'null'),
      coalesce(c.output_limit::text, 'null'), (ai.payer_id(c.caller) is null or (c.caller).cost_visible)::text,
      (c.caller).capture::text, c.limits, coalesce(to_json((c.caller).key_name), 'null'),
      coalesce((c.caller).is_strict, false)::text, coalesce(c.envelope::text, 'null')
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

-- Returns whether a call fits a budget as it counts now. A budget of 0 refuses free calls too. An ended envelope refuses
-- every call. Enforces a label's budget only if the key sets the label. A label that the caller sends never causes a
-- refusal by a budget.
create or replace function ai.fits_budget(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or ((budget).max_calls is null or (claim).requests = 0 or (budget).calls + (claim).requests <= (budget).max_calls)
      and (
        (budget).limit_usd is null
        or (budget).limit_usd > 0 and (budget).reserved_usd + (claim).cost_usd + (budget).spent_usd <= (budget).limit_usd
      )
      and ((budget).scope <> 'envelope' or now() < (budget).ends_at),
    false
  )
$$;

-- Returns whether a call would fit a budget in which no call reserves anything. In the last minute of a window, the
-- budget counts as unspent.
create or replace function ai.fits_when_settled(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or case
      when (budget).period = 'concurrent' then (budget).max_calls > 0
      when (budget).scope = 'envelope' and now() >= (budget).ends_at then false
      else ((budget).max_calls is null or (budget).calls < (budget).max_calls)
        and (budget).limit_usd > 0
        and (claim).cost_usd + case
          when (budget).scope <> 'envelope' and now() + interval '1 minute' >= (budget).ends_at then 0
          else (budget).spent_usd
        end <= (budget).limit_usd
    end,
    true
  )
$$;

-- Returns what a budget has left for a call: null if the budget can't refuse it for its cost, less than nothing if it
-- refuses every call.
create or replace function ai.budget_room(claim ai.claim, budget ai.budgets) returns numeric
  language sql stable security invoker
as $$
  select case
    when (budget).scope = 'label' and ((claim).caller).entity_id is null then null
    when (budget).limit_usd = 0 or (claim).requests > 0 and (budget).calls >= (budget).max_calls then -1
    when (budget).scope = 'envelope' and now() >= (budget).ends_at then -1
    else (budget).limit_usd - (budget).reserved_usd - (budget).spent_usd
  end
$$;

-- Returns the code of a refusal by a budget.
create or replace function ai.budget_refusal_code(budget ai.budgets) returns text
  language sql immutable security invoker
as $$
  select case
    when (budget).scope = 'envelope' then 'envelope_exhausted'
    when (budget).period = 'concurrent' then 'rate_limit_exceeded'
    else 'budget_exceeded'
  end
$$;

-- Returns a budget as a refusal states it. ai.explain_refusal completes it for the caller.
create or replace function ai.budget_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'kind', 'budget', 'scope', (budget).scope, 'window', (budget).period, 'time_zone', (budget).time_zone,
    'resets_at', ai.utc_text(nullif((budget).ends_at, 'infinity')),
    'limit_usd', trim_scale((budget).limit_usd),
    'spent_usd', trim_scale((budget).spent_usd),
    'reserved_usd', trim_scale((budget).reserved_usd),
    'remaining_usd', trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))
  ))
$$;

-- Returns a limit of concurrent calls as a refusal states it. It is unknown when a call ends, so a client tries again
-- after a second.
create or replace function ai.concurrency_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'concurrent', 'scope', (budget).scope, 'limit', (budget).max_calls, 'used', (budget).calls, 'reset_seconds', 1
  )
$$;

-- Returns the window of a period that contains the given time. Weeks begin on Monday. Periods without windows (total,
-- concurrent) last from -infinity to infinity.
create or replace function ai.budget_window(
  period text, time_zone text, at timestamptz, out starts_at timestamptz, out ends_at timestamptz
)
  language plpgsql stable security invoker
as $$
declare
  first_day date;
begin
  if period not in ('day', 'week', 'month') then
    starts_at := '-infinity';
    ends_at := 'infinity';
    return;
  end if;
  time_zone := ai.known_time_zone(time_zone);
  first_day := date_trunc(period, at at time zone time_zone)::date;
  starts_at := ai.start_of_day(first_day, time_zone);
  ends_at := ai.start_of_day((first_day + ('1 ' || period)::interval)::date, time_zone);
end
$$;

-- Returns a time zone, or UTC if Postgres doesn't know it. Systems differ in the names that they have, so an upgrade or a
-- restore elsewhere can lose one, and one budget's zone must not fail the calls of a batch.
create or replace function ai.known_time_zone(time_zone text) returns text
  language plpgsql stable security invoker
as $$
begin
  perform now() at time zone time_zone;
  return time_zone;
exception when invalid_parameter_value then
  return 'UTC';
end
$$;

-- Returns the first instant of a local day. If clocks skip midnight, the day begins when they are changed. If midnight
-- occurs twice, the day begins at the first one.
create or replace function ai.start_of_day(day date, time_zone text) returns timestamptz
  language sql stable security invoker
as $$
  select coalesce(
    (
      -- Midnight by the offsets that apply half a day before and after. Two of them are midnight if it occurs twice.
      select min(c.at)
      from (values (n.noon_before), (n.noon)) as o (reference)
      cross join lateral (
        select (day::timestamp - ((o.reference at time zone time_zone) - (o.reference at time zone 'UTC'))) at time zone 'UTC' as at
      ) as c
      where c.at at time zone time_zone = day::timestamp
    ),
    -- A skipped midnight is read with the offset before the change.
    day::timestamp at time zone time_zone
  )
  from (
    select
      (day::timestamp - interval '12 hours') at time zone time_zone as noon_before,
      (day::timestamp + interval '12 hours') at time zone time_zone as noon
  ) as n
$$;

-- Returns a budget as it counts at the given time: in a window that begins after the budget's, nothing is spent. An
-- envelope ends at ends_at and has no other window. Until 0.5.0: a budget without starts_at has not changed since 0.3.0,
-- and its window is the UTC month of period_start.
create or replace function ai.current_budget(budget ai.budgets, at timestamptz) returns ai.budgets
  language plpgsql stable security invoker
as $$
begin
  if budget.starts_at is null then
    budget.starts_at := budget.period_start::timestamp at time zone 'UTC';
    budget.ends_at := (budget.period_start + interval '1 month') at time zone 'UTC';
  end if;
  if at >= budget.ends_at and budget.scope <> 'envelope' then
    select w.starts_at, w.ends_at into budget.starts_at, budget.ends_at
    from ai.budget_window(budget.period, budget.time_zone, at) as w;
    budget.spent_usd := 0;
  end if;
  return budget;
end
$$;

-- Returns the entry of a budget in a run's list of budgets.
create or replace function ai.budget_entry(scope text, period text) returns text
  language sql immutable security invoker parallel safe
as $$
  select case period when 'month' then scope else scope || '/' || period end
$$;

-- Returns the period of an entry in a run's list of budgets.
create or replace function ai.entry_period(entry text) returns text
  language sql immutable security invoker parallel safe
as $$
  select case when entry like '%/%' then split_part(entry, '/', 2) else 'month' end
$$;

-- Returns each of the calls with its place and its caller: the one that the call's credential belongs to. If the caller
-- may not make calls, refused has the reason. The caller is null if the credential is unknown, revoked or expired, if its
-- workspace is deleted, or if it belongs to a coding agent whose connection or login has ended. A key or token is given
-- as the SHA-256 of its text, and a session as claims that the gateway has verified. people is what ai.user_callers
-- returns for the calls. A key that is bound to an app has the gateway scopes of the app's registration. Imports need no
-- ai:use, so a bound key is not refused for it here but in ai.call_refusal. budgets has every scope and period if
-- the workspace has any budget.
create or replace function ai.find_callers(calls jsonb, people ai.caller[])
  returns table (place bigint, request ai.run_request, caller ai.caller)
  language sql stable security invoker
as $$
  with requests as materialized (
    select e.place, r as request, k.key
    from jsonb_array_elements(calls) with ordinality as e (call, place)
    cross join lateral jsonb_populate_record(null::ai.run_request, e.call) as r
    left join lateral (
      select k
      from ai.keys k
      where (r.credential).source = 'key'
        and k.secret_hash = decode((r.credential).hash, 'hex')
        and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > now())
      offset 0
    ) as k (key) on true
  )
  select r.place, r.request, c.caller
  from requests r
  left join lateral (
    select row(
      i.source,
      coalesce(i.refused, case
        when (r.request).workspace is null then case i.source when 'app_token' then 'workspace_header_required' end
        when (r.request).workspace <> i.workspace_id::text then 'workspace_mismatch'
      end),
      (i.key).id, (i.key).lineage_id, i.workspace_id, i.actor_id, i.app_id, i.scopes,
      (i.key).allowed_models, (i.key).requests_per_minute, (i.key).tokens_per_minute, (i.key).last_used_at,
      (p.plan).id, (p.plan).payer, (p.plan).markup, (p.plan).initial_credits,
      least((p.plan).requests_per_minute, (w.policy).requests_per_minute),
      least((p.plan).tokens_per_minute, (w.policy).tokens_per_minute),
      (w.policy).allowed_models, (w.policy).denied_models, coalesce((w.policy).provider_cost_visible, true),
      coalesce((w.policy).content_capture, false),
      case (p.plan).payer when 'member' then
        exists (select from public.workspace_members m where m.user_id = i.actor_id and m.workspace_id = i.workspace_id)
      end,
      -- Most workspaces have no budget.
      case when (select true from ai.budgets b where b.workspace_id = i.workspace_id limit 1)
        then '{key/*,app/*,member/*,label/*,workspace/*}'::text[]
      end,
      (i.key).entity_id, (i.key).name, (i.key).is_strict, (w.policy).allowed_regions,
      (w.policy).model_limits
    )::ai.caller as caller
    from (
      select
        'key' as source,
        coalesce(
          case a.status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end,
          -- Without an address, a key with an address list is refused.
          case when not coalesce(
            (r.request).address <<= any ((r.key).allowed_addresses), (r.key).allowed_addresses is null
          ) then 'insufficient_scope' end,
          b.refused
        ) as refused,
        (r.key).workspace_id, (r.key).created_by as actor_id, (r.key).external_app_id as app_id, b.scopes, r.key
      from (select) as one
      left join lateral (
        select f.refused, private.gateway_scopes(a) as scopes
        from private.apps a
        cross join lateral private.gateway_refusal(
          a, (r.key).workspace_id, private.gateway_scopes(a) || array['ai:use']
        ) f
        where a.id = (r.key).external_app_id
        offset 0
      ) as b on true
      cross join lateral (
        select case when (r.key).connection_id is not null then
          -- Runs once for all the calls, and only if a key among them belongs to an agent.
          (select ai.agent_key_statuses(array_agg(distinct (k.key).connection_id)) from requests k)
            ->> (r.key).connection_id::text
        end as status
        offset 0
      ) as a
      where (r.key).id is not null and a.status is distinct from 'over'
      union all
      select
        ((r.request).credential).source, u.refused, u.workspace_id, u.actor_id, u.app_id, u.scopes, null::ai.keys
      from (select (people[r.place]).* offset 0) as u
      where ((r.request).credential).source in ('app_token', 'session') and u.actor_id is not null
    ) as i
    -- The offsets keep lookups by key, even if the statistics are wrong.
    left join lateral (
      select s.id, s.plan_id from public.workspaces s where s.id = i.workspace_id and s.deleted_at is null offset 0
    ) as s on true
    left join lateral (select p as plan from ai.plans p where p.id = s.plan_id offset 0) as p on true
    left join lateral (
      select w as policy from ai.workspace_policies w where w.workspace_id = i.workspace_id offset 0
    ) as w on true
    where s.id is not null or i.source = 'session'
  ) as c on true
$$;

-- Returns the id of a budget's subject for a run. The scope states whether the subject is the key lineage, the app, the
-- member, the label, the envelope or the workspace.
create or replace function ai.budget_subject(
  scope text, workspace uuid, lineage uuid, app uuid, actor uuid, label text, envelope uuid
) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case scope
    when 'key' then lineage
    when 'app' then app
    when 'member' then actor
    when 'label' then ai.label_id(label)
    when 'envelope' then envelope
    else workspace
  end
$$;

-- Returns a credential's kind, limits, budgets, cost in this month and remaining amounts, or {refused: code}.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
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
    'modelLimits', (
      select coalesce(jsonb_agg(
        ai.remaining_rate(
          'model', ai.model_window_id(caller.workspace_id, m.key), (m.value ->> 'requests')::integer,
          (m.value ->> 'tokens')::bigint
        ) - 'scope' || jsonb_build_object('model', m.key)
        order by m.key
      ), '[]')
      from jsonb_each(caller.model_limits) as m
    ),
    'concurrentCalls', ai.remaining_concurrent_calls(caller),
    'budgets', ai.remaining_budgets(caller, cost_visible),
    'envelope', (
      select ai.envelope_summary(e, cost_visible)
      from ai.find_envelope(caller.workspace_id, ai.envelope_principal(caller), caller.entity_id, true) e
    ),
    'spent', ai.cost_this_month(caller, cost_visible),
    -- Null for apps, which pay no credits, and for keys if members pay, because the key's holder may be someone else
    -- than the member who pays.
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

-- Returns the budgets of all periods that count a caller's calls, as they are now.
create or replace function ai.caller_budgets(caller ai.caller) returns setof ai.budgets
  language sql stable security invoker set search_path = ''
as $$
  select c.*
  from unnest((caller).budgets) as s (entry)
  cross join lateral (select split_part(s.entry, '/', 1) as scope) as e
  join ai.budgets b
    on b.scope = e.scope
    and b.workspace_id = (caller).workspace_id
    and b.subject_id = ai.budget_subject(
      e.scope, (caller).workspace_id, (caller).lineage_id, (caller).app_id, (caller).actor_id, (caller).entity_id, null
    )
  cross join lateral ai.current_budget(b, now()) as c
$$;

-- Returns the principal whose envelopes hold a caller's calls: the lineage of its key, the person, or for a person's calls
-- through an app an id made of both, so that one app's envelopes don't hold the calls of others.
create or replace function ai.envelope_principal(caller ai.caller) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select case
    when (caller).lineage_id is not null then (caller).lineage_id
    when (caller).app_id is not null then ai.label_id((caller).app_id::text || '/' || (caller).actor_id::text)
    else (caller).actor_id
  end
$$;

-- Opens the envelopes that calls name and that don't exist yet. A call whose principal has 1,000 open envelopes opens
-- none. In the order of the unique key, so that two batches can't deadlock.
create or replace function ai.open_named_envelopes(claims ai.claim[]) returns void
  language sql volatile security invoker
as $$
  with named as (
    select distinct on (n.principal_id, n.workspace_id, n.label) n.*
    from (
      select
        ai.envelope_principal(c.caller) as principal_id, (c.caller).workspace_id, coalesce(c.label, '') as label,
        (c.caller).lineage_id, (c.caller).actor_id, ((c.request).envelope ->> 'usd')::numeric as usd,
        ((c.request).envelope ->> 'calls')::bigint as max_calls,
        ((c.request).envelope ->> 'ttl_seconds')::integer as ttl_seconds,
        c.ordinality
      from unnest(claims) with ordinality as c
      where c.refusal is null and c.envelope_id is null and (c.request).envelope is not null
    ) as n
    order by n.principal_id, n.workspace_id, n.label, n.ordinality
  ),
  principals as materialized (
    select p.principal_id, p.workspace_id, ai.open_envelope_count(p.workspace_id, p.principal_id) as open
    from (select distinct n.principal_id, n.workspace_id from named n) as p
  ),
  opened as (
    insert into ai.envelopes (
      workspace_id, principal_id, label, key_lineage_id, actor_id, opened_usd, opened_calls, ttl_seconds
    )
    select n.workspace_id, n.principal_id, n.label, n.lineage_id, n.actor_id, n.usd, n.max_calls, n.ttl_seconds
    from named n
    join principals p on p.principal_id = n.principal_id and p.workspace_id = n.workspace_id and p.open < 1000
    order by n.principal_id, n.workspace_id, n.label
    on conflict (principal_id, workspace_id, label) where superseded_at is null do nothing
    returning *
  )
  insert into ai.budgets (
    scope, subject_id, workspace_id, period, limit_usd, max_calls, starts_at, ends_at, thresholds
  )
  select
    -- Without a start, so that a run counts whose transaction began before the one that opened the envelope.
    'envelope', o.id, o.workspace_id, 'total', o.opened_usd, o.opened_calls, '-infinity',
    o.opened_at + coalesce(o.ttl_seconds * interval '1 second', interval '30 days'), '{100}'
  from opened o
$$;

-- Refuses the calls that name an envelope which could not be opened.
create or replace function ai.refuse_unopened_envelopes(claims ai.claim[]) returns ai.claim[]
  language plpgsql stable security invoker
as $$
begin
  for place in 1..cardinality(claims) loop
    if claims[place].refusal is null and claims[place].envelope_id is null
      and (claims[place].request).envelope is not null and (claims[place].request).is_free is not true then
      claims[place].refusal := ai.refusal(
        'invalid_request', '{"param": "X-Platform-Envelope", "envelope": {"open": 1000}}'
      );
    end if;
  end loop;
  return claims;
end
$$;

-- Returns the refusal of a call that names other amounts than its envelope was opened with, or for which no envelope
-- could be opened; otherwise null.
create or replace function ai.named_envelope_refusal(request ai.run_request, envelope ai.envelopes) returns jsonb
  language sql stable security invoker
as $$
  -- Without a condition of its own, so that Postgres inlines it into the query that prices a batch.
  select case
    when (request).envelope is not null and (
      ((request).envelope ->> 'usd')::numeric is distinct from (envelope).opened_usd
      or ((request).envelope ->> 'calls')::bigint is distinct from (envelope).opened_calls
      or ((request).envelope ->> 'ttl_seconds')::integer is distinct from (envelope).ttl_seconds
    ) then ai.refusal('invalid_request', jsonb_build_object('param', 'X-Platform-Envelope', 'envelope', jsonb_strip_nulls(
      jsonb_build_object(
        'id', (envelope).id, 'usd', trim_scale((envelope).opened_usd), 'calls', (envelope).opened_calls,
        'ttl_seconds', (envelope).ttl_seconds
      )
    )))
  end
$$;

-- Returns an envelope as a refusal states it. ai.explain_refusal completes it for the caller.
create or replace function ai.envelope_limit(budget ai.budgets) returns jsonb
  language sql stable security invoker
as $$
  select jsonb_build_object(
    'kind', 'envelope',
    'workspace_id', (budget).workspace_id,
    'state', (select ai.envelope_state(e, budget) from ai.envelopes e where e.id = (budget).subject_id)
  ) || ai.envelope_room(budget, true)
$$;

-- Returns the envelopes with the given ids, for calls that wait for them or run in them. Unknown ids are left out.
-- Definer: gateway has no grant on any table. begin_runs returned the ids.
create or replace function ai.read_envelopes(ids jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(ai.envelope_summary(e, true)), '[]')
  from jsonb_array_elements_text(ids) as i (id)
  join ai.envelopes e on e.id = i.id::uuid
$$;

-- Returns the envelope with the id in the call's envelope_id, for a caller that is its principal, or {refused: code}.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.read_own_envelope(call jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.find_caller(call);
  refusal jsonb := ai.call_refusal(caller);
begin
  return coalesce(
    refusal,
    (
      select ai.envelope_summary(e, caller.app_id is not null or caller.cost_visible)
      from ai.envelopes e
      where e.id = (call ->> 'envelope_id')::uuid and e.workspace_id = caller.workspace_id
        and e.principal_id = ai.envelope_principal(caller)
    ),
    ai.refusal('envelope_not_found')
  );
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
  if not found or key_is_revoked then
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

-- Locks the rows that admissions, extensions and settlements change. All of them use this order: idempotency keys,
-- keys, rate windows, budgets, balances. Rows of one kind are sorted, so budgets of apps are locked before budgets of
-- envelopes, keys, labels, members and workspaces. Callers of this function first lock runs and open new accounts and
-- envelopes. Returns the budgets of all periods of the listed subjects, and the balances, locked. Rate windows can be
-- read by the next statement.
create or replace function ai.lock_rows(locks ai.lock_list, out budgets ai.budgets[], out accounts ai.credit_accounts[])
  language plpgsql volatile security invoker
as $$
begin
  if locks.idempotency_keys is not null then
    perform pg_advisory_xact_lock(k.key) from (select distinct u.key from unnest(locks.idempotency_keys) as u (key) order by 1) as k;
    -- Storing an idempotency key would later lock its workspace through the foreign key. Locks the workspace now,
    -- because an account deletion also locks workspaces before API keys.
    perform from public.workspaces s where s.id = any (locks.workspaces) order by s.id for key share;
  end if;
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.rate_windows is not null then
    -- Opens missing windows and restarts expired ones. The `on conflict` clause also locks windows that are still
    -- current.
    insert into ai.rate_windows as w (scope, subject_id, window_start, requests, tokens)
    select distinct s.scope, s.subject_id, date_trunc('minute', now()), 0, 0 from unnest(locks.rate_windows) as s order by 1, 2
    on conflict (subject_id, scope) do update
    set window_start = excluded.window_start, requests = 0, tokens = 0
    where w.window_start < excluded.window_start;
  end if;
  if locks.budgets is not null then
    budgets := array(
      select b from ai.budgets b
      where (b.scope, b.subject_id, b.workspace_id) in (
        select s.scope, s.subject_id, s.workspace_id from unnest(locks.budgets) as s
      )
      order by b.scope, b.subject_id, b.workspace_id, b.period
      for no key update
    );
  end if;
  if locks.accounts is not null then
    accounts := array(
      select a from ai.credit_accounts a where a.id = any (locks.accounts) order by a.id for no key update
    );
  end if;
end
$$;

-- Returns the rows that the calls must lock. A refused call locks no rows.
create or replace function ai.collect_locks(claims ai.claim[]) returns ai.lock_list
  language plpgsql stable security invoker
as $$
declare
  claim ai.claim;
  entry text;
  locks ai.lock_list;
begin
  foreach claim in array claims loop
    continue when claim.refusal is not null;
    if (claim.request).idempotency_key is not null then
      locks.idempotency_keys := locks.idempotency_keys || hashtextextended(
        concat_ws(' ', (claim.caller).workspace_id, ai.principal_id(claim.caller), (claim.request).idempotency_key), 0
      );
      locks.workspaces := locks.workspaces || (claim.caller).workspace_id;
    end if;
    if ai.is_key_use_due(claim.caller) then
      locks.keys := locks.keys || (claim.caller).key_id;
    end if;
    if num_nonnulls((claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('key', (claim.caller).lineage_id, null)::ai.limit_subject;
    end if;
    if num_nonnulls(claim.model_requests_per_minute, claim.model_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows
        || row('model', ai.model_window_id((claim.caller).workspace_id, claim.model_id), null)::ai.limit_subject;
    end if;
    if num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('workspace', (claim.caller).workspace_id, null)::ai.limit_subject;
    end if;
    if claim.budget_scopes is not null then
      foreach entry in array claim.budget_scopes loop
        locks.budgets := locks.budgets || ai.claimed_budget(claim, split_part(entry, '/', 1));
      end loop;
    end if;
    if claim.account_id is not null then
      locks.accounts := locks.accounts || claim.account_id;
    end if;
  end loop;
  return locks;
end
$$;

-- Returns the subject of a call's budgets of the given scope. A label that a session sets has no budget.
create or replace function ai.claimed_budget(claim ai.claim, scope text) returns ai.limit_subject
  language sql immutable security invoker
as $$
  select row(
    scope,
    ai.budget_subject(
      scope, ((claim).caller).workspace_id, ((claim).caller).lineage_id, ((claim).caller).app_id,
      ((claim).caller).actor_id, coalesce(((claim).caller).entity_id, ((claim).request).entity_id), (claim).envelope_id
    ),
    ((claim).caller).workspace_id
  )::ai.limit_subject
$$;

-- Reserves provider calls in the rate windows, budgets and balances that they share, in the order of the calls. A call
-- that a limit refuses reserves nothing, but counts as a request in the rate windows before that limit. Returns the calls
-- with their limits and the start of their windows, or with the refusal, whose limit and room ai.explain_refusal turns
-- into what the caller may read. Not granted to any role, because it trusts its caller.
create or replace function ai.reserve(claims ai.claim[]) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  locks ai.lock_list := ai.collect_locks(claims);
  locked record := ai.lock_rows(locks);
  -- The locked rows, which the loop changes and the end writes.
  windows ai.rate_windows[];
  budgets ai.budgets[] := locked.budgets;
  accounts ai.credit_accounts[] := locked.accounts;
  window_ids uuid[];
  budget_subjects uuid[] := '{}';
  budget_entries text[];
  budget ai.budgets;
  limited ai.limit_subject;
  account_ids uuid[];
  claim ai.claim;
  -- The places of a call's rows, which are null for limits that it does not have.
  of_key integer;
  of_model integer;
  of_workspace integer;
  of_budgets integer[];
  entries text[];
  of_account integer;
  of_budget integer;
  of_envelope integer;
  full_budget integer;
  entry text;
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
    budget := budgets[place];
    if budget.ends_at <= now() or budget.starts_at is null then
      budget := ai.current_budget(budget, now());
      budgets[place] := budget;
    end if;
    budget_subjects[place] := budget.subject_id;
    budget_entries[place] := ai.budget_entry(budget.scope, budget.period);
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
    of_model := case
      when num_nonnulls(claim.model_requests_per_minute, claim.model_tokens_per_minute) > 0 then coalesce(
        array_position(window_ids, ai.model_window_id((claim.caller).workspace_id, claim.model_id)), 0
      )
    end;
    of_workspace := case
      when num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0
        then coalesce(array_position(window_ids, (claim.caller).workspace_id), 0)
    end;
    of_account := case
      when claim.account_id is not null and (claim.request).is_free is not true then coalesce(array_position(account_ids, claim.account_id), 0)
    end;
    of_budgets := '{}';
    entries := '{}';
    of_envelope := null;
    full_budget := null;
    if budgets is not null and claim.budget_scopes is not null then
      foreach entry in array claim.budget_scopes loop
        limited := ai.claimed_budget(claim, split_part(entry, '/', 1));
        foreach of_budget in array array_positions(budget_subjects, limited.subject_id) loop
          -- A call that begins is held by the budgets of all periods, a step by those that held its run's first call.
          continue when entry not like '%/*' and entry <> budget_entries[of_budget];
          budget := budgets[of_budget];
          continue when budget.scope <> limited.scope or budget.workspace_id <> limited.workspace_id;
          of_budgets := of_budgets || of_budget;
          entries := entries || budget_entries[of_budget];
          if budget.scope = 'envelope' then
            of_envelope := of_budget;
          end if;
          if full_budget is null and not ai.fits_budget(claim, budget) then
            full_budget := of_budget;
          end if;
        end loop;
      end loop;
    end if;
    claim.budget_scopes := entries;
    -- In the window of the run's last reservation, replaces the tokens that earlier steps reserved and did not use.
    tokens := claim.tokens - case
      when claim.minute = greatest(
        windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start
      )
        then claim.replaced_tokens
      else 0
    end;
    refused_by := case
      when of_key is not null and not ai.fits_window(
        windows[of_key], claim.requests, case when earlier.key is null then tokens else 0 end,
        (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
      ) then 'key_window'
      when earlier.key is not null then 'idempotency'
      when budgets[full_budget].scope <> 'workspace' then 'budget'
      when of_model is not null and not ai.fits_window(
        windows[of_model], claim.requests, tokens, claim.model_requests_per_minute, claim.model_tokens_per_minute
      ) then 'model_window'
      when of_workspace is not null and not ai.fits_window(
        windows[of_workspace], claim.requests, tokens,
        (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
      ) then 'workspace_window'
      when full_budget is not null then 'workspace_budget'
      when not coalesce(accounts[of_account].balance - accounts[of_account].reserved >= claim.credits, of_account is null)
        then 'balance'
    end;

    has_counted := has_counted or refused_by is distinct from 'key_window';
    if of_key is not null and refused_by is distinct from 'key_window' then
      windows[of_key].requests := windows[of_key].requests + claim.requests;
    end if;
    if of_model is not null and coalesce(refused_by in ('workspace_window', 'workspace_budget', 'balance'), true) then
      windows[of_model].requests := windows[of_model].requests + claim.requests;
    end if;
    if of_workspace is not null and coalesce(refused_by in ('workspace_budget', 'balance'), true) then
      windows[of_workspace].requests := windows[of_workspace].requests + claim.requests;
    end if;
    if refused_by is null then
      has_reserved := true;
      if of_key is not null then
        windows[of_key].tokens := windows[of_key].tokens + coalesce(tokens, 0);
      end if;
      if of_model is not null then
        windows[of_model].tokens := windows[of_model].tokens + coalesce(tokens, 0);
      end if;
      if of_workspace is not null then
        windows[of_workspace].tokens := windows[of_workspace].tokens + coalesce(tokens, 0);
      end if;
      foreach of_budget in array of_budgets loop
        budget := budgets[of_budget];
        if budget.period <> 'concurrent' then
          budget.reserved_usd := budget.reserved_usd + claim.cost_usd;
        end if;
        if budget.period = 'concurrent' or of_budget = of_envelope then
          budget.calls := budget.calls + claim.requests;
        end if;
        budgets[of_budget] := budget;
      end loop;
      if of_envelope is not null then
        claim.envelope := claim.envelope || ai.envelope_room(
          budgets[of_envelope], ai.payer_id(claim.caller) is null or (claim.caller).cost_visible
        );
      end if;
      if of_account is not null then
        accounts[of_account].reserved := accounts[of_account].reserved + claim.credits;
      end if;
    elsif refused_by in ('budget', 'workspace_budget') then
      -- Stores the time of the window's first refusal, and of later refusals at most once a minute. An envelope whose
      -- running calls only reserve too much hasn't stopped its run.
      if (
          full_budget = of_envelope and not ai.fits_when_settled(claim, budgets[full_budget])
          or full_budget is distinct from of_envelope
            and budgets[full_budget].reserved_usd + claim.cost_usd + budgets[full_budget].spent_usd
              > budgets[full_budget].limit_usd
        )
        and coalesce(
          budgets[full_budget].refused_at < greatest(now() - interval '1 minute', budgets[full_budget].starts_at), true
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

    claim.minute := greatest(
      windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start
    );
    claim.limits := ai.rate_limit_headers(
      coalesce(windows[of_key].window_start, windows[of_model].window_start, windows[of_workspace].window_start), array[
        (claim.caller).key_requests_per_minute, windows[of_key].requests,
        (claim.caller).key_tokens_per_minute, windows[of_key].tokens,
        (claim.caller).workspace_requests_per_minute, windows[of_workspace].requests,
        (claim.caller).workspace_tokens_per_minute, windows[of_workspace].tokens
      ], case when of_model is not null then array[
        claim.model_requests_per_minute, windows[of_model].requests, claim.model_tokens_per_minute, windows[of_model].tokens
      ] end
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
        room_usd := least(room_usd, ai.budget_room(claim, budgets[of_budget]));
      end loop;
      claim.refusal := ai.refusal(
        case refused_by
          when 'balance' then 'insufficient_credits'
          when 'budget' then ai.budget_refusal_code(budgets[full_budget])
          when 'workspace_budget' then ai.budget_refusal_code(budgets[full_budget])
          else 'rate_limit_exceeded'
        end,
        case
          when coalesce(of_key, of_model, of_workspace) is not null then jsonb_build_object('limits', claim.limits::json, 'at', now())
          else '{}'
        end || case when frees then jsonb '{"frees": true}' else '{}' end || jsonb_build_object(
          'limit', case
            when refused_by = 'key_window' then ai.window_limit(
              'key', windows[of_key], claim.requests, tokens,
              (claim.caller).key_requests_per_minute, (claim.caller).key_tokens_per_minute
            )
            when refused_by = 'model_window' then ai.window_limit(
              'model', windows[of_model], claim.requests, tokens,
              claim.model_requests_per_minute, claim.model_tokens_per_minute
            )
            when refused_by = 'workspace_window' then ai.window_limit(
              'workspace', windows[of_workspace], claim.requests, tokens,
              (claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute
            )
            when refused_by = 'balance' then ai.balance_limit(accounts[of_account])
            when full_budget = of_envelope then claim.envelope || ai.envelope_limit(budgets[full_budget])
            when budgets[full_budget].period = 'concurrent' then ai.concurrency_limit(budgets[full_budget])
            else ai.budget_limit(budgets[full_budget])
          end,
          'room', jsonb_build_object(
            'usd', room_usd,
            'credits', accounts[of_account].balance - accounts[of_account].reserved,
            'tokens', claim.tokens - tokens + least(
              (claim.caller).key_tokens_per_minute - windows[of_key].tokens,
              claim.model_tokens_per_minute - windows[of_model].tokens,
              (claim.caller).workspace_tokens_per_minute - windows[of_workspace].tokens
            )
          ),
          'need', case
            when refused_by in ('key_window', 'model_window', 'workspace_window') then jsonb_strip_nulls(jsonb_build_object('tokens', tokens))
            when refused_by = 'balance' then jsonb_build_object('credits', claim.credits)
            when budgets[full_budget].period = 'concurrent' then '{}'
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
    set reserved_usd = n.reserved_usd, spent_usd = n.spent_usd, starts_at = n.starts_at, ends_at = n.ends_at,
      calls = n.calls, refused_at = n.refused_at
    from unnest(budgets) as n
    where b.scope = n.scope and b.subject_id = n.subject_id and b.workspace_id = n.workspace_id and b.period = n.period
      and (b.reserved_usd, b.calls, b.refused_at) is distinct from (n.reserved_usd, n.calls, n.refused_at);
  end if;
  if accounts is not null and (has_reserved or has_refused) then
    update ai.credit_accounts a set reserved = n.reserved, refused_at = n.refused_at
    from unnest(accounts) as n
    where a.id = any (account_ids) and a.id = n.id and a is distinct from n;
  end if;
  return claims;
end
$$;

-- Returns each call with its caller, its routes and its maximum cost, or with the reason why it is refused, in the order
-- of the calls. Locks nothing. If the caller stated no output limit, the model's own default replaces the assumed limit.
-- It is lowered to the model's limit (2,048 if both are unknown) and to the room left in the context window. A free call
-- reserves nothing.
create or replace function ai.price_calls(calls jsonb) returns ai.claim[]
  language plpgsql volatile security invoker
as $$
declare
  people ai.caller[] := ai.user_callers(calls);
begin
  return (
    -- Each subquery with `offset 0` computes its columns once, for all the expressions that read them.
    with named as materialized (
      select
        c.place, c.request, c.caller,
        coalesce(
          (c.request).model, (select m.id from ai.models m where m.kind = (c.request).kind and m.is_default)
        ) as model_id,
        case
          when (c.caller).allowed_regions is null then (c.request).providers
          else ai.providers_in_regions((c.request).providers, (c.request).regions, (c.caller).allowed_regions)
        end as providers
      from ai.find_callers(calls, people) c
    ),
    requests as materialized (
      select
        n.*, l.model_requests, l.model_tokens,
        least((n.caller).key_tokens_per_minute, l.model_tokens, (n.caller).workspace_tokens_per_minute) as token_limit,
        coalesce((n.caller).entity_id, (n.request).entity_id, (n.request).session_label) as label
      from named n
      -- Most workspaces have no limits by model.
      cross join lateral (
        select
          ((n.caller).model_limits -> n.model_id ->> 'requests')::integer as model_requests,
          ((n.caller).model_limits -> n.model_id ->> 'tokens')::bigint as model_tokens
        offset 0
      ) as l
    ),
    -- Most calls of a batch are for the same model.
    offers as materialized (
      select d.model_id, d.providers, d.regions, p.routes
      from (select distinct r.model_id, r.providers, (r.request).regions from requests r) as d
      cross join lateral ai.priced_routes(d.model_id, d.providers, d.regions) as p
    )
    select coalesce(array_agg(row(
      coalesce(
        ai.price_refusal(
          r.request, r.caller, m.model, o.routes, x.usd, u.audio_tokens, t.input_tokens, t.reserved_tokens, r.model_tokens
        ),
        case when (e.envelope).id is not null then ai.named_envelope_refusal(r.request, e.envelope) end
      ),
      r.request, r.caller, r.label,
      case
        when (r.request).run_id_suffix is null then ai.run_id(now())
        else ai.new_run_id((r.request).run_id_suffix)
      end,
      r.model_id, coalesce((r.request).voice, (m.model).voices[1]), (m.model).context_window,
      case (r.request).kind when 'chat' then u.output_limit end, o.routes,
      x.usd,
      case
        when (r.request).is_free then null
        when (e.envelope).id is not null then '{envelope/*}'::text[] || (r.caller).budgets
        else (r.caller).budgets
      end,
      a.id, case when ai.payer_id(r.caller) is null then 0 else ai.usd_to_credits(x.usd, (r.caller).markup) end,
      1, t.reserved_tokens, 0, null, null, r.model_requests, r.model_tokens, (e.envelope).id,
      case when (e.envelope).id is not null then
        jsonb_build_object('id', (e.envelope).id, 'label', (e.envelope).label)
      end, null, null, null
    )::ai.claim order by r.place), '{}')
    from requests r
    left join lateral (
      select m as model
      from ai.usable_models(
        (r.caller).workspace_id, (r.caller).plan_id, (r.caller).workspace_models, (r.caller).denied_models,
        (r.caller).key_models
      ) m
      where m.id = r.model_id and m.kind = (r.request).kind
      offset 0
    ) as m on true
    left join offers o on o.model_id = (m.model).id and o.providers = r.providers
      and o.regions is not distinct from (r.request).regions
    cross join lateral (
      select
        i.image_tokens, i.audio_tokens,
        -- No reading exceeds the context window.
        least(i.text_tokens, (m.model).context_window * (r.request).input_reads) as text_tokens,
        least(
          case when (r.request).output_limit_assumed then
            coalesce((m.model).default_output_limit, (r.request).output_limit)
          else (r.request).output_limit end,
          (m.model).output_limit,
          case when (r.request).output_limit_assumed then ai.assumed_output_limit(
            m.model, least((r.request).expected_tokens, i.text_tokens + i.image_tokens + i.audio_tokens)
          ) end
        ) as output_limit
      from ai.input_tokens((r.request).input_bytes, (r.request).images, (r.request).audio_seconds) as i
      offset 0
    ) as u
    cross join lateral (
      select case when (r.request).is_free then 0 else x.usd end::numeric(24, 12) as usd
      from ai.maximum_cost(
        o.routes, u.text_tokens, u.image_tokens, u.audio_tokens, u.output_limit * coalesce((r.request).choices, 1),
        (r.request).hour_writes, (r.request).service_tier, (r.request).fee_requests, (r.request).kind = 'speech'
      ) as x
      offset 0
    ) as x
    cross join lateral (
      select
        i.input_tokens,
        case when r.token_limit is not null then ai.reserved_tokens(
          i.input_tokens, u.output_limit, (r.request).choices, (r.request).output_limit_assumed, r.token_limit
        ) end as reserved_tokens
      from (
        -- Token limits count one reading, of average size: few calls use a server tool as often as they may.
        select u.text_tokens / coalesce((r.request).input_reads, 1) + u.image_tokens / coalesce((r.request).input_reads, 1)
          + u.audio_tokens as input_tokens
      ) as i
      offset 0
    ) as t
    left join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = ai.payer_id(r.caller) offset 0
    ) as a on true
    -- An envelope has a budget, so a workspace without budgets has no envelope.
    left join lateral (
      select e as envelope
      from ai.find_envelope(
        (r.caller).workspace_id, ai.envelope_principal(r.caller), r.label, (r.request).envelope is not null
      ) e
      where (r.caller).budgets is not null and (r.request).is_free is not true
      offset 0
    ) as e on true
  );
end
$$;

-- Returns a model's routes to the given providers in order, with their current prices and the providers' regions, in
-- the form in which runs store them. Returns null if there is none. A run uses no other routes.
create or replace function ai.priced_routes(model text, providers text[], regions jsonb) returns table (routes jsonb)
  language sql stable security invoker
as $$
  select jsonb_agg(
    jsonb_build_object('position', r.place, 'provider', r.provider_id, 'model', r.provider_model, 'prices', r.prices)
    || case when regions ? r.provider_id then jsonb_build_object('region', regions -> r.provider_id) else jsonb '{}' end
    || case when r.tier_multipliers <> '{}' then jsonb_build_object('tier_multipliers', r.tier_multipliers) else jsonb '{}' end
    || case when r.trusts_stated_cost then jsonb '{"trusts_stated_cost": true}' else jsonb '{}' end
    || case
      when exists (select from ai.provider_limits l where l.provider_id = r.provider_id) then jsonb '{"limited": true}'
      else jsonb '{}'
    end
    || case
      when num_nonnulls(r.first_byte_seconds, r.idle_seconds, r.total_seconds) = 0 then jsonb '{}'
      else jsonb_build_object('time_limits', jsonb_strip_nulls(jsonb_build_object(
        'first_byte', r.first_byte_seconds, 'idle', r.idle_seconds, 'total', r.total_seconds
      )))
    end
    order by r.place
  )
  from ai.open_routes(providers) r
  where r.model_id = model
$$;

-- Takes provider calls from the buckets of their providers, in the order of the calls. A call is {"provider",
-- "input_bytes", "images", "audio_seconds", "output_tokens", "context_window", "wait_ms"}. Its tokens are its maximum
-- input plus its output limit, as OpenAI counts them (https://platform.openai.com/docs/guides/rate-limits). Returns for
-- each call {"taken", "wait_ms"}: the call was taken and may be made after wait_ms, which is at most the wait_ms that it
-- accepts; or it was not taken and fits after wait_ms, which is null if the call alone exceeds the limit.
-- Definer: gateway has no grant on any table.
create or replace function ai.take_provider_calls(calls jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- After a crash of Postgres, calls of its last moments may be missing in the buckets.
  perform set_config('synchronous_commit', 'off', true);
  return ai.take_calls(calls);
end
$$;

-- Takes provider calls like ai.take_provider_calls, at a given time in tests.
create or replace function ai.take_calls(calls jsonb, fixed_time timestamptz default null) returns jsonb
  language plpgsql volatile security invoker
  set plan_cache_mode = force_generic_plan
as $$
declare
  provider text;
  limits ai.provider_limits;
  started_at timestamptz;
  call record;
  -- In microseconds from started_at: when each bucket is full, and when the call fits into both.
  requests_full bigint;
  tokens_full bigint;
  fits bigint;
  is_taken boolean;
  has_taken boolean;
  answers jsonb[];
begin
  for provider in select distinct c ->> 'provider' from jsonb_array_elements(calls) as c order by 1 loop
    select * into limits from ai.provider_limits l where l.provider_id = provider for no key update;
    -- The time is read after the wait for the lock, so that calls don't count as earlier than they are.
    started_at := coalesce(fixed_time, clock_timestamp());
    requests_full := ai.microseconds_until(limits.requests_full_at, started_at);
    tokens_full := ai.microseconds_until(limits.tokens_full_at, started_at);
    has_taken := false;
    for call in
      select
        c.ordinality::integer as place, coalesce((c.value ->> 'wait_ms')::bigint, 0) as wait_ms,
        least(i.text_tokens, (c.value ->> 'context_window')::bigint) + i.image_tokens + i.audio_tokens
          + (c.value ->> 'output_tokens')::bigint as tokens
      from jsonb_array_elements(calls) with ordinality as c
      cross join lateral ai.input_tokens(
        (c.value ->> 'input_bytes')::bigint, (c.value ->> 'images')::bigint,
        coalesce((c.value ->> 'audio_seconds')::bigint, 0)
      ) as i
      where c.value ->> 'provider' = provider
      order by c.ordinality
    loop
      fits := greatest(
        0,
        requests_full + ai.refill_time(1 - ai.bucket_size(limits.requests_per_minute), limits.requests_per_minute),
        tokens_full + ai.refill_time(call.tokens - ai.bucket_size(limits.tokens_per_minute), limits.tokens_per_minute)
      );
      if call.tokens > limits.tokens_per_minute then
        fits := null;
      end if;
      is_taken := coalesce(fits / 1000 <= call.wait_ms, false);
      if is_taken then
        has_taken := true;
        requests_full := greatest(requests_full, fits) + ai.refill_time(1, limits.requests_per_minute);
        tokens_full := greatest(tokens_full, fits) + ai.refill_time(call.tokens, limits.tokens_per_minute);
      end if;
      answers[call.place] := jsonb_build_object('taken', is_taken, 'wait_ms', fits / 1000);
    end loop;
    if has_taken then
      update ai.provider_limits l
      set
        requests_full_at = coalesce(started_at + requests_full * interval '1 microsecond', l.requests_full_at),
        tokens_full_at = coalesce(started_at + tokens_full * interval '1 microsecond', l.tokens_full_at)
      where l.provider_id = provider;
    end if;
  end loop;
  return coalesce(to_jsonb(answers), '[]');
end
$$;

-- Returns the size of a limit's bucket: a tenth of the limit, at least 1. Null without a limit.
create or replace function ai.bucket_size(per_minute bigint) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select greatest(per_minute / 10, 1)
$$;

-- Returns the microseconds in which a limit's bucket refills by an amount, rounded up.
--
-- A call of n tokens at time a fits if the bucket has been full for the time in which it would refill by n minus its
-- size, which is negative for a small call. So n tokens are also taken from an empty bucket that is full n later:
-- full[i] = max(full[i-1], a[i]) + time(n[i]), and full[k-1] <= a[k] + time(size - n[k]). From call i to call k, the
-- first gives time(n[i] + … + n[k-1]) <= full[k-1] - a[i], and the second then time(n[i] + … + n[k] - size) <=
-- a[k] - a[i]. With a refill of limit + 1 - size in 61 seconds, all calls in less than 61 seconds have less than
-- limit + 1 tokens. The additional second allows for waits that are
-- rounded down to milliseconds, and for calls that reach the provider later than others.
create or replace function ai.refill_time(amount bigint, per_minute bigint) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select ceil(amount * 61000000.0 / (per_minute + 1 - greatest(per_minute / 10, 1)))::bigint
$$;

-- Returns the microseconds from one time to another. If the clock was set back, at most two minutes.
create or replace function ai.microseconds_until(until timestamptz, since timestamptz) returns bigint
  language sql immutable strict security invoker parallel safe
as $$
  select least(extract(epoch from until - since), 120)::numeric * 1000000
$$;

-- Returns how much of a limit is left in its bucket now.
create or replace function ai.bucket_level(full_at timestamptz, per_minute bigint) returns bigint
  language sql stable strict security invoker
as $$
  select greatest(0, least(s.size, s.size - ceil(
    ai.microseconds_until(full_at, now())::numeric * (per_minute + 1 - s.size) / 61000000
  )))::bigint
  from (select ai.bucket_size(per_minute) as size) as s
$$;

-- Returns the subject of the rate window of a model in a workspace.
create or replace function ai.model_window_id(workspace uuid, model text) returns uuid
  language sql immutable security invoker parallel safe
as $$
  select ai.label_id(workspace::text || '/' || replace(model, '\', '\\'))
$$;

-- Returns the refusal of a call whose token count exceeds the per-minute limit of its key, its workspace or its model in
-- the workspace. The call would not fit in any later minute either.
create or replace function ai.token_limit_refusal(
  caller ai.caller, model_limit bigint, input_tokens bigint, tokens bigint
) returns jsonb
  language sql stable security invoker parallel safe
as $$
  select ai.refusal('invalid_request', jsonb_build_object('token_limit', jsonb_build_object(
    'scope', l.scope, 'limit', l.maximum, 'input', input_tokens, 'counted', tokens
  )))
  from (
    values ('key', (caller).key_tokens_per_minute, 1), ('model', model_limit, 2), ('workspace', (caller).workspace_tokens_per_minute, 3)
  ) as l (scope, maximum, place)
  order by l.maximum nulls last, l.place
  limit 1
$$;

-- Returns the limits of a call as JSON text: {"minute", "counts", "model"}. minute is the start of the rate window. counts
-- is a flat list of four pairs, each a limit and a count: the key's requests, the key's tokens, the workspace's requests
-- and the workspace's tokens. model has the two pairs of the call's model, if it has limits. A limit is null if there is
-- none.
create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[], model_counts bigint[]) returns text
  language sql stable security invoker parallel safe
as $$
  select format('{"minute":%s,"counts":%s', coalesce(to_json(minute), 'null'), array_to_json(counts))
    || coalesce(',"model":' || array_to_json(model_counts), '') || '}'
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
  elsif with_suggestions and request.kind = 'chat' and reached ->> 'unit' is distinct from 'requests'
    and reached ->> 'kind' <> 'concurrent' then
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
  if reached ->> 'kind' = 'envelope' then
    if not (is_exempt or caller.cost_visible) then
      reached := reached - array['limit_usd', 'spent_usd', 'reserved_usd', 'remaining_usd'];
      refusal := refusal - 'need';
    end if;
  elsif reached ->> 'kind' in ('budget', 'concurrent') then
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
  elsif reached ->> 'scope' = 'model' then
    reached := reached || jsonb_build_object('name', claim.model_id);
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

-- Settles a batch of runs and returns the runs that changed. If idle_since is given, only open runs without a heartbeat
-- since then change. A report that cannot be booked does not block the others: its run stays open, and it is logged.
-- Lock timeouts are raised, so that the caller sends the batch again.
create or replace function ai.settle_outcomes(outcomes jsonb, idle_since timestamptz default null) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
  -- Forces plans that find rows by key, regardless of the table statistics. A generic plan fits every call.
  set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off
as $$
declare
  parsed ai.run_outcome[];
  due ai.settlement[];
  outcomes_due ai.run_outcome[];
  batch record;
  locks ai.lock_list;
  locked record;
  changed jsonb := '[]';
  last_changed uuid;
begin
  -- Validating each report first would parse it twice.
  begin
    parsed := array(select jsonb_populate_record(null::ai.run_outcome, e.value) from jsonb_array_elements(outcomes) as e);
  exception when data_exception or integrity_constraint_violation then
    -- Of a report that can't be parsed, only the run that it names is read.
    parsed := array(
      select jsonb_populate_record(null::ai.run_outcome, case
        when jsonb_typeof(e.value) = 'object' and jsonb_populate_record_valid(null::ai.run_outcome, e.value) then e.value
        when pg_input_is_valid(e.value ->> 'created_at', 'timestamptz') and pg_input_is_valid(e.value ->> 'id', 'uuid')
          then jsonb_build_object('created_at', e.value -> 'created_at', 'id', e.value -> 'id')
      end)
      from jsonb_array_elements(outcomes) as e
    );
  end;

  select
    array_agg(s.due) filter (where s.is_valid) as due,
    array_agg(s.outcome) filter (where s.is_valid) as outcomes,
    array_agg(s.id) filter (where not s.is_valid) as invalid_ids,
    bool_or(s.budget_scopes <> '{}') as has_budgets,
    array_agg(row('workspace', s.workspace_id, null)::ai.limit_subject) filter (where s.window_start is not null)
      || array_agg(row('key', s.key_lineage_id, null)::ai.limit_subject)
        filter (where s.window_start is not null and s.key_lineage_id is not null)
      || array_agg(row('model', ai.model_window_id(s.workspace_id, s.model_id), null)::ai.limit_subject)
        filter (where s.window_start is not null and s.has_model_limit) as rate_windows,
    array_agg(s.account_id) filter (where s.account_id is not null) as accounts
  into batch
  from (
    select
      row(
        r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id, r.budget_scopes, r.request_id,
        r.model_id, r.has_key, k.kind, b.billed_credits - k.billed_credits, k.reserved_credits, b.cost_usd - k.cost_usd,
        k.reserved_usd,
        case
          -- The sweep closes the run without known usage, so its reservation is shown but not charged.
          when idle_since is not null and o.usage_source = 'unavailable' then ai.usd_to_credits(r.reserved_usd, r.markup)
          when r.exempt then b.credits
          else 0
        end,
        b.billed_credits, r.window_start, r.counted_tokens,
        jsonb_build_object('id', r.id, 'kind', k.kind, 'billed_credits', b.billed_credits::text), r.envelope_id, null,
        null, null
      )::ai.settlement as due,
      r.outcome,
      r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.budget_scopes, r.window_start, r.model_id,
      case when r.window_start is not null then exists (
        select from ai.workspace_policies p where p.workspace_id = r.workspace_id and p.model_limits ? r.model_id
      ) end as has_model_limit,
      (o.usage_source is not null and o.status <> 'running'
        and (o.usage_source = 'unavailable' or num_nulls(o.cost_usd, o.credits) = 0)
        and least(o.cost_usd, o.credits, 0) >= 0 and greatest(o.cost_usd, o.credits, 0) < 'Infinity'
        and least(
          o.input_tokens, o.cached_input_tokens, o.audio_input_tokens, o.output_tokens, o.reasoning_tokens,
          o.audio_output_tokens, o.cache_write_tokens, o.cache_write_1h_tokens, o.image_input_tokens, o.fee_requests, 0
        ) >= 0) is true as is_valid
    from (
      select
        r.created_at, r.id, r.account_id, r.workspace_id, r.key_lineage_id, r.app_id, r.actor_id, r.entity_id,
        r.budget_scopes, r.request_id, r.model_id, r.idempotency_key is not null as has_key, r.status = 'running' as is_open,
        r.swept, r.touched_at, r.exempt, r.markup, r.reserved_credits, r.reserved_usd, r.billed_credits, r.cost_usd,
        case when r.tokens_reserved_at >= date_trunc('minute', now()) then r.tokens_reserved_at end as window_start,
        case r.status when 'running' then r.reserved_tokens else r.input_tokens + r.output_tokens end as counted_tokens,
        r.envelope_id, n.outcome
      from (
        select p.place, parsed[p.place] as outcome from generate_subscripts(parsed, 1) as p (place) offset 0
      ) as n
      -- Without a range of created_at, with which Postgres would read all the runs between the oldest and the newest.
      join ai.runs r
        on r.created_at = (n.outcome).created_at and r.id = (n.outcome).id
      order by r.account_id, r.id, n.place
      for update of r
    ) as r
    cross join lateral (select (r.outcome).*) as o
    cross join lateral (
      select
        case when r.is_open then 'usage' else 'adjustment' end as kind,
        case when r.is_open then 0 else r.billed_credits end as billed_credits,
        case when r.is_open then 0 else r.cost_usd end as cost_usd,
        case when r.is_open then r.reserved_credits else 0 end as reserved_credits,
        case when r.is_open then r.reserved_usd else 0 end as reserved_usd
    ) as k
    cross join lateral (
      select
        round(coalesce(o.cost_usd, 0), 12) as cost_usd, round(coalesce(o.credits, 0), 8) as credits,
        round(case when r.exempt then 0 else coalesce(o.credits, 0) end, 8) as billed_credits
    ) as b
    -- A run can change if it is open, or if the sweep closed it before the provider's token counts arrived.
    where case
      when r.is_open then (r.touched_at >= idle_since) is not true
      else idle_since is null and r.swept and o.usage_source in ('provider', 'provider_partial') and o.estimated is not true
    end
  ) as s;
  if batch.invalid_ids is not null then
    raise warning 'run % cannot be booked: a run ends with a status, a usage source, a cost and counts of at least 0',
      array_to_string(batch.invalid_ids, ', ') using errcode = 'check_violation';
  end if;
  if batch.due is null then
    return '[]';
  end if;
  due := batch.due;
  outcomes_due := batch.outcomes;
  locks.rate_windows := batch.rate_windows;
  locks.accounts := batch.accounts;
  if batch.has_budgets then
    select array_agg(row(
      split_part(t.entry, '/', 1),
      ai.budget_subject(split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id),
      d.workspace_id
    )::ai.limit_subject)
    into locks.budgets
    from unnest(due) as d
    cross join unnest(d.budget_scopes) as t (entry);
  end if;
  -- An assignment, because `perform` would be one more statement.
  locked := ai.lock_rows(locks);

  begin
    return ai.book_settlements(due, outcomes_due, idle_since is not null);
  exception when data_exception or integrity_constraint_violation then
    null;
  end;
  for place in 1..cardinality(due) loop
    -- A run changes only once, even if it is reported several times.
    continue when outcomes_due[place].id = last_changed;
    begin
      changed := changed || ai.book_settlements(
        due[place:place], outcomes_due[place:place], idle_since is not null
      );
      last_changed := outcomes_due[place].id;
    exception when data_exception or integrity_constraint_violation then
      raise warning 'run % cannot be booked: %', outcomes_due[place].id, sqlerrm using errcode = sqlstate;
    end;
  end loop;
  return changed;
end
$$;

-- Closes and charges runs, and returns them. Raises unique_violation if a run has several settlements. The caller has
-- locked the runs and their rate windows, budgets and accounts. Idempotency keys are last in the lock order.
create or replace function ai.book_settlements(
  due ai.settlement[], outcomes ai.run_outcome[], is_sweep boolean
) returns jsonb
  language plpgsql volatile security invoker
as $$
declare
  closed_runs bigint;
  changed jsonb[];
  has_windows boolean;
  has_budgets boolean;
  has_failures boolean;
  has_keys boolean;
begin
  with closed as (
    update ai.runs r
    set
      status = d.status,
      http_status = d.http_status,
      error_code = d.error_code,
      usage_source = d.usage_source,
      route = coalesce(d.route, r.route),
      input_tokens = coalesce(d.input_tokens, 0),
      cached_input_tokens = coalesce(d.cached_input_tokens, 0),
      audio_input_tokens = coalesce(d.audio_input_tokens, 0),
      output_tokens = coalesce(d.output_tokens, 0),
      reasoning_tokens = coalesce(d.reasoning_tokens, 0),
      audio_output_tokens = coalesce(d.audio_output_tokens, 0),
      cache_write_tokens = coalesce(d.cache_write_tokens, 0),
      cache_write_1h_tokens = coalesce(d.cache_write_1h_tokens, 0),
      image_input_tokens = coalesce(d.image_input_tokens, 0),
      fee_requests = coalesce(d.fee_requests, 0),
      served_tier = d.served_tier,
      marks = coalesce(d.marks, '{}'),
      billing_name = d.billing_name,
      billing_account = d.billing_account,
      cost_usd = coalesce(d.cost_usd, 0),
      billed_credits = d.billed_credits,
      unmetered_credits = d.unmetered_credits,
      first_byte_ms = coalesce(d.first_byte_ms, r.first_byte_ms),
      latency_ms = d.latency_ms,
      steps = d.steps,
      attempts = d.attempts,
      touched_at = now(),
      settled_at = now(),
      swept = is_sweep
    from unnest(due, outcomes) as d
    where r.created_at = d.created_at and r.id = d.id
    returning r.id
  ), paid as (
    update ai.credit_accounts a
    set balance = a.balance - p.credits, reserved = a.reserved - p.released
    from (
      select d.account_id as id, sum(d.credits_due) as credits, sum(d.credits_released) as released
      from unnest(due, outcomes) as d
      group by 1
    ) as p
    where a.id = p.id
    returning a.id, a.balance
  ), charged as (
    insert into ai.credit_ledger (account_id, kind, amount, balance_after, run_created_at, run_id)
    select
      d.account_id, d.kind, -d.credits_due, p.balance + coalesce(sum(d.credits_due) over later, 0), d.created_at, d.id
    from unnest(due, outcomes) as d
    left join paid p on p.id = d.account_id
    where d.credits_due <> 0
    window later as (partition by d.account_id order by d.id desc rows between unbounded preceding and 1 preceding)
    order by d.account_id, d.id
  )
  select
    (select count(*) from closed), array_agg(d.answer), bool_or(d.window_start is not null),
    bool_or(d.budget_scopes <> '{}'), bool_or(d.has_key), bool_or(jsonb_path_exists(d.attempts, '$[*].failure'))
  into closed_runs, changed, has_windows, has_budgets, has_keys, has_failures
  from unnest(due, outcomes) as d;
  if closed_runs < cardinality(due) then
    raise exception 'a run is reported several times' using errcode = 'unique_violation';
  end if;

  if has_windows then
    update ai.rate_windows w
    set tokens = greatest(w.tokens + c.tokens, 0)
    from (
      select
        s.scope, s.subject_id, d.window_start,
        sum(coalesce(d.input_tokens, 0) + coalesce(d.output_tokens, 0) - d.counted_tokens) as tokens
      from unnest(due, outcomes) as d
      cross join lateral (
        values
          ('key', d.key_lineage_id), ('model', ai.model_window_id(d.workspace_id, d.model_id)), ('workspace', d.workspace_id)
      ) as s (scope, subject_id)
      where d.window_start is not null
      group by 1, 2, 3
    ) as c
    -- A window that began after the run's tokens were reserved is not changed.
    where w.scope = c.scope and w.subject_id = c.subject_id and w.window_start <= c.window_start;
  end if;
  if has_budgets then
    update ai.budgets b
    set
      -- A budget that was deleted and set again holds no reservation of earlier runs.
      reserved_usd = greatest(b.reserved_usd - c.released, 0),
      spent_usd = b.spent_usd + (
        -- A run counts in the window in which it began.
        select coalesce(sum(m.cost_usd), 0)
        from unnest(c.begun, c.costs_usd) as m (begun, cost_usd)
        where m.begun >= coalesce(b.starts_at, b.period_start::timestamp at time zone 'UTC')
      ),
      calls = greatest(b.calls - c.ended_calls, 0)
    from (
      select
        split_part(t.entry, '/', 1) as scope, ai.entry_period(t.entry) as period, d.workspace_id,
        ai.budget_subject(
          split_part(t.entry, '/', 1), d.workspace_id, d.key_lineage_id, d.app_id, d.actor_id, d.entity_id, d.envelope_id
        ) as subject_id,
        coalesce(sum(d.usd_released) filter (where t.entry not like '%/concurrent'), 0) as released,
        array_agg(d.created_at) as begun,
        array_agg(d.cost_due_usd) filter (where t.entry not like '%/concurrent') as costs_usd,
        count(*) filter (where t.entry like '%/concurrent' and d.kind = 'usage') as ended_calls
      from unnest(due, outcomes) as d
      cross join unnest(d.budget_scopes) as t (entry)
      group by 1, 2, 3, 4
    ) as c
    where b.scope = c.scope and b.subject_id = c.subject_id and b.workspace_id = c.workspace_id and b.period = c.period;
  end if;
  if has_failures then
    insert into ai.failed_attempts (
      run_created_at, run_id, request_id, workspace_id, model_id, provider_id, provider_model, route, status, failure,
      upstream_request_id
    )
    select
      d.created_at, d.id, d.request_id, d.workspace_id, d.model_id, a.provider, a.model, a.route, a.status, a.failure,
      a.upstream_request_id
    from unnest(due, outcomes) as d
    cross join lateral jsonb_to_recordset(d.attempts) as a (
      route smallint, provider text, model text, status smallint, failure text, upstream_request_id text
    )
    -- A skipped route was not called, and a client that disconnected is not a failure of the provider.
    where a.failure not in ('skipped', 'cancelled');
  end if;
  if has_keys then
    delete from ai.idempotency_keys i
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key and d.key_unused));
    update ai.idempotency_keys i
    set state = 'finished'
    where i.run_id = any (array(select d.id from unnest(due, outcomes) as d where d.has_key));
  end if;
  return to_jsonb(changed);
end
$$;

-- Deletes expired idempotency keys, rate windows older than an hour, failed attempts and refused calls older than
-- seven days, and envelopes 90 days after their end, up to at_most of each. Returns the total number of deleted rows; 0 while another deletion is running.
-- Definer: the server's service role has no grant to write these tables.
create or replace function ai.delete_expired(at_most integer default 1000) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  keys integer;
  windows integer;
  attempts integer;
  refused integer;
  envelopes integer;
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
  with old as (
    select e.id, e.workspace_id
    from ai.envelopes e
    join ai.budgets b on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id
    where e.opened_at < now() - interval '90 days' and b.ends_at < now() - interval '90 days'
    order by e.opened_at
    limit at_most
  ), budgets as (
    delete from ai.budgets b using old
    where b.scope = 'envelope' and b.subject_id = old.id and b.workspace_id = old.workspace_id
  ), alerts as (
    delete from ai.budget_alerts a using old
    where a.scope = 'envelope' and a.subject_id = old.id and a.workspace_id = old.workspace_id
  )
  delete from ai.envelopes e using old where e.id = old.id;
  get diagnostics envelopes = row_count;
  -- Last, because this locks ai.refused_calls until the transaction ends.
  perform ai.rotate_refused_call_partitions();
  return keys + windows + attempts + refused + envelopes;
end
$$;

-- Revokes a connection and its keys, and ends its envelope. Returns false if the connection does not exist or was already revoked.
create or replace function ai.end_connection(connection_id uuid, actor uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  ended_connection ai.agent_connections;
  key ai.keys;
begin
  -- Locks in the same order as private.issue_agent_key: the workspace, the connection, its keys. The envelope comes last.
  perform
  from public.workspaces w
  where w.id = (select c.workspace_id from ai.agent_connections c where c.id = end_connection.connection_id)
  for key share;
  update ai.agent_connections c
  set revoked_at = now()
  where c.id = end_connection.connection_id and c.revoked_at is null
  returning * into ended_connection;
  if not found then
    return false;
  end if;
  update ai.keys k set revoked_at = now() where k.connection_id = ended_connection.id and k.revoked_at is null;
  perform ai.end_connection_envelope(ended_connection, actor);
  select * into key from ai.keys k where k.connection_id = ended_connection.id and k.replaced_by is null;
  if found then
    perform set_config('gatehouse.actor_id', coalesce(actor::text, ''), true);
    perform private.log_workspace_change(ended_connection.workspace_id, 'key.revoked', key.id, key.name);
  end if;
  return true;
end
$$;

-- Returns the lineage of a connection's keys. The first key gets the id of its connection, so that a connection can have
-- an envelope before it has a key.
create or replace function ai.connection_lineage(connection ai.agent_connections) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (select k.lineage_id from ai.keys k where k.connection_id = (connection).id limit 1), (connection).id
  )
$$;

-- Returns the current envelope of a lineage of an agent's keys, or null. It may have ended.
create or replace function ai.lineage_envelope(lineage uuid, workspace uuid) returns ai.envelopes
  language sql stable security invoker set search_path = ''
as $$
  select e
  from ai.envelopes e
  where e.principal_id = lineage and e.workspace_id = workspace and e.label = '' and e.superseded_at is null and e.holds_all
$$;

-- Returns { id, state: open | ended | expired, limitUsd, spentUsd, reservedUsd, maxCalls, calls, endsAt }, or null without
-- an envelope. Amounts are exact text, or null if the workspace hides costs.
create or replace function ai.describe_agent_envelope(envelope ai.envelopes) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (envelope).id,
    'state', ai.envelope_state(envelope, b),
    'limitUsd', case when v.visible then trim_scale(b.limit_usd)::text end,
    'spentUsd', case when v.visible then trim_scale(b.spent_usd)::text end,
    'reservedUsd', case when v.visible then trim_scale(b.reserved_usd)::text end,
    'maxCalls', b.max_calls,
    'calls', b.calls,
    'endsAt', b.ends_at
  )
  from ai.budgets b
  cross join (select ai.cost_visible((envelope).workspace_id) as visible) as v
  where b.scope = 'envelope' and b.subject_id = (envelope).id and b.workspace_id = (envelope).workspace_id
$$;

-- Gives a connection an envelope for all its calls, { usd, calls? }. Keeps an open one with the same amounts. Returns null,
-- or why it was refused, for only a person may change or replace an open one in the studio: { reason: differs | used_up |
-- too_many, id, usd, calls }, with the amounts with which the open envelope was opened.
create or replace function ai.limit_connection(connection ai.agent_connections, envelope jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  lineage constant uuid := ai.connection_lineage(connection);
  opened jsonb;
  found_envelope ai.envelopes;
  budget ai.budgets;
begin
  opened := ai.open_envelope(
    connection.workspace_id, lineage, '', envelope, connection.user_id, key_lineage => lineage
  );
  if opened ->> 'outcome' = 'opened' then
    return null;
  end if;
  if opened ->> 'outcome' = 'too_many' then
    return jsonb_build_object('reason', 'too_many');
  end if;
  select * into found_envelope from ai.envelopes e where e.id = (opened ->> 'id')::uuid;
  select * into budget
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = found_envelope.id and b.workspace_id = found_envelope.workspace_id;
  if not found_envelope.holds_all
    or found_envelope.opened_usd <> (envelope ->> 'usd')::numeric
    or found_envelope.opened_calls is distinct from (envelope ->> 'calls')::bigint then
    opened := jsonb_build_object('reason', 'differs');
  elsif budget.spent_usd >= budget.limit_usd or budget.calls >= budget.max_calls then
    opened := jsonb_build_object('reason', 'used_up');
  else
    return null;
  end if;
  return opened || jsonb_build_object(
    'id', found_envelope.id,
    'usd', trim_scale(found_envelope.opened_usd)::text,
    'calls', found_envelope.opened_calls
  );
end
$$;

-- Ends the envelope of a connection that has ended, so that it is not listed as open.
create or replace function ai.end_connection_envelope(connection ai.agent_connections, actor uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  envelope constant ai.envelopes := ai.lineage_envelope(ai.connection_lineage(connection), connection.workspace_id);
begin
  -- In the order of ai.change_envelope. A call that waits for the lock compares with its own now(), which is earlier.
  update ai.budgets b
  set ends_at = least(b.ends_at, now() - interval '1 minute')
  where b.scope = 'envelope' and b.subject_id = envelope.id and b.workspace_id = envelope.workspace_id
    and b.period = 'total';
  update ai.envelopes e set ended_at = now(), ended_by = actor where e.id = envelope.id and e.ended_at is null;
end
$$;

-- Creates the next key of an agent connection. The key works for at most 8 hours and not longer than the connection's
-- login. The previous key works for at most 15 more minutes. Outcomes: issued (with expiresAt), revoked, not_allowed,
-- not_approved, too_many. too_many: the connection has 20 live keys, or the workspace has 200. Returns { refused } if
-- the login is refused (ai.find_agent_login) or the connection is not_found.
-- Definer: reads memberships and writes keys, but only for the token's user.
create or replace function private.issue_agent_key(
  token_hash bytea, workspace_id uuid, connection_id uuid, lookup text, secret_hash text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  issue_permission text;
  previous ai.keys;
  new_key ai.keys;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = issue_agent_key.workspace_id and w.deleted_at is null for key share;
  -- Locks the connection, so that a concurrent revocation either comes first or revokes this key too.
  select * into connection
  from ai.agent_connections c
  where c.id = issue_agent_key.connection_id
    and c.workspace_id = issue_agent_key.workspace_id
    and c.login_id = caller.login_id
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if connection.revoked_at is not null then
    return jsonb_build_object('outcome', 'revoked');
  end if;
  issue_permission := ai.key_issue_permission(caller.user_id, connection.workspace_id, for_agent => true);
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  select * into previous
  from ai.keys k
  where k.connection_id = connection.id and k.replaced_by is null;
  -- Also counts replaced keys that still work, so that a loop of renewals can't create keys without limit.
  if (select count(*) >= 20 from ai.keys k where k.connection_id = connection.id and k.expires_at > now())
    or (previous.id is null and ai.has_too_many_keys(connection.workspace_id)) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  new_key := ai.store_key(
    caller.user_id, connection.workspace_id,
    jsonb_build_object(
      'name', ai.agent_name(connection.tool) || ' on ' || connection.host,
      'expiresAt', least(now() + interval '8 hours', caller.ends_at)
    ),
    issue_agent_key.lookup, issue_agent_key.secret_hash, lineage => ai.connection_lineage(connection), connection_id => connection.id
  );
  -- Programs that have already read the old key can use it for another 15 minutes.
  update ai.keys k
  set replaced_by = new_key.id, expires_at = least(k.expires_at, now() + interval '15 minutes')
  where k.id = previous.id;
  return jsonb_build_object('outcome', 'issued', 'expiresAt', new_key.expires_at);
end
$$;

-- Returns a connection's details for its member: { id, tool, host, createdAt, state: connected | revoked, keyExpiresAt,
-- envelope }.
create or replace function ai.describe_connection(connection ai.agent_connections) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (connection).id,
    'tool', (connection).tool,
    'host', (connection).host,
    'createdAt', (connection).created_at,
    'state', case when (connection).revoked_at is null then 'connected' else 'revoked' end,
    'keyExpiresAt', (
      select max(k.expires_at) from ai.keys k where k.connection_id = (connection).id and k.revoked_at is null
    ),
    'envelope', ai.describe_agent_envelope(
      ai.lineage_envelope(ai.connection_lineage(connection), (connection).workspace_id)
    )
  )
$$;

-- Connects a coding agent to a workspace. Returns { state: connected, connection }; a repeated call returns the same
-- connection. If the member needs an approval, opens a request, queues emails to members with manage_ai_keys, and
-- returns { state: requested }. With an envelope, { usd, calls? }, limits the connection, or returns { state:
-- limit_refused, limit } (ai.limit_connection). Refusals are { refused: … | not_found | forbidden }. forbidden: the
-- member lacks use_ai_studio.
-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.connect_agent(
  token_hash bytea, workspace_id uuid, tool text, host text, email jsonb, envelope jsonb default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  refused_limit jsonb;
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
  if envelope is not null then
    refused_limit := ai.limit_connection(connection, envelope);
    if refused_limit is not null then
      return jsonb_build_object('state', 'limit_refused', 'limit', refused_limit);
    end if;
  end if;
  return jsonb_build_object('state', 'connected', 'connection', ai.describe_connection(connection));
end
$$;

-- Stores a new key. The caller must have checked ai.key_issue_permission. Logs only the creation of the first key of a
-- lineage. connection_id is the coding agent's connection if the key belongs to an
-- agent.
create or replace function ai.store_key(
  member_id uuid,
  workspace uuid,
  key jsonb,
  lookup text,
  secret_hash text,
  lineage uuid default null,
  connection_id uuid default null
) returns ai.keys
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  new_key ai.keys;
begin
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id, connection_id
  )
  select
    id, coalesce(lineage, id), workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'),
    store_key.lookup, decode(store_key.secret_hash, 'hex'), (key ->> 'externalAppId')::uuid,
    ai.text_list(key -> 'allowedModels'), ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId', store_key.connection_id
  from (select gen_random_uuid() as id) as made_id
  returning * into new_key;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', new_key.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  if lineage is null
    or lineage = store_key.connection_id
    and not exists (select from ai.keys k where k.connection_id = lineage and k.id <> new_key.id) then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.created', new_key.id, new_key.name);
  end if;
  return new_key;
end
$$;

-- Returns a time as RFC 3339 in UTC with milliseconds. Has no settings of its own, so Postgres inlines it.
create or replace function ai.utc_text(moment timestamptz) returns text
  language sql stable security invoker
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Records which thresholds budgets have crossed. Returns the crossings that are not emailed yet, oldest first. Only one
-- sweep runs at a time; a concurrent sweep returns an empty list. month: the local date on which the window began.
-- refusing: the budget refuses calls although it is not fully spent. spentUsd, reservedUsd and leftUsd are null if the
-- workspace hides provider cost. An envelope also has its owner's name, maxCalls and calls.
-- Until 0.5.0, for servers of 0.3.0: without all_periods, returns only monthly budgets.
-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100, all_periods boolean default false) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Runs one sweep at a time. Each sweep reads the budgets after the previous one has finished, so that it sees limits
  -- that were raised meanwhile.
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
        'period', a.period,
        'timeZone', z.time_zone,
        'month', a.month,
        'endsAt', case when a.period in ('day', 'week', 'month') then ai.utc_text(
          (ai.budget_window(a.period, z.time_zone, ai.start_of_day(a.month, z.time_zone))).ends_at
        ) end,
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      ) || case when a.scope = 'envelope' then jsonb_build_object(
        'owner', ai.envelope_owner_name(a.subject_id), 'maxCalls', b.max_calls, 'calls', b.calls
      ) else '{}' end
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id, a.period
    ), '[]')
    from (
      select * from ai.budget_alerts p
      where p.posted_at is null and (all_periods or p.period = 'month')
      order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    left join ai.budgets b
      on b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id and b.period = a.period
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
    cross join lateral (select ai.known_time_zone(coalesce(b.time_zone, 'UTC')) as time_zone) as z
  );
end
$$;

-- Records the highest threshold that each budget has crossed since the last sweep. Reads ai.budgets without a lock.
-- Records each threshold at most once in a window, unless a raised limit puts the spend below the threshold and the
-- budget then crosses it again. Callers must hold the sweep's lock.
create or replace function ai.record_budget_alerts() returns void
  language sql volatile security invoker set search_path = ''
as $$
  merge into ai.budget_alerts as a
  using (
    select
      b.scope, b.subject_id, b.workspace_id, b.period, b.limit_usd, b.spent_usd, b.reserved_usd, x.threshold,
      (c.starts_at at time zone ai.known_time_zone(c.time_zone))::date as month
    from ai.budgets b
    join public.workspaces w on w.id = b.workspace_id and w.deleted_at is null
    left join ai.budget_alerts k
      on k.scope = b.scope and k.subject_id = b.subject_id and k.workspace_id = b.workspace_id and k.period = b.period
    cross join lateral (select ai.budget_threshold(b) as threshold) as x
    -- The window that the row counts, even if it has ended.
    cross join lateral ai.current_budget(b, '-infinity') as c
    -- A budget of zero blocks all calls on purpose, so it needs no warning.
    where b.limit_usd > 0
      -- Reads the lowest threshold first, because the function costs more.
      and (b.spent_usd * 100 >= b.limit_usd * b.thresholds[1] or b.refused_at is not null or k.threshold > 0)
      and (x.threshold > 0 or k.threshold > 0)
      -- In the first hour of a window, also includes budgets that are still in the previous window, because no call has
      -- reset them yet.
      and c.ends_at > now() - interval '1 hour'
  ) as n
  on a.scope = n.scope and a.subject_id = n.subject_id and a.workspace_id = n.workspace_id and a.period = n.period
  when matched and (
    case
      when a.month <> n.month then n.threshold > 0
      else a.threshold < n.threshold or a.limit_usd <> n.limit_usd or (a.scope = 'envelope' and a.threshold > n.threshold)
    end
  ) then update set
    month = n.month,
    limit_usd = n.limit_usd,
    spent_usd = n.spent_usd,
    reserved_usd = n.reserved_usd,
    threshold = case
      when a.month <> n.month or a.limit_usd < n.limit_usd or a.scope = 'envelope' then n.threshold
      else greatest(a.threshold, n.threshold)
    end,
    crossed_at = case when a.month <> n.month or a.threshold < n.threshold then now() else a.crossed_at end,
    posted_at = case
      when a.month <> n.month or a.threshold < n.threshold then null
      -- Marks the unsent warning as emailed, so that it is never sent: the raised limit put the spend below its
      -- threshold.
      when a.threshold > n.threshold and (a.limit_usd < n.limit_usd or a.scope = 'envelope') then coalesce(a.posted_at, now())
      else a.posted_at
    end
  when not matched and n.threshold > 0 then
    insert (scope, subject_id, workspace_id, period, month, limit_usd, spent_usd, reserved_usd, threshold)
    values (
      n.scope, n.subject_id, n.workspace_id, n.period, n.month, n.limit_usd, n.spent_usd, n.reserved_usd, n.threshold
    )
$$;

-- Rearms the thresholds above the current spend after a budget is raised, so that crossing them again sends a new
-- warning. The sweep also detects a raise, but not if the thresholds are crossed again before the sweep runs.
create or replace function ai.reset_budget_alert(scope text, subject uuid, workspace uuid, period text default 'month')
  returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.budget_alerts a
  set
    limit_usd = b.limit_usd,
    spent_usd = b.spent_usd,
    reserved_usd = b.reserved_usd,
    threshold = x.threshold,
    posted_at = case when x.threshold < a.threshold then coalesce(a.posted_at, now()) else a.posted_at end
  from ai.budgets b
  cross join lateral (select ai.budget_threshold(b) as threshold) as x
  cross join lateral ai.current_budget(b, '-infinity') as c
  where a.scope = reset_budget_alert.scope and a.subject_id = subject and a.workspace_id = workspace
    and a.period = reset_budget_alert.period
    and b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id and b.period = a.period
    and (c.starts_at at time zone ai.known_time_zone(c.time_zone))::date = a.month
    -- Another maximum number of calls also raises an envelope.
    and (b.limit_usd > a.limit_usd or b.scope = 'envelope')
    and x.threshold <= a.threshold
$$;

-- Returns whether a budget is effectively used up. This is the case if the budget refused a call in the current window,
-- and at least 80 percent of the limit is spent or reserved. Below 80 percent, the refused call was simply too large, and
-- other calls may still fit.
create or replace function ai.budget_refuses_calls(budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select case
    when budget.refused_at is null or (budget.spent_usd + budget.reserved_usd) * 5 < budget.limit_usd * 4 then false
    else (
      -- Until the first call of a window is admitted, the amount held belongs to the previous window and will be released.
      select coalesce(budget.limit_usd > 0 and budget.refused_at >= c.starts_at and c.ends_at > now(), false)
      from ai.current_budget(budget, '-infinity') as c
    )
  end
$$;

-- Returns whether an envelope has refused a call since it was opened or raised, and is still open.
create or replace function ai.envelope_refuses_calls(budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select budget.refused_at is not null and budget.ends_at > now() and exists (
    select from ai.envelopes e where e.id = budget.subject_id and e.ended_at is null and e.superseded_at is null
  )
$$;

-- Returns the name of the newest key of a lineage.
create or replace function ai.latest_key_name(lineage uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select k.name from ai.keys k
  where k.lineage_id = lineage and k.workspace_id = workspace
  order by k.created_at desc limit 1
$$;

-- Returns the email addresses that receive an alert about a budget. An envelope's alert goes to its owner or, if that
-- account is gone, banned or no member any more, to members with manage_ai_policy or manage_ai_keys.
create or replace function ai.alert_recipients(scope text, subject uuid, workspace uuid) returns setof text
  language sql stable security invoker set search_path = ''
as $$
  with envelope_owner as (
    select u.email
    from ai.envelopes e
    join public.workspace_members m on m.workspace_id = e.workspace_id and m.user_id = e.actor_id
    join auth.users u on u.id = m.user_id
    where alert_recipients.scope = 'envelope' and e.id = subject
      and char_length(u.email) between 3 and 320
      and u.deleted_at is null
      and (u.banned_until is null or u.banned_until <= now())
  )
  select o.email from envelope_owner o
  union all
  select r.email
  from ai.budget_recipients(
    case alert_recipients.scope when 'envelope' then 'key' else alert_recipients.scope end, workspace
  ) as r (email)
  where not exists (select from envelope_owner)
$$;

-- Sets one budget; null removes it. A budget of period concurrent has max_calls instead of an amount. Requires
-- manage_ai_policy or, for a key's budget, manage_ai_keys. For the scope label, takes the label's text and derives the
-- subject from it. time_zone and thresholds stay the same if they are null. The arguments that begin with read are what
-- the member saw; read_time_zone and read_thresholds are compared only if given. If one of them has changed since,
-- nothing is changed. Outcomes: changed, unchanged, changed_meanwhile (with the current settings), invalid (with param
-- and message), not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null,
  period text default 'month', time_zone text default null, thresholds smallint[] default null,
  max_calls bigint default null, read_time_zone text default null, read_thresholds smallint[] default null,
  read_max_calls bigint default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
  new_limit numeric := change_budget.limit_usd::numeric;
  fault record;
  old ai.budgets;
  current ai.budgets;
  differences jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  fault := ai.budget_fault(scope, period, time_zone, thresholds, new_limit, max_calls);
  if fault.param is not null then
    return jsonb_build_object('outcome', 'invalid', 'param', fault.param, 'message', fault.message);
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = change_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  old := ai.find_budget(scope, subject, workspace, period);
  if old.limit_usd is distinct from read_limit_usd::numeric
    or old.max_calls is distinct from read_max_calls
    or old.time_zone <> read_time_zone
    or old.thresholds <> ai.sorted_thresholds(read_thresholds) then
    return jsonb_build_object('outcome', 'changed_meanwhile') || ai.budget_settings(old);
  end if;
  perform ai.set_budget(scope, subject, workspace, new_limit, label, period, time_zone, thresholds, max_calls);
  current := ai.find_budget(scope, subject, workspace, period);
  select coalesce(jsonb_object_agg(n.key, jsonb_build_object('before', o.value, 'after', n.value)), '{}') into differences
  from jsonb_each(ai.budget_settings(current)) n
  join jsonb_each(ai.budget_settings(old)) o using (key)
  where n.value <> o.value and (current.scope is not null or n.key in ('limitUsd', 'maxCalls'));
  if differences = '{}' then
    return jsonb_build_object('outcome', 'unchanged');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'budget.changed', subject, ai.budget_name(scope, subject, workspace),
    jsonb_build_object(
      'scope', scope, 'before', trim_scale(old.limit_usd)::text, 'after', trim_scale(current.limit_usd)::text
    ) || case when period <> 'month' then jsonb_build_object('period', period) else '{}' end || differences - 'limitUsd'
  );
  return jsonb_build_object('outcome', 'changed');
end
$$;

-- Sets the budget of a workspace, or of one of its apps, key lineages, members or labels, for one period. A limit of null
-- removes the budget; the row stays and counts on. A period of concurrent takes max_calls instead of a limit. time_zone
-- and thresholds default to those that the budget had, or else to UTC and {50,80,100}. A new budget starts with the cost
-- of the window's settled runs. Runs that are in progress when the budget is created are not counted in it. Another time
-- zone recomputes the window and what was spent in it, and keeps what is reserved. Raises an exception if an argument is
-- invalid. Callers must hold ai.lock_policy.
create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null, period text default 'month',
  time_zone text default null, thresholds smallint[] default null, max_calls bigint default null
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault record := ai.budget_fault(scope, period, time_zone, thresholds, limit_usd, max_calls);
  old ai.budgets;
  new_zone text;
  count_from timestamptz;
  count_to timestamptz;
begin
  if fault.param is not null then
    raise exception '%', fault.message using errcode = 'invalid_parameter_value';
  end if;
  -- Locks the budget first, so that a run that is settled meanwhile is either in the sum below or added to it later.
  select * into old from ai.budgets b
  where b.scope = set_budget.scope and b.subject_id = subject and b.workspace_id = workspace and b.period = set_budget.period
  for no key update;
  if num_nonnulls(limit_usd, max_calls) = 0 then
    update ai.budgets b set limit_usd = null, max_calls = null
    where b.scope = old.scope and b.subject_id = old.subject_id and b.workspace_id = old.workspace_id and b.period = old.period;
    return;
  end if;
  new_zone := coalesce(set_budget.time_zone, old.time_zone, 'UTC');
  if new_zone is distinct from old.time_zone then
    select w.starts_at, w.ends_at into count_from, count_to from ai.budget_window(set_budget.period, new_zone, now()) w;
  end if;
  if old.scope is null then
    insert into ai.budgets as b (
      scope, subject_id, workspace_id, period, label, limit_usd, max_calls, time_zone, thresholds, starts_at, ends_at, spent_usd
    )
    values (
      set_budget.scope, subject, workspace, set_budget.period, set_budget.label, set_budget.limit_usd, set_budget.max_calls,
      new_zone, coalesce(ai.sorted_thresholds(set_budget.thresholds), '{50,80,100}'), count_from, count_to,
      case
        when set_budget.period = 'concurrent' then 0
        else ai.recorded_cost(set_budget.scope, subject, workspace, set_budget.label, count_from)
      end
    );
    return;
  end if;
  update ai.budgets b
  set
    limit_usd = set_budget.limit_usd,
    max_calls = set_budget.max_calls,
    thresholds = coalesce(ai.sorted_thresholds(set_budget.thresholds), b.thresholds),
    time_zone = new_zone,
    starts_at = coalesce(count_from, b.starts_at),
    ends_at = coalesce(count_to, b.ends_at),
    spent_usd = case
      when count_from is null or b.period = 'concurrent' then b.spent_usd
      else ai.recorded_cost(b.scope, b.subject_id, b.workspace_id, b.label, count_from)
    end,
    -- Raising the limit clears the refusal, because the refused call may now fit.
    refused_at = case when set_budget.limit_usd <= b.limit_usd then b.refused_at end
  where b.scope = old.scope and b.subject_id = old.subject_id and b.workspace_id = old.workspace_id and b.period = old.period;
  perform ai.reset_budget_alert(set_budget.scope, subject, workspace, set_budget.period);
end
$$;

-- Returns which argument of a budget is invalid and why, or nulls.
create or replace function ai.budget_fault(
  scope text, period text, time_zone text, thresholds smallint[], limit_usd numeric, max_calls bigint,
  out param text, out message text
)
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  if coalesce(period not in ('day', 'week', 'month', 'total', 'concurrent'), true) then
    param := 'period';
    message := 'The period must be day, week, month, total or concurrent.';
  elsif period = 'concurrent' and scope not in ('workspace', 'member', 'key') then
    param := 'period';
    message := 'Only a workspace, a member or a key can have a limit of concurrent calls.';
  elsif period = 'concurrent' and limit_usd is not null then
    param := 'limitUsd';
    message := 'A limit of concurrent calls has no amount.';
  elsif limit_usd < 0 then
    param := 'limitUsd';
    message := 'The limit must not be negative.';
  elsif period <> 'concurrent' and max_calls is not null or max_calls < 0 then
    param := 'maxCalls';
    message := 'Only a limit of concurrent calls has a maximum number of calls, of at least 0.';
  elsif cardinality(thresholds) > 5 or not 0 < all (thresholds) or not 100 >= all (thresholds)
    or array_position(thresholds, null) is not null then
    param := 'thresholds';
    message := 'There can be at most 5 thresholds, from 1 to 100 percent.';
  -- Postgres also reads abbreviations, offsets and any case, which other programs don't. Its view of all zones is slow.
  elsif time_zone <> 'UTC' and not exists (
    select from pg_catalog.pg_timezone_names z
    where z.name = time_zone and z.name ~ '^[A-Z]' and z.name <> 'Factory'
  ) then
    param := 'timeZone';
    message := format('The time zone %s is unknown. Use an IANA name, such as Europe/Berlin.', time_zone);
  end if;
end
$$;

-- Returns thresholds in ascending order without duplicates, or null.
create or replace function ai.sorted_thresholds(thresholds smallint[]) returns smallint[]
  language sql immutable security invoker set search_path = ''
as $$
  select case when thresholds is not null then array(select distinct t from unnest(thresholds) t order by t) end
$$;

-- Returns a budget, with nulls if there is none or its limit was removed.
create or replace function ai.find_budget(scope text, subject uuid, workspace uuid, period text) returns ai.budgets
  language sql stable security invoker set search_path = ''
as $$
  select b from ai.budgets b
  where b.scope = find_budget.scope and b.subject_id = subject and b.workspace_id = workspace
    and b.period = find_budget.period and num_nonnulls(b.limit_usd, b.max_calls) > 0
$$;

-- Returns what can be changed of a budget.
create or replace function ai.budget_settings(budget ai.budgets) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'timeZone', coalesce((budget).time_zone, 'UTC'),
    'thresholds', coalesce((budget).thresholds, '{50,80,100}'),
    'maxCalls', (budget).max_calls
  )
$$;

-- Returns the cost of the settled runs of a budget's subject since the given time, which can be -infinity.
create or replace function ai.recorded_cost(
  scope text, subject uuid, workspace uuid, label text, since timestamptz
) returns numeric
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  if scope = 'label' then
    -- Sums may count a label as one of many (*).
    return (
      select coalesce(sum(r.cost_usd), 0)
      from ai.runs r
      where r.workspace_id = workspace and r.entity_id = recorded_cost.label and r.created_at >= since
    );
  end if;
  return (
    select coalesce(sum(u.cost_usd), 0)
    from ai.usage_between(workspace, since, 'infinity', recorded_cost.scope = 'member') u
    where case recorded_cost.scope
      when 'workspace' then true
      when 'app' then u.app_id = subject
      when 'member' then u.actor_id = subject
      else u.key_lineage_id = subject
    end
  );
end
$$;

-- Returns a page of a workspace's budgets and their use in their current windows, for a member with use_ai_studio.
-- Returns { outcome: read, month, endsAt, costVisible, keysVisible, budgets } or { outcome: not_allowed }. Includes
-- budgets of keys only with manage_ai_keys or manage_ai_policy. Sorts budgets by scope, labels by their text, other
-- subjects by when they were created, and budgets of a subject by their period. A subject without a budget appears once,
-- as a monthly budget without a limit. after is the position of the last budget on the previous page. Amounts are exact
-- text, or null if the budget has no limit or provider cost is hidden. startsAt and endsAt are null for budgets without
-- windows. maxCalls and calls are the maximum and the number of concurrent calls. usedUp: everything is spent, or
-- ai.budget_refuses_calls is true. enforced: the budget can refuse calls.
-- Until 0.5.0, for servers of 0.3.0: month and endsAt of the answer are those of the UTC month, and without all_periods,
-- only monthly budgets are returned.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_budgets(
  member_id uuid, workspace uuid, after text[], page_size integer, scopes text[], all_periods boolean default false
) returns jsonb
  language plpgsql stable security definer set search_path = ''
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
          'period', p.period,
          'timeZone', coalesce((p.budget).time_zone, 'UTC'),
          'startsAt', case when isfinite(p.starts_at) then ai.utc_text(p.starts_at) end,
          'endsAt', case when isfinite(p.ends_at) then ai.utc_text(p.ends_at) end,
          'thresholds', coalesce((p.budget).thresholds, '{50,80,100}'),
          'limitUsd', trim_scale((p.budget).limit_usd)::text,
          'spentUsd', case when visible then trim_scale(p.spent)::text end,
          'reservedUsd', case when visible then trim_scale((p.budget).reserved_usd)::text end,
          'remainingUsd', case
            -- greatest(null, 0) is 0, so a missing limit needs its own case.
            when visible and (p.budget).limit_usd is not null then trim_scale(greatest((p.budget).limit_usd - p.spent - (p.budget).reserved_usd, 0))::text
          end,
          'spentPercent', case
            when visible and (p.budget).limit_usd > 0 then trunc(p.spent * 100 / (p.budget).limit_usd)::text
          end,
          'usedUp', visible and coalesce(
            (p.budget).limit_usd > 0 and (p.spent >= (p.budget).limit_usd or ai.budget_refuses_calls(p.budget)), false
          ),
          'maxCalls', (p.budget).max_calls,
          'calls', case when p.period = 'concurrent' then (p.budget).calls end,
          'warned', (
            select jsonb_build_object('threshold', a.threshold, 'at', ai.utc_text(a.posted_at))
            from ai.budget_alerts a
            where a.scope = p.scope and a.subject_id = p.subject_id and a.workspace_id = workspace
              and a.period = p.period and a.month = (p.starts_at at time zone ai.known_time_zone((p.budget).time_zone))::date
              and a.threshold > 0 and a.posted_at is not null and (p.budget).limit_usd is not null
          )
        )
        order by p.position collate "C"
      ), '[]')
      from (
        select
          s.*, b as budget, x.period, c.spent_usd as spent, o.position,
          case when b.scope is null then this_month at time zone 'UTC' else c.starts_at end as starts_at,
          case when b.scope is null then (this_month + interval '1 month') at time zone 'UTC' else c.ends_at end as ends_at
        from ai.budget_subjects(workspace, with_keys) s
        left join ai.budgets b
          on b.scope = s.scope and b.subject_id = s.subject_id and b.workspace_id = workspace
            and num_nonnulls(b.limit_usd, b.max_calls) > 0 and (all_periods or b.period = 'month')
        cross join lateral ai.current_budget(b, now()) as c
        cross join lateral (select coalesce(b.period, 'month') as period) as x
        -- The sort key never changes, so each budget keeps its place in the list.
        cross join lateral (
          select array[
            array_position(array['workspace', 'app', 'key', 'member', 'label'], s.scope)::text,
            coalesce(s.label, to_char(s.since at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), ''),
            s.subject_id::text
          ] || case
            when all_periods then array[array_position(array['day', 'week', 'month', 'total', 'concurrent'], x.period)::text]
          end as position
        ) as o
        where s.scope = any (scopes)
          and (s.live or c.spent_usd > 0)
          and (after is null or o.position collate "C" > after collate "C")
        order by o.position collate "C"
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns a budget's limit and its spend in the current window, as exact text. The spend is null if the workspace hides
-- provider cost.
create or replace function ai.budget_summary(budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'spentUsd', case when cost_visible then trim_scale(c.spent_usd)::text end
  )
  from ai.current_budget(budget, now()) c
$$;

-- Returns which envelopes of a workspace a member sees and changes: all with manage_ai_policy or manage_ai_keys, own
-- with use_ai_studio (those of their keys, agents and sessions), or null.
create or replace function ai.envelope_access(member_id uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy')
      or private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then 'all'
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then 'own'
  end
$$;

-- Returns a page of a workspace's envelopes in the given states (open, ended, expired), newest first. Returns { outcome:
-- read, costVisible, envelopes } or { outcome: not_allowed }. before is the position of the last envelope on the previous
-- page. waiting selects only envelopes that wait for a decision (true) or that don't (false).
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_envelopes(
  member_id uuid, workspace uuid, states text[], before jsonb, page_size integer, waiting boolean default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  before_at timestamptz := (before ->> 'createdAt')::timestamptz;
  before_id uuid := (before ->> 'id')::uuid;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'costVisible', visible,
    'envelopes', (
      select coalesce(
        jsonb_agg(ai.envelope_details(p.envelope, p.budget, visible) order by (p.envelope).opened_at desc, (p.envelope).id),
        '[]'
      )
      from (
        select e as envelope, b as budget
        from ai.envelopes e
        join ai.budgets b
          on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id and b.period = 'total'
        cross join lateral (select ai.envelope_state(e, b) as state) as s
        where e.workspace_id = workspace
          and (access = 'all' or e.actor_id = member_id)
          and s.state = any (states)
          and (list_envelopes.waiting is null or (s.state = 'open' and b.refused_at is not null) = list_envelopes.waiting)
          and (before is null or (e.opened_at <= before_at and (e.opened_at < before_at or e.id > before_id)))
        order by e.opened_at desc, e.id
        limit page_size
      ) as p
    )
  );
end
$$;

-- Returns the page of a workspace's envelopes: those that wait for a decision, the other open ones, and past ones in the
-- given states. With keys, also the keys for which the member can open one.
-- Definer: as ai.list_envelopes.
create or replace function ai.read_envelopes_page(
  member_id uuid, workspace uuid, past_states text[], open_before jsonb, past_before jsonb, page_size integer,
  with_keys boolean
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
begin
  return jsonb_build_object(
    'seesAll', coalesce(access = 'all', false),
    'waiting', ai.list_envelopes(member_id, workspace, '{open}', null, page_size, true),
    'open', ai.list_envelopes(member_id, workspace, '{open}', open_before, page_size, false),
    'past', ai.list_envelopes(member_id, workspace, past_states, past_before, page_size),
    'keys', case
      when with_keys and access is not null then (
        select coalesce(jsonb_agg(jsonb_build_object('id', k.lineage_id, 'name', k.name) order by k.name, k.lineage_id), '[]')
        from (
          select distinct on (k.lineage_id) k.lineage_id, k.name
          from ai.keys k
          where k.workspace_id = workspace and (access = 'all' or k.created_by = member_id) and ai.has_calling_key(k)
          order by k.lineage_id, k.created_at desc
        ) as k
      )
      else '[]'
    end
  );
end
$$;

-- Returns whether a key can make calls, or its coding agent can renew it.
create or replace function ai.has_calling_key(key ai.keys) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select (key).revoked_at is null
    and ((key).connection_id is not null or (key).expires_at is null or (key).expires_at > now())
$$;

-- Returns one envelope with its history: { outcome: read, costVisible, envelope, history }, not_allowed, or not_found,
-- which includes envelopes of other members that this member may not see.
-- Definer: as ai.list_envelopes.
create or replace function ai.read_envelope(member_id uuid, workspace uuid, envelope_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  details jsonb;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select ai.envelope_details(e, b, visible) into details
  from ai.envelopes e
  join ai.budgets b
    on b.scope = 'envelope' and b.subject_id = e.id and b.workspace_id = e.workspace_id and b.period = 'total'
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'costVisible', visible,
    'envelope', details,
    'history', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', l.id,
        'actorId', l.actor_id,
        'actor', (select p.display_name from public.profiles p where p.id = l.actor_id),
        'action', l.action,
        'subjectId', l.subject_id,
        'subject', l.subject,
        'details', l.details,
        'at', ai.utc_text(l.created_at)
      ) order by l.id desc), '[]')
      from (
        select l.*
        from public.workspace_audit_log l
        where l.workspace_id = workspace and l.subject_id = envelope_id and l.action like 'envelope.%'
        order by l.id desc
        limit 50
      ) as l
    )
  );
end
$$;

-- Changes one envelope. changes may have limitUsd, calls and endsAt, or ended: true, which ends the envelope for good. A
-- later endsAt resumes an expired one. Raising an amount or extending the end requires a recent proof of identity
-- (is_fresh). read_version is the version that the member saw; ending ignores it. Outcomes: changed, unchanged,
-- changed_meanwhile and ended (all with the envelope), step_up_required, bad_end, not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes envelopes, which the service role can't do itself.
create or replace function ai.change_envelope(
  member_id uuid, workspace uuid, envelope_id uuid, changes jsonb, read_version text, is_fresh boolean
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  ends boolean := coalesce((changes ->> 'ended')::boolean, false);
  envelope ai.envelopes;
  old_budget ai.budgets;
  new_budget ai.budgets;
  raises boolean;
begin
  if access is null then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform from ai.envelopes e
  where e.id = envelope_id and e.workspace_id = workspace and (access = 'all' or e.actor_id = member_id);
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The order of ai.lock_rows holds: one budget, then the envelope, which calls and ai.open_envelope don't lock before a
  -- budget.
  select * into old_budget
  from ai.budgets b
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  for no key update;
  select * into envelope from ai.envelopes e where e.id = envelope_id for no key update;
  if old_budget.subject_id is null or envelope.id is null then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if envelope.ended_at is not null or envelope.superseded_at is not null then
    return jsonb_build_object(
      'outcome', case when ends and envelope.ended_at is not null then 'unchanged' else 'ended' end,
      'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  if not ends and read_version is distinct from ai.envelope_version(envelope, old_budget) then
    return jsonb_build_object(
      'outcome', 'changed_meanwhile', 'envelope', ai.envelope_details(envelope, old_budget, visible)
    );
  end if;
  new_budget := old_budget;
  if ends then
    -- A call that waits for the lock compares with its own now(), which is earlier.
    new_budget.ends_at := least(old_budget.ends_at, now() - interval '1 minute');
  else
    if changes ? 'limitUsd' then
      new_budget.limit_usd := (changes ->> 'limitUsd')::numeric;
    end if;
    if changes ? 'calls' then
      new_budget.max_calls := (changes ->> 'calls')::bigint;
    end if;
    if changes ? 'endsAt' then
      new_budget.ends_at := (changes ->> 'endsAt')::timestamptz;
    end if;
    if new_budget = old_budget then
      return jsonb_build_object('outcome', 'unchanged', 'envelope', ai.envelope_details(envelope, old_budget, visible));
    end if;
    if new_budget.ends_at <> old_budget.ends_at and not ai.is_envelope_end(new_budget.ends_at) then
      return jsonb_build_object('outcome', 'bad_end');
    end if;
  end if;
  raises := new_budget.limit_usd > old_budget.limit_usd
    or (new_budget.max_calls is null and old_budget.max_calls is not null)
    or coalesce(new_budget.max_calls > old_budget.max_calls, false)
    or new_budget.ends_at > old_budget.ends_at;
  if raises and not is_fresh then
    return jsonb_build_object('outcome', 'step_up_required');
  end if;
  update ai.budgets b
  set
    limit_usd = new_budget.limit_usd,
    max_calls = new_budget.max_calls,
    ends_at = new_budget.ends_at,
    -- The refused call may now fit.
    refused_at = case when not raises then b.refused_at end
  where b.scope = 'envelope' and b.subject_id = envelope_id and b.workspace_id = workspace and b.period = 'total'
  returning * into new_budget;
  if ends then
    update ai.envelopes e set ended_at = now(), ended_by = member_id where e.id = envelope_id returning * into envelope;
  elsif raises then
    perform ai.reset_budget_alert('envelope', envelope_id, workspace, 'total');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, case when ends then 'envelope.ended' else 'envelope.changed' end, envelope_id, ai.envelope_name(envelope),
    case
      when ends then '{}'
      else jsonb_build_object('before', ai.envelope_limits(old_budget), 'after', ai.envelope_limits(new_budget))
    end
  );
  return jsonb_build_object('outcome', 'changed', 'envelope', ai.envelope_details(envelope, new_budget, visible));
end
$$;

-- Opens an envelope for a key's calls or, without a key, for the member's own calls. limits has limitUsd and optionally
-- calls and endsAt. Without a label, it holds every call of the key or member. Replaces an ended or expired one. The
-- caller must have checked that the proof of identity is recent. Outcomes: opened and exists (both with the envelope),
-- too_many, bad_end, bad_label, not_active, not_allowed, not_found. Logs the opening.
-- Definer: as ai.change_envelope.
create or replace function ai.open_envelope_for_member(
  member_id uuid, workspace uuid, key_id uuid, label text, limits jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  access text := ai.envelope_access(member_id, workspace);
  visible boolean := ai.cost_visible(workspace);
  end_time timestamptz := (limits ->> 'endsAt')::timestamptz;
  key ai.keys;
  opening jsonb;
  envelope ai.envelopes;
  budget ai.budgets;
begin
  if access is null or (key_id is null and not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if key_id is not null then
    select * into key
    from ai.keys k
    where k.id = key_id and k.workspace_id = workspace and (access = 'all' or k.created_by = member_id);
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
    if not exists (select from ai.keys k where k.lineage_id = key.lineage_id and ai.has_calling_key(k)) then
      return jsonb_build_object('outcome', 'not_active');
    end if;
    -- Every call of the key has the key's label, so an envelope with another one would hold nothing.
    if key.entity_id is not null and label not in ('', key.entity_id) then
      return jsonb_build_object('outcome', 'bad_label');
    end if;
  end if;
  if not coalesce(ai.is_envelope_end(end_time), true) then
    return jsonb_build_object('outcome', 'bad_end');
  end if;
  opening := ai.open_envelope(
    workspace, coalesce(key.lineage_id, member_id), label,
    jsonb_build_object('usd', limits ->> 'limitUsd', 'calls', limits -> 'calls'),
    opened_by => member_id, key_lineage => key.lineage_id, owner => key.created_by, ends_at => end_time
  );
  if opening ->> 'outcome' = 'too_many' then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  select * into envelope from ai.envelopes e where e.id = (opening ->> 'id')::uuid;
  select * into budget from ai.budgets b where b.scope = 'envelope' and b.subject_id = envelope.id;
  if opening ->> 'outcome' = 'opened' then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(
      workspace, 'envelope.opened', envelope.id, ai.envelope_name(envelope),
      jsonb_build_object('after', ai.envelope_limits(budget))
    );
  end if;
  return jsonb_build_object(
    'outcome', opening ->> 'outcome', 'envelope', ai.envelope_details(envelope, budget, visible)
  );
end
$$;

-- Returns whether an envelope may be made to end at a time: within a year from now. Null without a time.
create or replace function ai.is_envelope_end(end_time timestamptz) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select end_time > now() and end_time <= now() + interval '366 days'
$$;

-- Returns the key or person whose calls an envelope holds: { kind, id, name }. The name is null once it is deleted.
create or replace function ai.principal_of_envelope(envelope ai.envelopes) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'kind', x.kind, 'id', (envelope).principal_id,
    'name', ai.budget_name(x.kind, (envelope).principal_id, (envelope).workspace_id)
  )
  from (select case when (envelope).key_lineage_id is null then 'member' else 'key' end as kind) as x
$$;

-- Returns the limits of an envelope for its history, as exact text.
create or replace function ai.envelope_limits(budget ai.budgets) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'limitUsd', trim_scale((budget).limit_usd)::text,
    'calls', (budget).max_calls,
    'endsAt', ai.utc_text_microseconds((budget).ends_at)
  )
$$;

-- Returns a text that differs after each change of an envelope's limits or state, so that a change made from an older
-- state can be refused.
create or replace function ai.envelope_version(envelope ai.envelopes, budget ai.budgets) returns text
  language sql stable security invoker set search_path = ''
as $$
  select md5(ai.envelope_limits(budget)::text || coalesce((envelope).ended_at::text, ''))
$$;

-- Returns an envelope for members. Amounts are exact text. What was spent is null if the workspace hides provider cost.
-- waiting: a call was refused since the limits were last raised.
create or replace function ai.envelope_details(envelope ai.envelopes, budget ai.budgets, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select ai.envelope_limits(budget) || jsonb_build_object(
    'id', (envelope).id,
    'version', ai.envelope_version(envelope, budget),
    'state', s.state,
    'waiting', s.state = 'open' and (budget).refused_at is not null,
    'principal', ai.principal_of_envelope(envelope),
    'keyId', (
      select k.id from ai.keys k
      where k.lineage_id = (envelope).key_lineage_id and k.workspace_id = (envelope).workspace_id
      order by k.created_at desc, k.id desc limit 1
    ),
    'owner', (select p.display_name from public.profiles p where p.id = (envelope).actor_id),
    'label', (envelope).label,
    'holdsAll', (envelope).holds_all,
    'openedUsd', trim_scale((envelope).opened_usd)::text,
    'openedCalls', (envelope).opened_calls,
    'openedAt', ai.utc_text_microseconds((envelope).opened_at),
    'openedBy', (select p.display_name from public.profiles p where p.id = (envelope).opened_by),
    'endedAt', ai.utc_text((envelope).ended_at),
    'endedBy', (select p.display_name from public.profiles p where p.id = (envelope).ended_by),
    'replaced', (envelope).superseded_at is not null,
    'lastRefusedAt', ai.utc_text((budget).refused_at),
    'usedCalls', (budget).calls,
    'remainingCalls', greatest((budget).max_calls - (budget).calls, case when (budget).max_calls is not null then 0 end),
    'spentUsd', case when cost_visible then trim_scale((budget).spent_usd)::text end,
    'reservedUsd', case when cost_visible then trim_scale((budget).reserved_usd)::text end,
    'remainingUsd', case
      when cost_visible then trim_scale(greatest((budget).limit_usd - (budget).spent_usd - (budget).reserved_usd, 0))::text
    end
  )
  from (select ai.envelope_state(envelope, budget) as state) as s
$$;

-- Returns a key's details without its secret, which is stored only as a hash. Amounts are exact text. spentThisMonthUsd is
-- for the current UTC month. budget is the key's monthly budget. Spend includes the keys that this key replaced. A replaced key has no spend of its own, so that a sum
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
      select ai.budget_summary(b, (key).replaced_by is null and ai.cost_visible(b.workspace_id))
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.period = 'month' and b.limit_usd is not null
    )
  )
$$;

-- Returns the monthly budget of a key and of the keys that it replaced, or null.
create or replace function ai.key_budget(key ai.keys) returns numeric
  language sql stable security invoker set search_path = ''
as $$
  select b.limit_usd from ai.budgets b
  where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id and b.period = 'month'
$$;

-- Returns the coding agent that renews a key: { tool, host, status, endsAt, envelope }. status is what the gateway answers to the
-- agent (ai.agent_key_statuses). endsAt is the time at which the agent's login ends, or null with the status over.
-- Returns null if no agent renews the key.
create or replace function ai.agent_of_key(key ai.keys) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'tool', c.tool,
    'host', c.host,
    'status', s.status,
    'endsAt', case when s.status <> 'over' then ai.agent_login_end(c.login_id) end,
    'envelope', ai.describe_agent_envelope(ai.lineage_envelope((key).lineage_id, c.workspace_id))
  )
  from ai.agent_connections c
  cross join lateral (select ai.agent_key_statuses(array[c.id]) ->> c.id::text as status) s
  where c.id = (key).connection_id
$$;

-- Returns { overview, budgets, keys, approval } for the first page of a workspace: the usage by model, the first budgets,
-- the newest key, and the state of the keys' approval.
-- Until 0.5.0, for servers of 0.3.0: without all_periods, returns only monthly budgets.
create or replace function ai.read_workspace_home(
  member_id uuid, workspace uuid, range_from timestamptz, range_to timestamptz, previous_from timestamptz,
  previous_to timestamptz, days_each integer, max_rows integer, max_budgets integer, budget_scopes text[],
  all_periods boolean default false
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'overview', ai.read_overview(
      member_id, workspace, range_from, range_to, previous_from, previous_to, 'model', days_each, max_rows
    ),
    'budgets', ai.read_budgets(member_id, workspace, null, max_budgets, budget_scopes, all_periods),
    'keys', ai.list_keys(member_id, workspace, null, 1),
    'approval', ai.read_key_approval(member_id, workspace)
  )
$$;

-- Changes the given fields of a workspace's policy, for a member with manage_ai_policy: allowedModels, deniedModels,
-- allowedRegions, requestsPerMinute, tokensPerMinute, modelLimits [{ model, requestsPerMinute, tokensPerMinute }],
-- providerCostVisible, contentCapture, contentRetentionDays, monthlyBudgetUsd, appBudgets [{ appId, monthlyBudgetUsd }].
-- null removes a limit. readAt is the updatedAt of the
-- policy that the member saw. If the policy has changed since, nothing is changed. Outcomes: changed (with policy),
-- changed_meanwhile (with policy), not_allowed, app_not_linked, unknown_models (with param and models). Names that are
-- already in one of the lists are never unknown. Each change adds an entry to the workspace's audit log.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_workspace_policy(member_id uuid, workspace uuid, changes jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  before jsonb;
  after jsonb;
  app jsonb;
  listed text[];
  param text;
  unknown text[];
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_policy') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  perform ai.lock_policy(workspace);
  before := ai.workspace_policy_summary(workspace);
  if changes ? 'readAt'
    and (changes ->> 'readAt')::timestamptz is distinct from (before ->> 'updatedAt')::timestamptz then
    return jsonb_build_object('outcome', 'changed_meanwhile', 'policy', before);
  end if;
  -- Names already in the policy stay, even if their model has left the catalogue.
  listed := coalesce(ai.text_list(before -> 'allowedModels'), '{}') || ai.text_list(before -> 'deniedModels')
    || ai.limited_models(before -> 'modelLimits');
  foreach param in array array['allowedModels', 'deniedModels', 'modelLimits'] loop
    unknown := ai.unknown_models(array(
      select n.name
      from unnest(
        case param when 'modelLimits' then ai.limited_models(changes -> param) else ai.text_list(changes -> param) end
      ) with ordinality as n (name, place)
      where n.name <> all (listed)
      order by n.place
    ));
    if unknown is not null then
      return jsonb_build_object('outcome', 'unknown_models', 'param', param, 'models', unknown);
    end if;
  end loop;
  for app in select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) loop
    if app ->> 'monthlyBudgetUsd' is not null and not ai.app_can_act_in_workspace((app ->> 'appId')::uuid, workspace) then
      return jsonb_build_object('outcome', 'app_not_linked');
    end if;
  end loop;

  insert into ai.workspace_policies (workspace_id) values (workspace) on conflict (workspace_id) do nothing;
  update ai.workspace_policies p
  set
    allowed_models = case
      when changes ? 'allowedModels' then ai.text_list(changes -> 'allowedModels') else p.allowed_models
    end,
    denied_models = coalesce(ai.text_list(changes -> 'deniedModels'), p.denied_models),
    allowed_regions = case
      when changes ? 'allowedRegions' then ai.text_list(changes -> 'allowedRegions') else p.allowed_regions
    end,
    requests_per_minute = case
      when changes ? 'requestsPerMinute' then (changes ->> 'requestsPerMinute')::integer else p.requests_per_minute
    end,
    tokens_per_minute = case
      when changes ? 'tokensPerMinute' then (changes ->> 'tokensPerMinute')::bigint else p.tokens_per_minute
    end,
    model_limits = case when changes ? 'modelLimits' then ai.model_limits(changes -> 'modelLimits') else p.model_limits end,
    provider_cost_visible = coalesce((changes ->> 'providerCostVisible')::boolean, p.provider_cost_visible),
    content_capture = coalesce((changes ->> 'contentCapture')::boolean, p.content_capture),
    content_retention_days = coalesce((changes ->> 'contentRetentionDays')::integer, p.content_retention_days),
    updated_at = now(),
    updated_by = member_id
  where p.workspace_id = workspace;
  -- Locks apps before the workspace, which is the common lock order.
  for app in
    select value from jsonb_array_elements(coalesce(changes -> 'appBudgets', '[]')) order by value ->> 'appId'
  loop
    perform ai.set_budget('app', (app ->> 'appId')::uuid, workspace, (app ->> 'monthlyBudgetUsd')::numeric);
  end loop;
  if changes ? 'monthlyBudgetUsd' then
    perform ai.set_budget('workspace', workspace, workspace, (changes ->> 'monthlyBudgetUsd')::numeric);
  end if;

  after := ai.workspace_policy_summary(workspace);
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'ai_policy.changed', null, 'the AI policy', jsonb_build_object('before', before, 'after', after)
  );
  return jsonb_build_object('outcome', 'changed', 'policy', after);
end
$$;

-- Returns a workspace's policy as its members see it, or the defaults if the workspace has not set a policy.
create or replace function ai.workspace_policy_summary(workspace uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'allowedModels', to_jsonb(p.allowed_models),
    'deniedModels', coalesce(to_jsonb(p.denied_models), '[]'),
    'allowedRegions', to_jsonb(p.allowed_regions),
    'requestsPerMinute', p.requests_per_minute,
    'tokensPerMinute', p.tokens_per_minute,
    'modelLimits', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('model', l.key, 'requestsPerMinute', l.value -> 'requests', 'tokensPerMinute', l.value -> 'tokens')
          order by l.key
        ),
        '[]'
      )
      from jsonb_each(p.model_limits) as l
    ),
    'providerCostVisible', coalesce(p.provider_cost_visible, true),
    'contentCapture', coalesce(p.content_capture, false),
    'contentRetentionDays', coalesce(p.content_retention_days, 30),
    'budget', (
      select ai.budget_summary(b, ai.cost_visible(w.id)) from ai.budgets b
      where b.scope = 'workspace' and b.subject_id = w.id and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
    ),
    'appBudgets', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('appId', a.id, 'app', a.display_name) || ai.budget_summary(b, ai.cost_visible(w.id))
          order by a.display_name, a.id
        ),
        '[]'
      )
      from ai.budgets b
      join private.apps a on a.id = b.subject_id
      where b.scope = 'app' and b.workspace_id = w.id and b.period = 'month'
        and b.limit_usd is not null
    ),
    'updatedAt', p.updated_at,
    'updatedBy', (select u.display_name from public.profiles u where u.id = p.updated_by)
  )
  from (select workspace as id) w
  left join ai.workspace_policies p on p.workspace_id = w.id
$$;

-- Returns limits of models, such as [{"model": "gpt-5", "requestsPerMinute": 10, "tokensPerMinute": null}], as a policy
-- stores them, or null if there are none.
create or replace function ai.model_limits(limits jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select jsonb_object_agg(l ->> 'model', jsonb_strip_nulls(jsonb_build_object(
    'requests', l -> 'requestsPerMinute', 'tokens', l -> 'tokensPerMinute'
  )))
  from jsonb_array_elements(limits) as l
$$;

-- Returns the models of a list of limits, in their order.
create or replace function ai.limited_models(limits jsonb) returns text[]
  language sql immutable security invoker set search_path = ''
as $$
  select array(select l.value ->> 'model' from jsonb_array_elements(limits) with ordinality as l order by l.ordinality)
$$;

-- Gives a person who joins, or whose role changes, the monthly budget of the new role. A monthly budget that the
-- person already has in the workspace stays as it is.
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
  where b.scope = 'member' and b.subject_id = new.user_id and b.workspace_id = new.workspace_id and b.period = 'month'
    and b.limit_usd is not null;
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

-- Returns the budgets that count a run, in the order in which the run lists them, with their current limits. limitUsd is
-- null if provider cost is hidden, and for budgets that were removed since.
create or replace function ai.run_budgets(run ai.runs, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'scope', e.scope,
    'period', e.period,
    'subjectId', s.id,
    'name', case e.scope when 'label' then (run).entity_id else ai.budget_name(e.scope, s.id, (run).workspace_id) end,
    'isSet', num_nonnulls(b.limit_usd, b.max_calls) > 0,
    'limitUsd', case when cost_visible then trim_scale(b.limit_usd)::text end,
    'maxCalls', b.max_calls
  ) order by t.position), '[]')
  from unnest((run).budget_scopes) with ordinality as t (entry, position)
  cross join lateral (select split_part(t.entry, '/', 1) as scope, ai.entry_period(t.entry) as period) as e
  cross join lateral (
    select ai.budget_subject(
      e.scope, (run).workspace_id, (run).key_lineage_id, (run).app_id, (run).actor_id, (run).entity_id, (run).envelope_id
    ) as id
  ) as s
  left join ai.budgets b
    on b.scope = e.scope and b.subject_id = s.id and b.workspace_id = (run).workspace_id and b.period = e.period
$$;

-- Returns the providers that have a route or a limit, each with its limits, what is left in their buckets now and the
-- buckets' sizes. Every change of the limits changes the version.
create or replace function private.list_provider_limits(only_id text default null) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'provider', p.provider_id,
    'requestsPerMinute', l.requests_per_minute,
    'tokensPerMinute', l.tokens_per_minute,
    'requests', case when l.requests_per_minute is not null then jsonb_build_object(
      'size', ai.bucket_size(l.requests_per_minute), 'left', ai.bucket_level(l.requests_full_at, l.requests_per_minute)
    ) end,
    'tokens', case when l.tokens_per_minute is not null then jsonb_build_object(
      'size', ai.bucket_size(l.tokens_per_minute), 'left', ai.bucket_level(l.tokens_full_at, l.tokens_per_minute)
    ) end,
    'version', private.provider_limit_version(l)
  ) order by p.provider_id), '[]')
  from (
    select r.provider_id from ai.model_routes r where only_id is null or r.provider_id = only_id
    union
    select o.provider_id from ai.provider_limits o where only_id is null or o.provider_id = only_id
  ) as p
  left join ai.provider_limits l using (provider_id)
$$;

-- Returns the budgets that can refuse a caller's calls, narrowest and shortest first. Leaves out the amounts if the
-- workspace hides provider cost. resetsAt is null if the budget never resets.
create or replace function ai.remaining_budgets(caller ai.caller, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'window', b.period,
        'timeZone', b.time_zone,
        'limitUsd', trim_scale(b.limit_usd),
        'spentUsd', case when cost_visible then trim_scale(b.spent_usd) end,
        'reservedUsd', case when cost_visible then trim_scale(b.reserved_usd) end,
        'remainingUsd', case when cost_visible then
          trim_scale(greatest(b.limit_usd - b.spent_usd - b.reserved_usd, 0))
        end,
        'resetsAt', ai.utc_text(nullif(b.ends_at, 'infinity'))
      )
      order by array_position(array['key', 'app', 'member', 'label', 'workspace'], b.scope),
        array_position(array['day', 'week', 'month', 'total'], b.period)
    ),
    '[]'
  )
  from ai.caller_budgets(caller) as b
  where b.limit_usd is not null
$$;

-- Returns the limits of concurrent calls that can refuse a caller's calls, narrowest first, and the calls in progress.
create or replace function ai.remaining_concurrent_calls(caller ai.caller) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    jsonb_agg(
      jsonb_build_object(
        'scope', b.scope,
        'limit', b.max_calls,
        'remaining', greatest(b.max_calls - b.calls, 0)
      )
      order by array_position(array['key', 'member', 'workspace'], b.scope)
    ),
    '[]'
  )
  from ai.caller_budgets(caller) as b
  where b.period = 'concurrent' and b.max_calls is not null
$$;

-- Returns the reason why a call is refused before its limits are checked, or null.
create or replace function ai.price_refusal(
  request ai.run_request, caller ai.caller, model ai.models, routes jsonb, cost_usd numeric, audio_tokens bigint,
  input_tokens bigint, tokens bigint, model_tokens_per_minute bigint
) returns jsonb
  language sql stable security invoker
as $$
  select coalesce(
    ai.call_refusal(caller, (request).kind),
    case
      when (caller).plan_id is null then ai.refusal('service_unavailable')
      when (request).entity_id <> (caller).entity_id then ai.refusal('invalid_request', '{"param": "X-Platform-Entity-Id"}')
      when (model).id is null then ai.refusal('model_not_found')
      when not coalesce((request).voice = any ((model).voices), (request).voice is null)
        then ai.refusal('invalid_request', '{"param": "voice"}')
      when (request).kind = 'chat' and (request).output_limit > (model).output_limit
        and (request).output_limit_assumed is not true
        then ai.refusal('invalid_request', jsonb_build_object('model_output_limit', (model).output_limit))
      when routes is null then ai.route_refusal((model).id, request, (caller).allowed_regions)
      when (audio_tokens > 0 or (request).audio) and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.audio_input))')
        then ai.refusal('unsupported_parameter', '{"param": "messages"}')
      when (request).fee_requests > 0 and jsonb_path_exists(routes, '$[*].prices[*] ? (!exists (@.request_fee))')
        then ai.refusal('unsupported_parameter', '{"param": "tools"}')
      when not ai.is_tier_priced(routes, (request).service_tier)
        then ai.refusal('unsupported_parameter', '{"param": "service_tier"}')
      when cost_usd is null then ai.refusal('service_unavailable')
      when tokens > least((caller).key_tokens_per_minute, model_tokens_per_minute, (caller).workspace_tokens_per_minute)
        then ai.token_limit_refusal(caller, model_tokens_per_minute, input_tokens, tokens)
    end
  )
$$;

-- Queues one email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so
-- that concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or
-- the crossing no longer applies.
-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_budget_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.budget_alerts a
    set posted_at = now()
    where a.scope = alert ->> 'scope'
      and a.subject_id = (alert ->> 'subjectId')::uuid
      and a.workspace_id = (alert ->> 'workspaceId')::uuid
      -- Until 0.5.0: alerts that a server of 0.3.0 read before the upgrade have no period.
      and a.period = coalesce(alert ->> 'period', 'month')
      and a.month = (alert ->> 'month')::date
      and a.threshold = (alert ->> 'threshold')::smallint
      and a.limit_usd = (alert ->> 'limitUsd')::numeric
      and a.posted_at is null
    returning a.scope, a.subject_id, a.workspace_id
  ), queued as (
    -- Makes the email due immediately. By default, an email becomes due after a minute.
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_budget_alert_mails.subject, queue_budget_alert_mails.body, now()
    from marked p
    cross join lateral ai.alert_recipients(p.scope, p.subject_id, p.workspace_id) as r (email)
    returning id
  )
  select count(*)::integer from queued
$$;

-- Returns the highest of a budget's thresholds, in percent, that its spend has reached, or 0. Percentages are not
-- rounded. A budget that refuses calls also counts as 100 percent, even if a remainder too small for another call is
-- left. An envelope has only the threshold of 100 percent, which it reaches when it has refused a call.
create or replace function ai.budget_threshold(budget ai.budgets) returns smallint
  language sql stable security invoker
as $$
  select case
    when budget.scope = 'envelope' then case when ai.envelope_refuses_calls(budget) then 100 else 0 end
    else (
      select coalesce(max(t.threshold), 0)
      from unnest(budget.thresholds) as t (threshold)
      where budget.spent_usd * 100 >= budget.limit_usd * t.threshold
        or t.threshold = 100 and ai.budget_refuses_calls(budget)
    )
  end::smallint
$$;

-- Returns the name of the key whose calls an envelope holds, or of the person.
create or replace function ai.envelope_owner_name(envelope uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when e.key_lineage_id is null then (select p.display_name from public.profiles p where p.id = e.actor_id)
    else ai.latest_key_name(e.key_lineage_id, e.workspace_id)
  end
  from ai.envelopes e
  where e.id = envelope
$$;

-- Returns an envelope's name for lists and the activity: its label, else the name of the key or person.
create or replace function ai.envelope_name(envelope ai.envelopes) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(nullif((envelope).label, ''), ai.principal_of_envelope(envelope) ->> 'name')
$$;

-- Returns the details of a run: { run, modelKind, steps, attempts, ledger, answeredBy, envelopeId, budgets }. run is the
-- summary. modelKind is null if the model is no longer in the catalogue. attempts are the
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
    end,
    'envelopeId', (run).envelope_id,
    'budgets', ai.run_budgets(run, cost_visible)
  )
$$;

-- Returns { models, failing, health, skipped, limits, usage } for the page about providers. models is the page after the given
-- model, and usage covers the days.
create or replace function private.read_providers_page(after text[], page_size integer, first_day date, last_day date)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'models', private.list_provider_routes(after, page_size),
    'failing', private.list_failing_models(),
    'health', private.list_provider_health(),
    'skipped', private.list_skipped_routes(),
    'limits', private.list_provider_limits(),
    'usage', private.list_provider_usage(first_day, last_day)
  )
$$;

-- Returns the name of the key, app, member, label or workspace that a budget limits. An envelope has the name of its
-- label, or else of its owner.
create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case scope
    when 'key' then ai.latest_key_name(subject, workspace)
    when 'app' then ai.app_label(subject)
    when 'envelope' then coalesce(
      (select nullif(e.label, '') from ai.envelopes e where e.id = subject), ai.envelope_owner_name(subject)
    )
    when 'member' then (select p.display_name from public.profiles p where p.id = subject)
    when 'label' then (
      select b.label from ai.budgets b
      where b.scope = 'label' and b.subject_id = subject and b.workspace_id = workspace
      limit 1
    )
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;

grant execute on function ai.bucket_level(timestamp with time zone, bigint) to service_role;

grant execute on function ai.bucket_size(bigint) to service_role;

grant execute on function ai.change_budget(uuid, uuid, text, uuid, text, text, text, text, text, smallint[], bigint, text, smallint[], bigint) to service_role;

grant execute on function ai.change_envelope(uuid, uuid, uuid, jsonb, text, boolean) to service_role;

grant execute on function ai.list_envelopes(uuid, uuid, text[], jsonb, integer, boolean) to service_role;

grant execute on function ai.microseconds_until(timestamp with time zone, timestamp with time zone) to service_role;

grant execute on function ai.open_envelope_for_member(uuid, uuid, uuid, text, jsonb) to service_role;

grant execute on function ai.read_budgets(uuid, uuid, text[], integer, text[], boolean) to service_role;

grant execute on function ai.read_envelope(uuid, uuid, uuid) to service_role;

grant execute on function ai.read_envelopes(jsonb) to gateway;

grant execute on function ai.read_envelopes_page(uuid, uuid, text[], jsonb, jsonb, integer, boolean) to service_role;

grant execute on function ai.read_own_envelope(jsonb) to gateway;

grant execute on function ai.read_workspace_home(uuid, uuid, timestamp with time zone, timestamp with time zone, timestamp with time zone, timestamp with time zone, integer, integer, integer, text[], boolean) to service_role;

grant execute on function ai.sweep_budget_alerts(integer, boolean) to service_role;

grant execute on function ai.take_provider_calls(jsonb) to gateway;

grant execute on function private.connect_agent(bytea, uuid, text, text, jsonb, jsonb) to service_role;

grant execute on function private.list_provider_limits(text) to service_role;

grant execute on function private.provider_limit_version(ai.provider_limits) to service_role;

grant execute on function private.save_provider_limit(jsonb) to service_role;

notify pgrst, 'reload schema';
