-- Answers GET /v1/key with the limits and budgets of a credential, and what remains of each.

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

-- Returns what ai.consume_rate_limit would still admit in the current rate window, or null if neither requests nor
-- tokens are limited.
create or replace function ai.remaining_rate(scope text, subject uuid, request_limit integer, token_limit bigint) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'scope', remaining_rate.scope,
    'requestsPerMinute', request_limit,
    -- greatest(null, 0) is 0, so a missing limit needs its own case.
    'remainingRequests', case when request_limit is not null then greatest(request_limit - coalesce(w.requests, 0), 0) end,
    'tokensPerMinute', token_limit,
    'remainingTokens', case when token_limit is not null then greatest(token_limit - coalesce(w.tokens, 0), 0) end,
    'resetSeconds', greatest(ceil(extract(epoch from date_trunc('minute', now()) + interval '1 minute' - now())), 1)
  )
  from (select date_trunc('minute', now()) as minute) as m
  left join ai.rate_windows w
    on w.scope = remaining_rate.scope and w.subject_id = subject and w.window_start >= m.minute
  where request_limit is not null or token_limit is not null
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

-- Returns the cost of a caller's runs in the current UTC month: of a key's lineage (all keys rotated from one another),
-- or of a person's own calls, or of a person's calls through an app. Includes open runs. A run counts in the month in
-- which it began.
create or replace function ai.cost_this_month(caller ai.caller, cost_visible boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'since', ai.utc_text(m.month),
    'requests', coalesce(sum(u.requests), 0),
    'costUsd', case when cost_visible then trim_scale(coalesce(sum(u.cost_usd), 0)) end,
    'billedCredits', trim_scale(coalesce(sum(u.billed_credits), 0)),
    'unmeteredCredits', trim_scale(coalesce(sum(u.unmetered_credits), 0))
  )
  from (select date_trunc('month', now(), 'UTC') as month) m
  left join lateral ai.usage_between((caller).workspace_id, m.month, 'infinity', (caller).source <> 'key') u on
    case
      when (caller).source = 'key' then u.key_lineage_id = (caller).lineage_id
      -- Only runs of keys have a lineage.
      else u.key_lineage_id is null and u.actor_id = (caller).actor_id and u.app_id is not distinct from (caller).app_id
    end
  group by m.month
$$;
