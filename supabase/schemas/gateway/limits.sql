-- Locks rate windows, budgets and balances for calls, and reserves amounts in them.

-- Locks the rows that admissions, extensions and settlements change. All of them use this order: idempotency keys,
-- keys, rate windows, budgets, balances. Rows of one kind are sorted, so budgets of apps are locked before budgets of
-- keys, labels, members and workspaces. Callers of this function first lock runs and open new accounts. Returns the
-- locked budgets and balances. Rate windows can be read by the next statement.
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
      order by b.scope, b.subject_id, b.workspace_id
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
  scope text;
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
    if num_nonnulls((claim.caller).workspace_requests_per_minute, (claim.caller).workspace_tokens_per_minute) > 0 then
      locks.rate_windows := locks.rate_windows || row('workspace', (claim.caller).workspace_id, null)::ai.limit_subject;
    end if;
    if claim.budget_scopes is not null then
      foreach scope in array claim.budget_scopes loop
        locks.budgets := locks.budgets || ai.claimed_budget(claim, scope);
      end loop;
    end if;
    if claim.account_id is not null then
      locks.accounts := locks.accounts || claim.account_id;
    end if;
  end loop;
  return locks;
end
$$;

-- Returns the key of a call's budget of the given scope. A label that a session sets has no budget.
create or replace function ai.claimed_budget(claim ai.claim, scope text) returns ai.limit_subject
  language sql immutable security invoker
as $$
  select row(
    scope,
    ai.budget_subject(
      scope, ((claim).caller).workspace_id, ((claim).caller).lineage_id, ((claim).caller).app_id,
      ((claim).caller).actor_id, coalesce(((claim).caller).entity_id, ((claim).request).entity_id)
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

-- Returns whether a rate window has room for a call. Extending a run's reservation adds tokens but no request.
create or replace function ai.fits_window(
  counted ai.rate_windows, requests integer, tokens bigint, request_limit integer, token_limit bigint
) returns boolean
  language sql immutable security invoker
as $$
  select coalesce(
    (request_limit is null or requests = 0 or (counted).requests + requests <= request_limit)
    and (token_limit is null or (counted).tokens + tokens <= token_limit)
    and (counted).subject_id is not null,
    false
  )
$$;

-- Returns whether a call fits a budget. A budget of 0 refuses free calls too. Enforces a label's budget only if the key
-- sets the label. A label that the caller sends never causes a refusal.
create or replace function ai.fits_budget(claim ai.claim, budget ai.budgets, month date) returns boolean
  language sql immutable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or (budget).limit_usd is null
    or (budget).limit_usd > 0
      and (budget).reserved_usd + (claim).cost_usd + ai.spent_since(budget, month) <= (budget).limit_usd,
    false
  )
$$;

-- Returns whether a call would fit a budget in which no call reserves anything. In the last minute of a month, budgets
-- count as unspent.
create or replace function ai.fits_when_settled(claim ai.claim, budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select coalesce(
    (budget).scope = 'label' and ((claim).caller).entity_id is null
    or (budget).limit_usd > 0 and (claim).cost_usd + ai.spent_since(
      budget, date_trunc('month', (now() + interval '1 minute') at time zone 'UTC')::date
    ) <= (budget).limit_usd,
    true
  )
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

-- Returns what was spent of a budget since the start of the given month, which is the current month.
create or replace function ai.spent_since(budget ai.budgets, month date) returns numeric
  language sql immutable security invoker
as $$
  select case when (budget).period_start < month then 0 else (budget).spent_usd end
$$;

-- Returns the tokens that a call adds to its rate windows until it is settled: its maximum input plus its output limit.
-- Without a stated output limit, the output is at most 500 tokens per choice and no more than fits in the token limit.
create or replace function ai.reserved_tokens(
  input_tokens bigint, output_limit bigint, choices bigint, output_limit_assumed boolean, token_limit bigint
) returns bigint
  language sql immutable security invoker parallel safe
as $$
  select case
    when output_limit_assumed is not true then input_tokens + output_limit * coalesce(choices, 1)
    else greatest(input_tokens, least(input_tokens + least(output_limit, 500) * coalesce(choices, 1), token_limit))
  end
$$;

-- Returns the refusal of a call whose token count exceeds the per-minute limit of its key or workspace. The call would
-- not fit in any later minute either.
create or replace function ai.token_limit_refusal(caller ai.caller, input_tokens bigint, tokens bigint) returns jsonb
  language sql stable security invoker parallel safe
as $$
  select ai.refusal('invalid_request', jsonb_build_object('token_limit', jsonb_build_object(
    'scope', case
      when (caller).key_tokens_per_minute <= (caller).workspace_tokens_per_minute
        or (caller).workspace_tokens_per_minute is null then 'key'
      else 'workspace'
    end,
    'limit', least((caller).key_tokens_per_minute, (caller).workspace_tokens_per_minute),
    'input', input_tokens,
    'counted', tokens
  )))
$$;

-- Returns the limits of a call as JSON text: {"minute", "counts"}. minute is the start of the rate window. counts is a
-- flat list of four pairs, each a limit and a count: the key's requests, the key's tokens, the workspace's requests and
-- the workspace's tokens. A limit is null if there is none.
create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[]) returns text
  language sql stable security invoker parallel safe
as $$
  select format('{"minute":%s,"counts":%s}', coalesce(to_json(minute), 'null'), array_to_json(counts))
$$;

-- Returns the refusal of a call whose idempotency key was already used. The refused call never reaches a provider and
-- costs nothing. The refusal includes the first call's answer if it was stored.
create or replace function ai.idempotent_refusal(earlier ai.idempotency_keys, fingerprint bytea) returns jsonb
  language sql stable security invoker
as $$
  select case
    when earlier.fingerprint <> fingerprint then ai.refusal('idempotency_key_reused')
    when earlier.state = 'running' then ai.refusal('request_in_progress')
    else ai.refusal('idempotency_key_used', (
      select jsonb_build_object(
        'run_id', r.id,
        'usage_source', r.usage_source,
        'usage', jsonb_build_object('input_tokens', r.input_tokens, 'output_tokens', r.output_tokens)
      ) || case when c.answer is null then '{}' else jsonb_build_object('answer', c.answer) end
      from ai.runs r
      left join ai.run_content c on c.run_created_at = r.created_at and c.run_id = r.id
      where r.created_at = earlier.run_created_at and r.id = earlier.run_id
    ))
  end
$$;
