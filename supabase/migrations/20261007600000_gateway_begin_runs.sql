-- Calls that arrive while others are being decided about are decided about together: one flight, one commit and one
-- wait for the disk for all of them. Each is admitted or refused for itself, as by ai.begin_run.

create function ai.lock_rate_windows(window_scope text, subjects uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  if (
    select count(*) from ai.rate_windows w where w.scope = window_scope and w.subject_id = any (subjects)
  ) < (
    select count(distinct s) from unnest(subjects) as s
  ) then
    insert into ai.rate_windows (scope, subject_id, window_start, requests, tokens)
    select distinct window_scope, s, date_trunc('minute', now()), 0, 0 from unnest(subjects) as s order by s
    on conflict do nothing;
  end if;
  -- After it: what others made in the meantime is there now, and locked by nobody.
  perform from ai.rate_windows w
  where w.scope = window_scope and w.subject_id = any (subjects)
  order by w.subject_id
  for no key update;
end
$$;
comment on function ai.lock_rate_windows(text, uuid[]) is
  'Locks the minutes of some subjects in order, and makes those that are not there before it holds any.';
revoke execute on function ai.lock_rate_windows(text, uuid[]) from public, anon, authenticated;

create function ai.lock_budgets(budget_scope text, subjects uuid[], workspaces uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
begin
  perform from ai.budgets b
  where b.scope = budget_scope and b.subject_id = any (subjects) and b.workspace_id = any (workspaces)
  order by b.subject_id, b.workspace_id
  for no key update;
end
$$;
comment on function ai.lock_budgets(text, uuid[], uuid[]) is 'Locks budgets of one scope in order.';
revoke execute on function ai.lock_budgets(text, uuid[], uuid[]) from public, anon, authenticated;

create function ai.lock_payers(callers ai.caller[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  workspaces uuid[];
  members uuid[];
  there integer;
  payer record;
begin
  select
    array_agg(distinct c.workspace_id) filter (where (c.plan).payer = 'workspace'),
    array_agg(distinct c.actor_id) filter (where (c.plan).payer = 'member' and c.actor_is_member)
  into workspaces, members
  from unnest(callers) as c
  where c.app_id is null;
  if members is null then
    perform from ai.credit_accounts a where a.workspace_id = any (workspaces) order by a.id for no key update;
  else
    perform from ai.credit_accounts a
    where a.id in (
      select w.id from ai.credit_accounts w where w.workspace_id = any (workspaces)
      union all
      select m.id from ai.credit_accounts m where m.user_id = any (members)
    )
    order by a.id
    for no key update;
  end if;
  get diagnostics there = row_count;
  if there < coalesce(cardinality(workspaces), 0) + coalesce(cardinality(members), 0) then
    for payer in
      select distinct
        (c.plan).payer as kind,
        case (c.plan).payer when 'member' then c.actor_id else c.workspace_id end as id,
        (c.plan).initial_credits
      from unnest(callers) as c
      where c.app_id is null and ((c.plan).payer = 'workspace' or c.actor_is_member)
      order by 2
    loop
      perform ai.open_credit_account(payer.kind, payer.id, payer.initial_credits);
    end loop;
  end if;
end
$$;
comment on function ai.lock_payers(ai.caller[]) is
  'Locks the balances that callers pay from in order: those that are there, then those it opens.';
revoke execute on function ai.lock_payers(ai.caller[]) from public, anon, authenticated;

create function ai.lock_for(callers ai.caller[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  caller ai.caller;
  admissible ai.caller[] := '{}';
  unnoted uuid[] := '{}';
  limited_keys uuid[] := '{}';
  workspaces uuid[] := '{}';
  limited_workspaces uuid[] := '{}';
  lineages uuid[] := '{}';
  apps uuid[] := '{}';
  budgets text[] := '{}';
begin
  foreach caller in array callers loop
    continue when caller.source is null or caller.refused is not null or caller.plan is null;
    admissible := array_append(admissible, caller);
    workspaces := array_append(workspaces, caller.workspace_id);
    if caller.key_id is not null and (caller.last_used_at is null or caller.last_used_at < now() - interval '1 minute') then
      unnoted := array_append(unnoted, caller.key_id);
    end if;
    if caller.key_requests_per_minute is not null or caller.key_tokens_per_minute is not null then
      limited_keys := array_append(limited_keys, caller.lineage_id);
    end if;
    if num_nonnulls(
      (caller.plan).requests_per_minute, (caller.policy).requests_per_minute,
      (caller.plan).tokens_per_minute, (caller.policy).tokens_per_minute
    ) > 0 then
      limited_workspaces := array_append(limited_workspaces, caller.workspace_id);
    end if;
    if cardinality(caller.budgets) > 0 then
      budgets := budgets || caller.budgets;
      lineages := array_append(lineages, caller.lineage_id);
      apps := array_append(apps, caller.app_id);
    end if;
  end loop;

  -- In begin_run's order: key, app, workspace, balance; each kind by id.
  if cardinality(unnoted) > 0 then
    perform from ai.keys k where k.id = any (unnoted) order by k.id for no key update;
  end if;
  if cardinality(limited_keys) > 0 then
    perform ai.lock_rate_windows('key', limited_keys);
  end if;
  if 'key' = any (budgets) then
    perform ai.lock_budgets('key', lineages, workspaces);
  end if;
  if 'app' = any (budgets) then
    perform ai.lock_budgets('app', apps, workspaces);
  end if;
  if cardinality(limited_workspaces) > 0 then
    perform ai.lock_rate_windows('workspace', limited_workspaces);
  end if;
  if 'workspace' = any (budgets) then
    perform ai.lock_budgets('workspace', workspaces, workspaces);
  end if;
  if cardinality(admissible) > 0 then
    perform ai.lock_payers(admissible);
  end if;
end
$$;
comment on function ai.lock_for(ai.caller[]) is
  'Takes the locks of several calls before the first of them is decided about, in the order that begin_run and '
  'settle_runs keep, so that batches, single calls and settlements cannot lock each other out.';
revoke execute on function ai.lock_for(ai.caller[]) from public, anon, authenticated;

-- Definer: as begin_run.
create function ai.begin_runs(calls jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
  set plan_cache_mode = force_generic_plan
  -- Whoever holds a lock longer holds up its own calls alone: the others are asked about again, each by itself.
  set lock_timeout = '100ms'
as $$
declare
  callers ai.caller[] := '{}';
  answers jsonb[] := '{}';
begin
  for place in 0..jsonb_array_length(calls) - 1 loop
    if calls -> place ? 'idempotency_key' then
      raise exception 'a call with an idempotency key waits for its like, and is asked about alone' using errcode = 'feature_not_supported';
    end if;
    perform ai.note_begin(calls -> place);
    callers := array_append(callers, ai.credential_of(calls -> place));
  end loop;
  perform ai.lock_for(callers);
  for place in 0..jsonb_array_length(calls) - 1 loop
    answers := array_append(answers, ai.admit(calls -> place, callers[place + 1]));
  end loop;
  perform ai.begin_in_time();
  return to_jsonb(answers);
end
$$;
comment on function ai.begin_runs(jsonb) is
  'Decides about several calls at once, each for itself, and returns begin_run''s answers in their order. All or none: '
  'where it raises, nothing was held and nothing begun.';
revoke execute on function ai.begin_runs(jsonb) from public, anon, authenticated;
grant execute on function ai.begin_runs(jsonb) to gateway;

-- Definer: as begin_run. A run is named by the end of its id, which the gateway chose.
create function ai.give_back_runs(tails jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  tail text;
  decided text[] := '{}';
  under_way text[] := '{}';
  outcomes jsonb;
begin
  for tail in select t.value from jsonb_array_elements_text(tails) as t order by t.value loop
    if pg_try_advisory_xact_lock(hashtextextended(tail, 1)) then
      decided := array_append(decided, tail);
    else
      under_way := array_append(under_way, tail);
    end if;
  end loop;
  -- Nobody has touched them since they began.
  select jsonb_agg(jsonb_build_object(
    'created_at', r.created_at,
    'id', r.id,
    'status', 'failed',
    'http_status', 503,
    'error_code', 'service_unavailable',
    'usage_source', 'unavailable',
    'calls', '[]'::jsonb,
    'latency_ms', floor(extract(epoch from clock_timestamp() - r.created_at) * 1000),
    'steps', '[]'::jsonb,
    'key_unused', true
  )) into outcomes
  from ai.runs r
  where r.status = 'running'
    and r.touched_at > now() - interval '2 minutes'
    and r.created_at > now() - interval '2 minutes'
    and right(r.id::text, 17) = any (decided);
  if outcomes is not null then
    perform ai.end_bookable_runs(outcomes);
  end if;
  return to_jsonb(under_way);
end
$$;
comment on function ai.give_back_runs(jsonb) is
  'For begins whose answer never came: whoever asked was turned away and no provider was called, so that a run that did '
  'begin ends at nothing, and its idempotency key is free. Returns those about which nothing is decided yet.';
revoke execute on function ai.give_back_runs(jsonb) from public, anon, authenticated;
grant execute on function ai.give_back_runs(jsonb) to gateway;
