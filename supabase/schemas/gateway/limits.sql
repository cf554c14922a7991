-- What a call takes of rate limits, budgets and balance, and its idempotency key.

create or replace function ai.consume_rate_limit(
  scope text, subject uuid, request_limit integer, token_limit bigint, tokens bigint, requests integer default 1
) returns ai.rate_window_use
  language plpgsql
  volatile
  security invoker
as $$
declare
  current_minute timestamptz := date_trunc('minute', now());
  taken ai.rate_window_use;
begin
  if request_limit is null and token_limit is null then
    taken.admitted := true;
    return taken;
  end if;

  for attempt in 1..2 loop
    -- A caller that waited for the lock may be of an earlier minute than the row: it counts in the row's.
    update ai.rate_windows w
    set
      requests = case when w.window_start < current_minute then 0 else w.requests end + consume_rate_limit.requests,
      tokens = case when w.window_start < current_minute then 0 else w.tokens end + consume_rate_limit.tokens,
      window_start = greatest(w.window_start, current_minute)
    where w.scope = consume_rate_limit.scope
      and w.subject_id = subject
      and (
        request_limit is null
        or case when w.window_start < current_minute then 0 else w.requests end + consume_rate_limit.requests <= request_limit
      )
      and (
        token_limit is null
        or case when w.window_start < current_minute then 0 else w.tokens end + consume_rate_limit.tokens <= token_limit
      )
    returning true, w.window_start, w.requests, w.tokens into taken;
    if found then
      return taken;
    end if;
    exit when attempt = 2;
    -- No room, or no row: of many first calls at once one makes it, and all of them find room in it.
    insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
    values (consume_rate_limit.scope, subject, current_minute, 0, 0)
    on conflict do nothing;
  end loop;

  return ai.exhausted_rate_window(consume_rate_limit.scope, subject);
end
$$;
comment on function ai.consume_rate_limit is
  'Counts a request and its reserved tokens in the subject''s current minute, unless either limit would be passed. A '
  'request that goes on counts no second time.';

create or replace function ai.exhausted_rate_window(scope text, subject uuid) returns ai.rate_window_use
  language sql
  stable
  security invoker
as $$
  select row(
    false,
    -- greatest() takes no notice of nulls.
    greatest(w.window_start, m.minute),
    coalesce(w.requests, 0),
    coalesce(w.tokens, 0)
  )::ai.rate_window_use
  from (select date_trunc('minute', now()) as minute) as m
  left join ai.rate_windows w
    on w.scope = exhausted_rate_window.scope and w.subject_id = subject and w.window_start >= m.minute
$$;
comment on function ai.exhausted_rate_window(text, uuid) is
  'What is counted in a minute that has no room for a call: a refusal also where the minute was cleared away just now.';

create or replace function ai.rate_limit_headers(minute timestamptz, counts bigint[]) returns text
  language sql
  stable
  security invoker
  parallel safe
as $$
  select format('{"minute":%s,"counts":%s}', coalesce(to_json(minute), 'null'), array_to_json(counts))
$$;
comment on function ai.rate_limit_headers(timestamptz, bigint[]) is
  'What a call is told of its limits, as JSON: when the minute began, and of the key''s requests, its tokens, the '
  'workspace''s requests and its tokens the limit and what is counted of it; null for what is not limited. In numbers, '
  'which the gateway puts into words: here each comparison is made ready anew for every call.';

create or replace function ai.reserve_budget(scope text, subject uuid, workspace uuid, amount_usd numeric) returns boolean
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
      b.limit_usd is null
      -- A budget of nothing is a closed door, for what costs nothing too.
      or b.limit_usd > 0
        and b.reserved_usd + amount_usd + case when b.period_start < month then 0 else b.spent_usd end <= b.limit_usd
    );
  if found then
    return true;
  end if;
  -- The row that the reservation would have locked, at its place in the order of the locks. Of many that are refused at
  -- once the first notes it; one that only would have been refused before a raise does not.
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
comment on function ai.reserve_budget(text, uuid, uuid, numeric) is
  'Holds an amount of a monthly budget, unless that would pass its limit, or that is 0. A refusal is noted in the budget: '
  'the first of a month, and then at most one a minute.';

create or replace function ai.release_budgets(scopes text[], lineage uuid, app uuid, workspace uuid, amount_usd numeric) returns void
  language sql
  volatile
  security invoker
as $$
  update ai.budgets b set reserved_usd = greatest(b.reserved_usd - amount_usd, 0)
  where b.workspace_id = workspace
    and b.scope = any (scopes)
    and b.subject_id = ai.budget_subject(b.scope, lineage, app, workspace)
$$;
comment on function ai.release_budgets(text[], uuid, uuid, uuid, numeric) is
  'Gives back what budgets hold for a call that is refused after all.';

create or replace function ai.reserve_credits(payer text, owner_id uuid, initial_credits numeric, credits numeric) returns uuid
  language plpgsql
  volatile
  security invoker
as $$
declare
  account uuid;
begin
  for attempt in 1..2 loop
    if payer = 'workspace' then
      update ai.credit_accounts a set reserved = a.reserved + credits
      where a.workspace_id = owner_id and a.balance - a.reserved >= credits
      returning a.id into account;
    else
      update ai.credit_accounts a set reserved = a.reserved + credits
      where a.user_id = owner_id and a.balance - a.reserved >= credits
      returning a.id into account;
    end if;
    exit when account is not null or attempt = 2;
    -- Not enough, or no account: of many first calls at once one opens it, and all of them try it.
    perform ai.open_credit_account(payer, owner_id, initial_credits);
  end loop;
  return account;
end
$$;
comment on function ai.reserve_credits(text, uuid, numeric, numeric) is
  'Holds credits of the payer''s account and returns it; null where the balance does not cover them. Who never paid '
  'before gets an account with the plan''s credits first.';

create or replace function ai.idempotent_refusal(earlier ai.idempotency_keys, fingerprint bytea) returns jsonb
  language sql
  stable
  security invoker
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
comment on function ai.idempotent_refusal(ai.idempotency_keys, bytea) is
  'Why a call whose idempotency key is known goes nowhere: never a second provider call, never a second charge. With the '
  'answer, where that was kept.';
