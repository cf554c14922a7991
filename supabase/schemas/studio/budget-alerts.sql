-- Budget alerts. A sweep records which thresholds were crossed, and the server writes the emails. One statement both
-- queues the emails and marks the crossing as emailed, so a crash neither repeats nor loses an email.

-- Records which thresholds budgets have crossed. Returns the crossings that are not emailed yet, oldest first. Only one
-- sweep runs at a time; a concurrent sweep returns an empty list. month: the local date on which the window began.
-- refusing: the budget refuses calls although it is not fully spent. spentUsd, reservedUsd and leftUsd are null if the
-- workspace hides provider cost. An envelope also has its owner's name, maxCalls and calls.
-- Until 0.5.0, for servers of 0.3.0: without all_periods, returns only monthly budgets.
-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_budget_alerts(most integer default 100, all_periods boolean default false) returns jsonb
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
        'period', a.period,
        'timeZone', z.time_zone,
        'month', a.month,
        'endsAt', case when a.period in ('day', 'week', 'month') then ai.utc_text(
          (ai.budget_window(a.period, z.time_zone, ai.start_of_day(a.month, z.time_zone))).ends_at
        ) end,
        'threshold', a.threshold,
        'limitUsd', trim_scale(a.limit_usd)::text,
        'enforced', a.scope <> 'label'
          or ai.is_label_enforced(ai.budget_name(a.scope, a.subject_id, a.workspace_id), a.workspace_id),
        'refusing', a.threshold = 100 and a.spent_usd < a.limit_usd,
        'spentUsd', case when v.visible then trim_scale(a.spent_usd)::text end,
        'reservedUsd', case when v.visible then trim_scale(a.reserved_usd)::text end,
        'leftUsd', case when v.visible then trim_scale(greatest(a.limit_usd - a.spent_usd - a.reserved_usd, 0))::text end
      ) || case when a.scope = 'envelope' then jsonb_build_object(
        'owner', ai.envelope_owner_name(a.subject_id), 'maxCalls', b.max_calls, 'calls', b.calls
      ) else '{}' end
      order by a.crossed_at, a.workspace_id, a.scope, a.subject_id, a.period
    ), '[]')
    from (
      select * from ai.budget_alerts p
      where p.posted_at is null and (all_periods or p.period = 'month')
      order by p.crossed_at limit most
    ) a
    join public.workspaces w on w.id = a.workspace_id
    left join ai.budgets b
      on b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id and b.period = a.period
    cross join lateral (select ai.cost_visible(a.workspace_id) as visible) as v
    cross join lateral (select ai.known_time_zone(coalesce(b.time_zone, 'UTC')) as time_zone) as z
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
      -- Until 0.5.0: alerts that a server of 0.3.0 read before the upgrade have no period.
      and a.period = coalesce(alert ->> 'period', 'month')
      and a.month = (alert ->> 'month')::date
      and a.threshold = (alert ->> 'threshold')::smallint
      and a.limit_usd = (alert ->> 'limitUsd')::numeric
      and a.posted_at is null
    returning a.scope, a.subject_id, a.workspace_id
  ), queued as (
    -- Makes the email due immediately. By default, an email becomes due after a minute.
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_budget_alert_mails.subject, queue_budget_alert_mails.body, now()
    from marked p
    cross join lateral ai.alert_recipients(p.scope, p.subject_id, p.workspace_id) as r (email)
    returning id
  )
  select count(*)::integer from queued
$$;

-- Records the highest threshold that each budget has crossed since the last sweep. Reads ai.budgets without a lock.
-- Records each threshold at most once in a window, unless a raised limit puts the spend below the threshold and the
-- budget then crosses it again. Callers must hold the sweep's lock.
create or replace function ai.record_budget_alerts() returns void
  language sql volatile security invoker set search_path = ''
as $$
  merge into ai.budget_alerts as a
  using (
    select
      b.scope, b.subject_id, b.workspace_id, b.period, b.limit_usd, b.spent_usd, b.reserved_usd, x.threshold,
      (c.starts_at at time zone ai.known_time_zone(c.time_zone))::date as month
    from ai.budgets b
    join public.workspaces w on w.id = b.workspace_id and w.deleted_at is null
    left join ai.budget_alerts k
      on k.scope = b.scope and k.subject_id = b.subject_id and k.workspace_id = b.workspace_id and k.period = b.period
    cross join lateral (select ai.budget_threshold(b) as threshold) as x
    -- The window that the row counts, even if it has ended.
    cross join lateral ai.current_budget(b, '-infinity') as c
    -- A budget of zero blocks all calls on purpose, so it needs no warning.
    where b.limit_usd > 0
      -- Reads the lowest threshold first, because the function costs more.
      and (b.spent_usd * 100 >= b.limit_usd * b.thresholds[1] or b.refused_at is not null or k.threshold > 0)
      and (x.threshold > 0 or k.threshold > 0)
      -- In the first hour of a window, also includes budgets that are still in the previous window, because no call has
      -- reset them yet.
      and c.ends_at > now() - interval '1 hour'
  ) as n
  on a.scope = n.scope and a.subject_id = n.subject_id and a.workspace_id = n.workspace_id and a.period = n.period
  when matched and (
    case
      when a.month <> n.month then n.threshold > 0
      else a.threshold < n.threshold or a.limit_usd <> n.limit_usd or (a.scope = 'envelope' and a.threshold > n.threshold)
    end
  ) then update set
    month = n.month,
    limit_usd = n.limit_usd,
    spent_usd = n.spent_usd,
    reserved_usd = n.reserved_usd,
    threshold = case
      when a.month <> n.month or a.limit_usd < n.limit_usd or a.scope = 'envelope' then n.threshold
      else greatest(a.threshold, n.threshold)
    end,
    crossed_at = case when a.month <> n.month or a.threshold < n.threshold then now() else a.crossed_at end,
    posted_at = case
      when a.month <> n.month or a.threshold < n.threshold then null
      -- Marks the unsent warning as emailed, so that it is never sent: the raised limit put the spend below its
      -- threshold.
      when a.threshold > n.threshold and (a.limit_usd < n.limit_usd or a.scope = 'envelope') then coalesce(a.posted_at, now())
      else a.posted_at
    end
  when not matched and n.threshold > 0 then
    insert (scope, subject_id, workspace_id, period, month, limit_usd, spent_usd, reserved_usd, threshold)
    values (
      n.scope, n.subject_id, n.workspace_id, n.period, n.month, n.limit_usd, n.spent_usd, n.reserved_usd, n.threshold
    )
$$;

-- Rearms the thresholds above the current spend after a budget is raised, so that crossing them again sends a new
-- warning. The sweep also detects a raise, but not if the thresholds are crossed again before the sweep runs.
create or replace function ai.reset_budget_alert(scope text, subject uuid, workspace uuid, period text default 'month')
  returns void
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
  cross join lateral ai.current_budget(b, '-infinity') as c
  where a.scope = reset_budget_alert.scope and a.subject_id = subject and a.workspace_id = workspace
    and a.period = reset_budget_alert.period
    and b.scope = a.scope and b.subject_id = a.subject_id and b.workspace_id = a.workspace_id and b.period = a.period
    and (c.starts_at at time zone ai.known_time_zone(c.time_zone))::date = a.month
    -- Another maximum number of calls also raises an envelope.
    and (b.limit_usd > a.limit_usd or b.scope = 'envelope')
    and x.threshold <= a.threshold
$$;

-- Returns the highest of a budget's thresholds, in percent, that its spend has reached, or 0. Percentages are not
-- rounded. A budget that refuses calls also counts as 100 percent, even if a remainder too small for another call is
-- left. An envelope has only the threshold of 100 percent, which it reaches when it has refused a call.
create or replace function ai.budget_threshold(budget ai.budgets) returns smallint
  language sql stable security invoker
as $$
  select case
    when budget.scope = 'envelope' then case when ai.envelope_refuses_calls(budget) then 100 else 0 end
    else (
      select coalesce(max(t.threshold), 0)
      from unnest(budget.thresholds) as t (threshold)
      where budget.spent_usd * 100 >= budget.limit_usd * t.threshold
        or t.threshold = 100 and ai.budget_refuses_calls(budget)
    )
  end::smallint
$$;

-- Returns whether a budget is effectively used up. This is the case if the budget refused a call in the current window,
-- and at least 80 percent of the limit is spent or reserved. Below 80 percent, the refused call was simply too large, and
-- other calls may still fit.
create or replace function ai.budget_refuses_calls(budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select case
    when budget.refused_at is null or (budget.spent_usd + budget.reserved_usd) * 5 < budget.limit_usd * 4 then false
    else (
      -- Until the first call of a window is admitted, the amount held belongs to the previous window and will be released.
      select coalesce(budget.limit_usd > 0 and budget.refused_at >= c.starts_at and c.ends_at > now(), false)
      from ai.current_budget(budget, '-infinity') as c
    )
  end
$$;

-- Returns whether an envelope has refused a call since it was opened or raised, and is still open.
create or replace function ai.envelope_refuses_calls(budget ai.budgets) returns boolean
  language sql stable security invoker
as $$
  select budget.refused_at is not null and budget.ends_at > now() and exists (
    select from ai.envelopes e where e.id = budget.subject_id and e.ended_at is null and e.superseded_at is null
  )
$$;

-- Returns the name of the key, app, member, label or workspace that a budget limits. An envelope has the name of its
-- label, or else of its owner.
create or replace function ai.budget_name(scope text, subject uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case scope
    when 'key' then ai.latest_key_name(subject, workspace)
    when 'app' then ai.app_label(subject)
    when 'envelope' then coalesce(
      (select nullif(e.label, '') from ai.envelopes e where e.id = subject), ai.envelope_owner_name(subject)
    )
    when 'member' then (select p.display_name from public.profiles p where p.id = subject)
    when 'label' then (
      select b.label from ai.budgets b
      where b.scope = 'label' and b.subject_id = subject and b.workspace_id = workspace
      limit 1
    )
    else (select w.name from public.workspaces w where w.id = workspace)
  end
$$;

-- Returns the name of the key whose calls an envelope holds, or of the person.
create or replace function ai.envelope_owner_name(envelope uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when e.key_lineage_id is null then (select p.display_name from public.profiles p where p.id = e.actor_id)
    else ai.latest_key_name(e.key_lineage_id, e.workspace_id)
  end
  from ai.envelopes e
  where e.id = envelope
$$;

-- Returns the name of the newest key of a lineage.
create or replace function ai.latest_key_name(lineage uuid, workspace uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select k.name from ai.keys k
  where k.lineage_id = lineage and k.workspace_id = workspace
  order by k.created_at desc limit 1
$$;

-- Returns the email addresses that receive an alert about a budget. An envelope's alert goes to its owner or, if that
-- account is gone, banned or no member any more, to members with manage_ai_policy or manage_ai_keys.
create or replace function ai.alert_recipients(scope text, subject uuid, workspace uuid) returns setof text
  language sql stable security invoker set search_path = ''
as $$
  with envelope_owner as (
    select u.email
    from ai.envelopes e
    join public.workspace_members m on m.workspace_id = e.workspace_id and m.user_id = e.actor_id
    join auth.users u on u.id = m.user_id
    where alert_recipients.scope = 'envelope' and e.id = subject
      and char_length(u.email) between 3 and 320
      and u.deleted_at is null
      and (u.banned_until is null or u.banned_until <= now())
  )
  select o.email from envelope_owner o
  union all
  select r.email
  from ai.budget_recipients(
    case alert_recipients.scope when 'envelope' then 'key' else alert_recipients.scope end, workspace
  ) as r (email)
  where not exists (select from envelope_owner)
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
