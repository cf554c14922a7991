-- Reserving for plain calls and opening their runs. All rows are locked by now, and each kind changes in one statement.

create or replace function ai.reserve_rates_and_credits(plain ai.batch_call[], over_budget integer[], locked ai.locked_rows)
  returns ai.reserved_calls
  language plpgsql
  volatile
  security invoker
as $$
declare
  this_minute timestamptz := date_trunc('minute', now());
  minutes integer := coalesce(cardinality(locked.minute_subjects), 0);
  accounts integer := coalesce(cardinality(locked.accounts), 0);
  -- What those before a call have used and left, whether or not they are admitted, and what is due for those that are.
  used_requests bigint[] := locked.minute_requests;
  used_tokens bigint[] := locked.minute_tokens;
  credits_left numeric[] := locked.credits_left;
  due_requests bigint[] := array_fill(0::bigint, array[minutes]);
  reserved_tokens bigint[] := due_requests;
  due_credits numeric[] := array_fill(0::numeric, array[accounts]);
  call ai.batch_call;
  at integer := 0;
  of_key integer;
  of_workspace integer;
  of_account integer;
  credits numeric(24, 8);
  minute timestamptz;
  fits boolean;
  held ai.reserved_calls;
  held_credits numeric(24, 8)[] := array_fill(null::numeric, array[cardinality(plain)]);
  held_limits text[] := array_fill(null::text, array[cardinality(plain)]);
begin
  -- A loop, since windows and groups of so few rows take longer to start than all that they count. What a call finds is
  -- what those before it leave, whether or not they are admitted: none is admitted here that would not be after them, one
  -- by one; and those that are left to that find what they would have found before the others.
  foreach call in array plain loop
    at := at + 1;
    continue when call.maximum_cost_usd is null or call.place = any (over_budget);
    credits := ai.usd_to_credits(call.maximum_cost_usd, call.markup);
    of_account := array_position(locked.accounts, call.account_id);
    fits := of_account is not null;
    if fits then
      credits_left[of_account] := credits_left[of_account] - credits;
      fits := credits_left[of_account] >= 0;
    end if;
    minute := null;
    of_key := null;
    if call.key_requests is not null or call.key_tokens is not null then
      -- Of keys first, as they are locked. A minute that is limited is there.
      of_key := array_position(locked.minute_subjects, call.lineage_id);
      if of_key is null then
        fits := false;
      else
        used_requests[of_key] := used_requests[of_key] + 1;
        used_tokens[of_key] := used_tokens[of_key] + call.tokens;
        fits := fits and least(call.key_requests - used_requests[of_key], call.key_tokens - used_tokens[of_key]) >= 0;
        minute := locked.minute_starts[of_key];
      end if;
    end if;
    of_workspace := null;
    if call.workspace_requests is not null or call.workspace_tokens is not null then
      of_workspace := array_position(locked.minute_subjects, call.workspace_id);
      if of_workspace is null then
        fits := false;
      else
        used_requests[of_workspace] := used_requests[of_workspace] + 1;
        used_tokens[of_workspace] := used_tokens[of_workspace] + call.tokens;
        fits := fits and least(
          call.workspace_requests - used_requests[of_workspace], call.workspace_tokens - used_tokens[of_workspace]
        ) >= 0;
        minute := coalesce(minute, locked.minute_starts[of_workspace]);
      end if;
    end if;
    continue when not fits;
    due_credits[of_account] := due_credits[of_account] + credits;
    if of_key is not null then
      due_requests[of_key] := due_requests[of_key] + 1;
      reserved_tokens[of_key] := reserved_tokens[of_key] + call.tokens;
    end if;
    if of_workspace is not null then
      due_requests[of_workspace] := due_requests[of_workspace] + 1;
      reserved_tokens[of_workspace] := reserved_tokens[of_workspace] + call.tokens;
    end if;
    held_credits[at] := credits;
    held_limits[at] := ai.rate_limit_headers(minute, array[
      call.key_requests, used_requests[of_key],
      call.key_tokens, used_tokens[of_key],
      call.workspace_requests, used_requests[of_workspace],
      call.workspace_tokens, used_tokens[of_workspace]
    ]);
  end loop;
  if minutes > 0 then
    update ai.rate_windows w
    set
      requests = case when w.window_start < this_minute then 0 else w.requests end + due.requests,
      tokens = case when w.window_start < this_minute then 0 else w.tokens end + due.tokens,
      window_start = greatest(w.window_start, this_minute)
    from unnest(locked.minute_scopes, locked.minute_subjects, due_requests, reserved_tokens)
      as due (scope, subject_id, requests, tokens)
    where w.scope = due.scope and w.subject_id = due.subject_id and due.requests > 0;
  end if;
  update ai.credit_accounts a
  set reserved = a.reserved + due.credits
  from unnest(locked.accounts, due_credits) as due (id, credits)
  where a.id = due.id and due.credits <> 0;
  held.credits := held_credits;
  held.limits := held_limits;
  return held;
end
$$;
comment on function ai.reserve_rates_and_credits(ai.batch_call[], integer[], ai.locked_rows) is
  'Counts those calls in their minutes and holds their credits that all of these have room for, as '
  'ai.consume_rate_limit and ai.reserve_credits do for one, by what the rows held when they were locked.';

create or replace function ai.reserve_budgets(plain ai.batch_call[], admitted integer[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  month date := date_trunc('month', now() at time zone 'UTC')::date;
begin
  update ai.budgets b
  set
    reserved_usd = b.reserved_usd + due.usd,
    spent_usd = case when b.period_start < month then 0 else b.spent_usd end,
    period_start = greatest(b.period_start, month)
  from (
    select
      t.scope, ai.budget_subject(t.scope, c.lineage_id, null, c.workspace_id) as subject_id, c.workspace_id,
      sum(c.maximum_cost_usd) as usd
    from unnest(plain) as c
    cross join unnest(c.budgets) as t (scope)
    where c.place = any (admitted)
    group by 1, 2, 3
  ) as due
  where b.scope = due.scope and b.subject_id = due.subject_id and b.workspace_id = due.workspace_id;
end
$$;
comment on function ai.reserve_budgets(ai.batch_call[], integer[]) is
  'Holds what admitted calls can get of their budgets, as ai.reserve_budget does for one.';

create or replace function ai.open_batch_runs(plain ai.batch_call[], held ai.reserved_calls, out places integer[], out answers text[])
  language plpgsql
  volatile
  security invoker
as $$
declare
  moment text := to_json(now());
begin
  with begun as (
    insert into ai.runs (
      id, workspace_id, actor_id, key_id, key_lineage_id, credential_source, execution_mode, feature, request_id,
      entity_id, streamed, model_id, routes, markup, account_id, reserved_usd, reserved_credits, budget_scopes
    )
    select
      c.run_id, c.workspace_id, c.actor_id, c.key_id, c.lineage_id, 'key', 'background', c.feature, c.request_id,
      c.entity_id, c.streamed, c.model_id, c.routes, c.markup, c.account_id, c.maximum_cost_usd, held.credits[c.ordinality],
      coalesce(c.budgets, '{}')
    from unnest(plain) with ordinality as c
    where held.credits[c.ordinality] is not null
  )
  select
    array_agg(c.place),
    -- Text put together: each value of an object that is built is looked up in the catalogue anew, for how it is told.
    array_agg(concat(
      '{"run_id":"', c.run_id,
      '","created_at":', moment,
      ',"workspace_id":"', c.workspace_id,
      '","model":', to_json(c.model_id),
      ',"voice":null,"routes":', c.routes,
      ',"markup":"', c.markup,
      '","exempt":false,"reserved_usd":"', c.maximum_cost_usd,
      '","reserved_credits":"', held.credits[c.ordinality],
      '","cost_visible":', c.cost_visible::text,
      ',"capture":', c.capture::text,
      ',"limits":', held.limits[c.ordinality],
      '}'
    ))
  into places, answers
  from unnest(plain) with ordinality as c
  where held.credits[c.ordinality] is not null;
end
$$;
comment on function ai.open_batch_runs(ai.batch_call[], ai.reserved_calls) is
  'Opens the runs of calls for which everything is held, and answers as ai.admit_call does, in JSON, each at its place.';
