-- Budget alerts. A sweep records which thresholds were crossed, and the server writes the emails. One statement both
-- queues the emails and marks the crossing as emailed, so a crash neither repeats nor loses an email.

-- Records which thresholds budgets have crossed. Returns the crossings that are not emailed yet, oldest first. Only one
-- sweep runs at a time; a concurrent sweep returns an empty list. refusing: the budget refuses calls although it is not
-- fully spent. spentUsd, reservedUsd and leftUsd are null if the workspace hides provider cost.
-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Runs one sweep at a time. Each sweep reads the budgets after the previous one has finished, so that it sees limits
  -- that were raised meanwhile.
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_budget_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_budget_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'scope', a.scope,
        'subjectId', a.subject_id,
        'subject', ai.budget_name(a.scope, a.subject_id, a.workspace_id),
        'workspaceId', a.workspace_id,
        'workspace', w.name,
        'month', a.month,
        'endsAt', ai.utc_text((a.month + interval '1 month') at time zone 'UTC'),
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      )
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id
    ), '[]')
    from (
      select * from ai.budget_alerts p where p.posted_at is null order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
  );
end
$$;

-- Queues one email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so
-- that concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or
-- the crossing no longer applies.
-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_budget_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.budget_alerts a
    set posted_at = now()
    where a.scope = alert ->> 'scope'
      and a.subject_id = (alert ->> 'subjectId')::uuid
      and a.workspace_id = (alert ->> 'workspaceId')::uuid
      and a.month = (alert ->> 'month')::date
      and a.threshold = (alert ->> 'threshold')::smallint
      and a.limit_usd = (alert ->> 'limitUsd')::numeric
      and a.posted_at is null
    returning a.scope, a.workspace_id
  ), queued as (
    -- Makes the email due immediately. By default, an email becomes due after a minute.
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_budget_alert_mails.subject, queue_budget_alert_mails.body, now()
    from marked p
    cross join lateral ai.budget_recipients(p.scope, p.workspace_id) as r (email)
    returning id
  )
  select count(*)::integer from queued
$$;

-- Records the highest threshold that each budget has crossed since the last sweep. Reads ai.budgets without a lock.
-- Records each threshold at most once a month, unless a raised limit puts the spend below the threshold and the budget
-- then crosses it again.
create or replace function ai.record_budget_alerts() returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.budget_alerts as a (scope, subject_id, workspace_id, month, limit_usd, spent_usd, reserved_usd, threshold)
  select b.scope, b.subject_id, b.workspace_id, b.period_start, b.limit_usd, b.spent_usd, b.reserved_usd, x.threshold
  from ai.budgets b
  join public.workspaces w on w.id = b.workspace_id and w.deleted_at is null
  cross join lateral (select ai.budget_threshold(b) as threshold) as x
  left join ai.budget_alerts k
    on k.scope = b.scope and k.subject_id = b.subject_id and k.workspace_id = b.workspace_id
  -- A budget of zero blocks all calls on purpose, so it needs no warning.
  where b.limit_usd > 0
    and (b.spent_usd * 2 >= b.limit_usd or b.refused_at >= date_trunc('month', now(), 'UTC') or k.threshold > 0)
    -- In the first hour of a month, also includes budgets that are still in the previous month, because no call has
    -- reset them yet.
    and b.period_start >= date_trunc('month', (now() - interval '1 hour') at time zone 'UTC')::date
    and case
      when k.month = b.period_start then x.threshold > k.threshold or b.limit_usd <> k.limit_usd
      else x.threshold > 0
    end
  on conflict (scope, subject_id, workspace_id) do update
  set
    month = excluded.month,
    limit_usd = excluded.limit_usd,
    spent_usd = excluded.spent_usd,
    reserved_usd = excluded.reserved_usd,
    threshold = case
      when a.month < excluded.month or a.limit_usd < excluded.limit_usd then excluded.threshold
      else greatest(a.threshold, excluded.threshold)
    end,
    crossed_at = case when a.month < excluded.month or a.threshold < excluded.threshold then now() else a.crossed_at end,
    posted_at = case
      when a.month < excluded.month or a.threshold < excluded.threshold then null
      -- Marks the unsent warning as emailed, so that it is never sent: the raised limit put the spend below its
      -- threshold.
      when a.limit_usd < excluded.limit_usd and a.threshold > excluded.threshold then coalesce(a.posted_at, now())
      else a.posted_at
    end
  where a.month < excluded.month
    or (a.month = excluded.month and (a.threshold < excluded.threshold or a.limit_usd <> excluded.limit_usd))
$$;

-- Rearms the thresholds above the current spend after a budget is raised, so that crossing them again sends a new
-- warning. The sweep also detects a raise, but not if the thresholds are crossed again before the sweep runs.
create or replace function ai.reset_budget_alert(scope text, subject uuid, workspace uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update ai.budget_alerts a
  set
    limit_usd = b.limit_usd,
    spent_usd = b.spent_usd,
    reserved_usd = b.reserved_usd,
    threshold = x.threshold,
    posted_at = case when x.threshold < a.threshold then coalesce(a.posted_at, now()) else a.posted_at end
  from ai.budgets b
  cross join lateral (select ai.budget_threshold(b) as threshold) as x
  where a.scope = reset_budget_alert.scope and a.subject_id = subject and a.workspace_id = workspace
    and b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id
    and b.period_start = a.month
    and b.limit_usd > a.limit_usd
    and x.threshold <= a.threshold
$$;

-- Returns the highest of 50, 80 and 100 percent that a budget's spend has reached, or 0. Percentages are not rounded. A
-- budget that refuses calls also counts as 100 percent, even if a remainder too small for another call is left.
create or replace function ai.budget_threshold(budget ai.budgets) returns smallint
  language sql stable security invoker parallel safe
as $$
  select case
    when budget.spent_usd >= budget.limit_usd or ai.budget_refuses_calls(budget) then 100
    when budget.spent_usd * 5 >= budget.limit_usd * 4 then 80
    when budget.spent_usd * 2 >= budget.limit_usd then 50
    else 0
  end::smallint
$$;

-- Returns whether a budget is effectively used up. This is the case if the budget refused a call in this UTC month, and
-- at least 80 percent of the limit is spent or reserved. Below 80 percent, the refused call was simply too large, and
-- other calls may still fit.
create or replace function ai.budget_refuses_calls(budget ai.budgets) returns boolean
  language sql stable security invoker parallel safe
as $$
  select coalesce(
    budget.refused_at >= date_trunc('month', now(), 'UTC')
      -- Until the first call of the month is admitted, the amount held belongs to the previous month and will be
      -- released.
      and budget.period_start = date_trunc('month', now() at time zone 'UTC')::date
      and budget.limit_usd > 0
      and (budget.spent_usd + budget.reserved_usd) * 5 >= budget.limit_usd * 4,
    false
  )
$$;

-- Returns the name of the key, app, member, label or workspace that a budget limits.
create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case scope
    when 'key' then (
      select k.name from ai.keys k
      where k.lineage_id = subject and k.workspace_id = workspace
      order by k.created_at desc limit 1
    )
    when 'app' then ai.app_label(subject)
    when 'member' then (select p.display_name from public.profiles p where p.id = subject)
    when 'label' then (
      select b.label from ai.budgets b
      where b.scope = 'label' and b.subject_id = subject and b.workspace_id = workspace
    )
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;

-- Returns the email addresses that receive warnings about a budget: owners, members with manage_ai_policy and, for a
-- key's budget, members with manage_ai_keys.
create or replace function ai.budget_recipients(scope text, workspace uuid) returns setof text
  language sql stable security invoker set search_path = ''
as $$
  select u.email
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id and w.deleted_at is null
  join public.workspace_roles r on r.workspace_id = m.workspace_id and r.id = m.role_id
  join auth.users u on u.id = m.user_id
  where m.workspace_id = workspace
    and (
      r.is_owner
      or 'manage_ai_policy' = any (r.permissions)
      or (budget_recipients.scope = 'key' and 'manage_ai_keys' = any (r.permissions))
    )
    and char_length(u.email) between 3 and 320
    and u.deleted_at is null
    and (u.banned_until is null or u.banned_until <= now())
$$;

-- Returns whether any live key has the label. A label's budget can refuse only calls with such a key.
create or replace function ai.is_label_enforced(label text, workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select from ai.keys k
    where k.workspace_id = workspace and k.entity_id = is_label_enforced.label and k.revoked_at is null
      and (k.expires_at is null or k.expires_at > now())
  )
$$;
