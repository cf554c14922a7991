-- Locks rate windows, budgets and balances for calls, and reserves amounts in them.

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
  room jsonb;
  full_budget integer;
  entry text;
  earlier ai.idempotency_keys;
  tokens bigint;
  refused_by text;
  frees boolean;
  room_usd numeric;
  reserves_expected boolean := false;
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
    reserves_expected := reserves_expected or budget.reserves_expected;
    budget_subjects[place] := budget.subject_id;
    budget_entries[place] := ai.budget_entry(budget.scope, budget.period);
  end loop;
  for place in 1..coalesce(cardinality(accounts), 0) loop
    account_ids[place] := accounts[place].id;
  end loop;
  if reserves_expected then
    claims := ai.expect_outputs(claims);
  end if;

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
          budget.reserved_usd := budget.reserved_usd + ai.budget_need(claim, budget);
          if budget.reserves_expected and claim.expected_usd is not null then
            claim.expected_scopes := claim.expected_scopes || budget_entries[of_budget];
          end if;
        end if;
        if budget.period = 'concurrent' or of_budget = of_envelope then
          budget.calls := budget.calls + claim.requests;
        end if;
        budgets[of_budget] := budget;
      end loop;
      if of_envelope is not null then
        room := ai.envelope_room(budgets[of_envelope], ai.payer_id(claim.caller) is null or (claim.caller).cost_visible);
        -- The gateway computes with what is left, so it is an exact decimal in text.
        claim.envelope := claim.envelope || room
          || jsonb_strip_nulls(jsonb_build_object('remaining_usd', room ->> 'remaining_usd'));
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
            and budgets[full_budget].reserved_usd + ai.budget_need(claim, budgets[full_budget])
              + budgets[full_budget].spent_usd > budgets[full_budget].limit_usd
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
            -- With tokens if the amount is that of the usual output, of so many tokens.
            else jsonb_strip_nulls(jsonb_build_object(
              'usd', ai.budget_need(claim, budgets[full_budget]),
              'tokens', case when budgets[full_budget].reserves_expected then claim.expected_output end
            ))
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
