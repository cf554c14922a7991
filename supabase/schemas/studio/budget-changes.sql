-- Changes of budgets: their limits, time zones and thresholds.

-- Sets one budget; null removes it. A budget of period concurrent has max_calls instead of an amount. Requires
-- manage_ai_policy or, for a key's budget, manage_ai_keys. For the scope label, takes the label's text and derives the
-- subject from it. time_zone, thresholds and reserves_expected stay the same if they are null. The arguments that begin
-- with read are what the member saw; read_time_zone, read_thresholds and read_reserves_expected are compared only if
-- given. If one of them has changed since, nothing is changed. Outcomes: changed, unchanged, changed_meanwhile (with the
-- current settings), invalid (with param and message), not_allowed, not_found. Logs each change.
-- Definer: checks what a member may do and writes budgets, which the service role can't do itself.
create or replace function ai.change_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text default null,
  period text default 'month', time_zone text default null, thresholds smallint[] default null,
  max_calls bigint default null, read_time_zone text default null, read_thresholds smallint[] default null,
  read_max_calls bigint default null, reserves_expected boolean default null,
  read_reserves_expected boolean default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  permission public.workspace_permission := case scope when 'key' then 'manage_ai_keys' else 'manage_ai_policy' end;
begin
  if not private.user_has_workspace_permission(member_id, workspace, permission) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return ai.replace_budget(
    member_id, workspace, scope, subject, limit_usd, read_limit_usd, label, period, time_zone, thresholds, max_calls,
    read_time_zone, read_thresholds, read_max_calls, reserves_expected, read_reserves_expected
  );
end
$$;

-- Sets a budget like ai.change_budget, without its check of permissions, for a member, an admin or a service account.
create or replace function ai.replace_budget(
  member_id uuid, workspace uuid, scope text, subject uuid, limit_usd text, read_limit_usd text, label text, period text,
  time_zone text, thresholds smallint[], max_calls bigint, read_time_zone text, read_thresholds smallint[],
  read_max_calls bigint, reserves_expected boolean, read_reserves_expected boolean
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  new_limit numeric := replace_budget.limit_usd::numeric;
  fault record;
  old ai.budgets;
  current ai.budgets;
  differences jsonb;
begin
  fault := ai.budget_fault(scope, period, time_zone, thresholds, new_limit, max_calls, reserves_expected);
  if fault.param is not null then
    return jsonb_build_object('outcome', 'invalid', 'param', fault.param, 'message', fault.message);
  end if;
  perform ai.lock_policy(workspace);
  if scope = 'label' then
    -- Any label may have a budget, used or not.
    subject := ai.label_id(label);
  else
    perform from ai.budget_subjects(workspace, true) s where s.scope = replace_budget.scope and s.subject_id = subject;
    if not found then
      return jsonb_build_object('outcome', 'not_found');
    end if;
  end if;
  old := ai.find_budget(scope, subject, workspace, period);
  if old.limit_usd is distinct from read_limit_usd::numeric
    or old.max_calls is distinct from read_max_calls
    or old.time_zone <> read_time_zone
    or old.thresholds <> ai.sorted_thresholds(read_thresholds)
    or old.reserves_expected <> read_reserves_expected then
    return jsonb_build_object('outcome', 'changed_meanwhile') || ai.budget_settings(old);
  end if;
  perform ai.set_budget(
    scope, subject, workspace, new_limit, label, period, time_zone, thresholds, max_calls, reserves_expected
  );
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
-- removes the budget; the row stays and counts on, and reserves maximum costs if it is set again. A period of concurrent
-- takes max_calls instead of a limit. time_zone, thresholds and reserves_expected default to those that the budget had,
-- or else to UTC, {50,80,100} and false. A new budget starts with the cost of the window's settled runs. Runs that are in
-- progress when the budget is created are not counted in it. Another time zone recomputes the window and what was spent
-- in it, and keeps what is reserved. Raises an exception if an argument is invalid. Callers must hold ai.lock_policy.
create or replace function ai.set_budget(
  scope text, subject uuid, workspace uuid, limit_usd numeric, label text default null, period text default 'month',
  time_zone text default null, thresholds smallint[] default null, max_calls bigint default null,
  reserves_expected boolean default null
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  fault record := ai.budget_fault(scope, period, time_zone, thresholds, limit_usd, max_calls, reserves_expected);
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
    update ai.budgets b set limit_usd = null, max_calls = null, reserves_expected = false
    where b.scope = old.scope and b.subject_id = old.subject_id and b.workspace_id = old.workspace_id and b.period = old.period;
    return;
  end if;
  new_zone := coalesce(set_budget.time_zone, old.time_zone, 'UTC');
  if new_zone is distinct from old.time_zone then
    select w.starts_at, w.ends_at into count_from, count_to from ai.budget_window(set_budget.period, new_zone, now()) w;
  end if;
  if old.scope is null then
    insert into ai.budgets as b (
      scope, subject_id, workspace_id, period, label, limit_usd, max_calls, time_zone, thresholds, reserves_expected, starts_at, ends_at,
      spent_usd
    )
    values (
      set_budget.scope, subject, workspace, set_budget.period, set_budget.label, set_budget.limit_usd, set_budget.max_calls,
      new_zone, coalesce(ai.sorted_thresholds(set_budget.thresholds), '{50,80,100}'),
      coalesce(set_budget.reserves_expected, false), count_from, count_to,
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
    reserves_expected = coalesce(set_budget.reserves_expected, b.reserves_expected),
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
  reserves_expected boolean, out param text, out message text
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
  elsif period = 'concurrent' and reserves_expected then
    param := 'reservesExpected';
    message := 'A limit of concurrent calls reserves no amount.';
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
    'maxCalls', (budget).max_calls,
    'reservesExpected', coalesce((budget).reserves_expected, false)
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

-- Serializes changes to a workspace's policy and budgets, so that each change is compared with, and logged with, the
-- state that it replaces. Gateway calls don't wait for this lock.
create or replace function ai.lock_policy(workspace uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select pg_advisory_xact_lock(hashtextextended('ai.lock_policy ' || workspace, 0))
$$;
