-- GET /v1/key: what a credential is, what holds for it, what it has spent and what is left. It decides nothing and
-- holds nothing; the limits are read where ai.begin_run counts them.

create function ai.utc_text(moment timestamptz) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;
comment on function ai.utc_text(timestamptz) is 'A moment as the gateway writes it: RFC 3339, UTC, milliseconds.';
revoke execute on function ai.utc_text(timestamptz) from public, anon, authenticated;

create function ai.minute_left(scope text, subject uuid, request_limit integer, token_limit bigint) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'scope', minute_left.scope,
    'requestsPerMinute', request_limit,
    -- greatest() takes no notice of nulls.
    'remainingRequests', case when request_limit is not null then greatest(request_limit - coalesce(w.requests, 0), 0) end,
    'tokensPerMinute', token_limit,
    'remainingTokens', case when token_limit is not null then greatest(token_limit - coalesce(w.tokens, 0), 0) end,
    'resetSeconds', greatest(ceil(extract(epoch from date_trunc('minute', now()) + interval '1 minute' - now())), 1)
  )
  from (select date_trunc('minute', now()) as minute) as m
  left join ai.rate_windows w
    on w.scope = minute_left.scope and w.subject_id = subject and w.window_start >= m.minute
  where request_limit is not null or token_limit is not null
$$;
comment on function ai.minute_left(text, uuid, integer, bigint) is
  'What ai.take_rate would still admit in this minute; null where there is no limit.';
revoke execute on function ai.minute_left(text, uuid, integer, bigint) from public, anon, authenticated;

create function ai.budgets_left(caller ai.caller, cost_visible boolean) returns jsonb
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
      order by case b.scope when 'key' then 1 when 'app' then 2 else 3 end
    ),
    '[]'
  )
  from (select date_trunc('month', now() at time zone 'UTC') as month) as m
  join ai.budgets b
    on b.workspace_id = (caller).workspace_id
    and b.limit_usd is not null
    and b.scope = any ((caller).budgets)
    and b.subject_id = ai.budget_subject(b.scope, (caller).lineage_id, (caller).app_id, (caller).workspace_id)
  cross join lateral (select case when b.period_start < m.month then 0 else b.spent_usd end as spent) as x
$$;
comment on function ai.budgets_left(ai.caller, boolean) is
  'The monthly budgets that hold for a caller, narrowest first. Where the workspace hides what providers charge, what was '
  'spent and what is left would tell it.';
revoke execute on function ai.budgets_left(ai.caller, boolean) from public, anon, authenticated;

-- Definer: as begin_run.
create function ai.describe_credential(call jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller;
  exempt boolean;
  cost_visible boolean;
begin
  caller := ai.credential_of(call);
  if caller.source is null then
    return ai.refusal('invalid_api_key');
  end if;
  if caller.refused is not null then
    return ai.refusal(caller.refused);
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
        'allowedAddresses', k.allowed_addresses
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
        ai.minute_left('key', caller.lineage_id, caller.key_requests_per_minute, caller.key_tokens_per_minute),
        ai.minute_left(
          'workspace', caller.workspace_id,
          caller.workspace_requests_per_minute,
          caller.workspace_tokens_per_minute
        )
      )) as l
      where l.value <> 'null'
    ),
    'budgets', ai.budgets_left(caller, cost_visible),
    'spent', ai.spent_this_month(caller, cost_visible),
    -- What an app's calls do not pay of is no business of theirs, and a key's holder need not be the member who pays.
    'credits', (
      select jsonb_build_object(
        'payer', caller.payer,
        'remaining', trim_scale(coalesce(
          (
            select a.balance - a.reserved from ai.credit_accounts a
            where case caller.payer
              when 'workspace' then a.workspace_id = caller.workspace_id
              else a.user_id = caller.actor_id
            end
          ),
          caller.initial_credits
        ))
      )
      where not exempt and (caller.payer = 'workspace' or caller.source = 'session')
    )
  );
end
$$;
comment on function ai.describe_credential(jsonb) is
  'What a credential is, its limits, budgets, what its calls of this month cost and what is left; or {refused: code}. '
  'Never its text, of which only a hash is kept.';
revoke execute on function ai.describe_credential(jsonb) from public, anon, authenticated;
grant execute on function ai.describe_credential(jsonb) to gateway;
