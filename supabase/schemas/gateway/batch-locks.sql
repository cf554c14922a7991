-- The locks that a batch takes before its first decision, in the order of admission.sql; each kind by id.

create or replace function ai.collect_locks(locks ai.lock_list, callers ai.caller[]) returns ai.lock_list
  language plpgsql
  stable
  security invoker
as $$
declare
  caller ai.caller;
  payer uuid;
begin
  foreach caller in array callers loop
    continue when caller.source is null or caller.refused is not null or caller.plan_id is null;
    if caller.key_id is not null and (caller.last_used_at is null or caller.last_used_at < now() - interval '1 minute') then
      locks.keys := array_append(locks.keys, caller.key_id);
    end if;
    -- Minutes and payers each once, as they are counted.
    if num_nonnulls(caller.key_requests_per_minute, caller.key_tokens_per_minute) > 0
      and array_position(locks.key_minutes, caller.lineage_id) is null
    then
      locks.key_minutes := array_append(locks.key_minutes, caller.lineage_id);
    end if;
    if num_nonnulls(caller.workspace_requests_per_minute, caller.workspace_tokens_per_minute) > 0
      and array_position(locks.workspace_minutes, caller.workspace_id) is null
    then
      locks.workspace_minutes := array_append(locks.workspace_minutes, caller.workspace_id);
    end if;
    if caller.budgets <> '{}' then
      if 'key' = any (caller.budgets) then
        locks.key_budgets := array_append(locks.key_budgets, caller.lineage_id);
      end if;
      if 'app' = any (caller.budgets) then
        locks.app_budgets := array_append(locks.app_budgets, caller.app_id);
      end if;
      if 'workspace' = any (caller.budgets) then
        locks.workspace_budgets := array_append(locks.workspace_budgets, caller.workspace_id);
      end if;
      locks.budget_workspaces := array_append(locks.budget_workspaces, caller.workspace_id);
    end if;
    if caller.app_id is null and (caller.payer = 'workspace' or caller.actor_is_member) then
      payer := case caller.payer when 'member' then caller.actor_id else caller.workspace_id end;
      if array_position(locks.payers, payer) is null then
        locks.payers := array_append(locks.payers, payer);
      end if;
    end if;
  end loop;
  return locks;
end
$$;
comment on function ai.collect_locks(ai.lock_list, ai.caller[]) is
  'Adds to a list of locks what calls of these callers need.';

create or replace function ai.lock_rows(locks ai.lock_list) returns ai.locked_rows
  language plpgsql
  volatile
  security invoker
as $$
declare
  minutes uuid[] := locks.key_minutes || locks.workspace_minutes;
  scopes text[] := array_fill('key'::text, array[coalesce(cardinality(locks.key_minutes), 0)])
    || array_fill('workspace'::text, array[coalesce(cardinality(locks.workspace_minutes), 0)]);
  this_minute timestamptz := date_trunc('minute', now());
  there bigint := 0;
  accounts uuid[] := locks.accounts;
  locked ai.locked_rows;
begin
  if locks.keys is not null then
    perform from ai.keys k where k.id = any (locks.keys) order by k.id for no key update;
  end if;
  if locks.budget_workspaces is null and minutes is not null then
    -- One by one, here and below: for what is "= any" of a list, Postgres may look at all entries of an index between
    -- those listed, and for a join at the whole index, where it believes that there are few.
    select count(*) into there
    from unnest(scopes, minutes) as s (scope, subject_id)
    cross join lateral (
      select from ai.rate_windows w where w.scope = s.scope and w.subject_id = s.subject_id limit 1
    ) as w;
  end if;
  -- Nearly always all of them are there, and nothing is to be locked between those of keys and those of workspaces.
  if there is distinct from cardinality(minutes) then
    if locks.key_minutes is not null then
      perform ai.lock_rate_windows('key', locks.key_minutes);
    end if;
    if locks.key_budgets is not null then
      perform ai.lock_budgets('key', locks.key_budgets, locks.budget_workspaces);
    end if;
    if locks.app_budgets is not null then
      perform ai.lock_budgets('app', locks.app_budgets, locks.budget_workspaces);
    end if;
    if locks.workspace_minutes is not null then
      perform ai.lock_rate_windows('workspace', locks.workspace_minutes);
    end if;
    if locks.workspace_budgets is not null then
      perform ai.lock_budgets('workspace', locks.workspace_budgets, locks.budget_workspaces);
    end if;
  end if;
  if minutes is not null then
    select
      array_agg(s.scope), array_agg(s.subject_id), array_agg(greatest(w.window_start, this_minute)),
      array_agg(case when w.window_start < this_minute then 0 else w.requests end),
      array_agg(case when w.window_start < this_minute then 0 else w.tokens end)
    into
      locked.minute_scopes, locked.minute_subjects, locked.minute_starts, locked.minute_requests, locked.minute_tokens
    from (select m.scope, m.subject_id from unnest(scopes, minutes) as m (scope, subject_id) order by 1, 2) as s
    cross join lateral (
      select m.window_start, m.requests, m.tokens
      from ai.rate_windows m
      where m.scope = s.scope and m.subject_id = s.subject_id
      for no key update
    ) as w;
  end if;
  if locks.payers is not null then
    select accounts || array_agg(a.id), count(*) into accounts, locked.payers_found
    from unnest(locks.payers) as p (id)
    cross join lateral (
      select a.id from ai.credit_accounts a where coalesce(a.workspace_id, a.user_id) = p.id limit 1
    ) as a;
  end if;
  select array_agg(s.id), array_agg(a.credits_left)
  into locked.accounts, locked.credits_left
  from (select distinct a.id from unnest(accounts) as a (id) order by a.id) as s
  cross join lateral (
    select b.balance - b.reserved as credits_left from ai.credit_accounts b where b.id = s.id for no key update
  ) as a;
  return locked;
end
$$;
comment on function ai.lock_rows(ai.lock_list) is
  'Takes the locks of several calls before the first of them is decided about, in the order that begin_run and '
  'settle_runs keep, so that batches, single calls and settlements cannot lock each other out. Returns minutes and '
  'balances as they are then.';

create or replace function ai.lock_rate_windows(window_scope text, subjects uuid[]) returns void
  language plpgsql
  volatile
  security invoker
as $$
declare
  there bigint;
begin
  select count(*) into there from ai.rate_windows w where w.scope = window_scope and w.subject_id = any (subjects);
  if there < cardinality(subjects) then
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

create or replace function ai.lock_budgets(budget_scope text, subjects uuid[], workspaces uuid[]) returns void
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
