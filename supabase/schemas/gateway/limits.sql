-- Locks rate windows, budgets and balances for calls, and reserves amounts in them.

-- Locks the rows that admissions, extensions and settlements change. All of them use this order: idempotency keys,
-- keys, rate windows, budgets, balances. Rows of one kind are sorted, so budgets of apps are locked before budgets of
-- keys, labels, members and workspaces. Callers of this function first lock runs and open new accounts.
create or replace function ai.lock_rows(locks ai.lock_list) returns void
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
    perform from ai.budgets b
    where (b.scope, b.subject_id, b.workspace_id) in (
      select s.scope, s.subject_id, s.workspace_id from unnest(locks.budgets) as s
    )
    order by b.scope, b.subject_id, b.workspace_id
    for no key update;
  end if;
  if locks.accounts is not null then
    perform from ai.credit_accounts a where a.id = any (locks.accounts) order by a.id for no key update;
  end if;
end
$$;

-- Returns the rows that the calls must lock. A refused call locks no rows.
create or replace function ai.collect_locks(calls ai.priced_call[]) returns ai.lock_list
  language plpgsql stable security invoker
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

-- Counts a request and its reserved tokens in a rate window, unless that would exceed a limit. The caller has locked
-- the window and made it current with ai.lock_rows. Extending a run's reservation adds tokens but does not count as
-- another request.
create or replace function ai.consume_rate_limit(
  scope text, subject uuid, request_limit integer, token_limit bigint, tokens bigint, requests integer default 1
) returns ai.rate_window_use
  language plpgsql volatile security invoker
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

-- Removes a call's tokens from a rate window if another limit then refuses the call. The request stays counted.
create or replace function ai.return_tokens(scope text, subject uuid, counted ai.rate_window_use, tokens bigint) returns void
  language plpgsql volatile security invoker
as $$
begin
  if counted.admitted and tokens <> 0 then
    update ai.rate_windows w set tokens = greatest(w.tokens - return_tokens.tokens, 0)
    where w.scope = return_tokens.scope and w.subject_id = subject and w.window_start = counted.started_at;
  end if;
end
$$;

-- Returns the tokens that a call adds to its rate windows until it is settled: its maximum input plus its output limit.
-- Without a stated output limit, the output is at most 500 tokens per choice and no more than fits in the token limit.
create or replace function ai.reserved_tokens(request ai.run_request, most ai.token_use, token_limit bigint) returns bigint
  language sql immutable security invoker parallel safe
as $$
  select case
    when not coalesce((request).output_limit_assumed, false) then u.input + (most).output
    else greatest(
      u.input, least(u.input + least((request).output_limit, 500) * coalesce((request).choices, 1), token_limit)
    )
  end
  from (select (most).text + (most).image + (most).audio as input) as u
$$;

-- Returns the refusal of a call whose token count exceeds the per-minute limit of its key or workspace. The call would
-- not fit in any later minute either.
create or replace function ai.token_limit_refusal(caller ai.caller, most ai.token_use, tokens bigint) returns jsonb
  language sql immutable security invoker parallel safe
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

-- Returns the limits of a call as JSON text: {"minute", "counts"}. minute is the start of the rate window. counts is a
-- flat list of four pairs, each a limit and a count: the key's requests, the key's tokens, the workspace's requests and
-- the workspace's tokens. A limit is null if there is none.
create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[]) returns text
  language sql stable security invoker parallel safe
as $$
  select format('{"minute":%s,"counts":%s}', coalesce(to_json(minute), 'null'), array_to_json(counts))
$$;

-- Reserves a provider call in the budgets, the workspace's rate window and the balance. If one of them has no room,
-- returns the reason in refused and reserves nothing. The caller has locked the rows.
create or replace function ai.reserve_limits(
  caller ai.caller, label text, tokens bigint, requests integer, amount_usd numeric, account uuid, credits numeric
) returns ai.reservation
  language plpgsql volatile security invoker
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
      -- Enforces a label's budget only if the key sets the label. A label that the caller sends never causes a refusal.
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
      -- At most one refusal per minute is written.
      update ai.credit_accounts a set refused_at = now()
      where a.id = account and (a.refused_at is null or a.refused_at < now() - interval '1 minute');
    end if;
  end if;
  if held.refused in ('budget_exceeded', 'insufficient_credits') then
    held.frees := ai.fits_when_settled(caller, label, amount_usd, account, credits);
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

-- Returns whether the budgets and the balance had room for a call if no other call reserved anything. If so, the call
-- may be admitted as soon as running calls are settled. In the last minute of a month, budgets count as unspent.
create or replace function ai.fits_when_settled(
  caller ai.caller, label text, amount_usd numeric, account uuid, credits numeric
) returns boolean
  language sql stable security invoker
as $$
  select not exists (
    select
    from unnest((caller).budgets) as s (scope)
    join ai.budgets b
      on b.scope = s.scope
      and b.workspace_id = (caller).workspace_id
      and b.subject_id = ai.budget_subject(
        s.scope, (caller).workspace_id, (caller).lineage_id, (caller).app_id, (caller).actor_id, label
      )
    where (s.scope <> 'label' or (caller).entity_id is not null)
      and (
        b.limit_usd = 0
        or amount_usd + case
          when b.period_start < date_trunc('month', (now() + interval '1 minute') at time zone 'UTC')::date then 0
          else b.spent_usd
        end > b.limit_usd
      )
  ) and coalesce((select a.balance >= credits from ai.credit_accounts a where a.id = account), coalesce(credits, 0) = 0)
$$;

-- Reserves an amount in a monthly budget and returns true. Returns false if the budget is enforced and its limit is 0
-- or would be exceeded. Stores the time of the month's first refusal, and of later refusals at most once a minute.
create or replace function ai.reserve_budget(
  scope text, subject uuid, workspace uuid, amount_usd numeric, enforced boolean
) returns boolean
  language plpgsql volatile security invoker
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
      -- A budget of 0 refuses free calls too.
      or b.limit_usd > 0
        and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
    );
  if found then
    return true;
  end if;
  -- Only the first of many concurrent refusals writes its time.
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

-- Returns a caller's limits and current counts in the format of ai.rate_limit_headers.
create or replace function ai.call_limits(caller ai.caller, key_window ai.rate_window_use, workspace_window ai.rate_window_use)
  returns text
  language sql stable security invoker
as $$
  select ai.rate_limit_headers(coalesce((key_window).started_at, (workspace_window).started_at), array[
    (caller).key_requests_per_minute, (key_window).requests,
    (caller).key_tokens_per_minute, (key_window).tokens,
    (caller).workspace_requests_per_minute, (workspace_window).requests,
    (caller).workspace_tokens_per_minute, (workspace_window).tokens
  ])
$$;

-- Returns the counts of a rate window, or nulls if there is none. The caller has locked the window.
create or replace function ai.current_window(scope text, subject uuid) returns ai.rate_window_use
  language sql stable security invoker
as $$
  select null::boolean, w.window_start, w.requests::bigint, w.tokens
  from ai.rate_windows w
  where w.scope = current_window.scope and w.subject_id = subject
$$;

-- Creates the refusal of a call for which a budget, the balance or the workspace's rate window had no room. It has
-- `frees` if the call may fit once running calls are settled.
create or replace function ai.reservation_refusal(held ai.reservation, caller ai.caller) returns jsonb
  language sql stable security invoker
as $$
  select ai.limit_refusal((held).refused, caller) || case when (held).frees then jsonb '{"frees": true}' else '{}' end
$$;

-- Creates the refusal of a call that exceeds a rate limit, a budget or the balance. The refusal includes all rate
-- limits of the caller and their current counts.
create or replace function ai.limit_refusal(code text, caller ai.caller) returns jsonb
  language plpgsql stable security invoker
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
