-- Warnings about low credits. A sweep records which balances became low or empty, and the server writes the emails. One
-- statement queues the emails and marks the warning as emailed, so a crash neither repeats nor loses an email.

-- Records balances that became low or empty. Returns those for which no emails are queued yet, oldest first. Only one
-- sweep runs at a time; a concurrent sweep returns an empty list.
-- Definer: the service role cannot write alerts.
create or replace function ai.sweep_credit_alerts(max_alerts integer default 100) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('ai.sweep_credit_alerts', 0)) then
    return '[]';
  end if;
  perform ai.record_credit_alerts();
  return (
    select coalesce(jsonb_agg(
      jsonb_build_object(
        'accountId', k.id,
        'payer', case when k.workspace_id is null then 'member' else 'workspace' end,
        'workspaceId', k.shown_id,
        'workspace', k.shown_name,
        'level', k.level,
        'crossedAt', ai.utc_text_microseconds(k.crossed_at),
        'balance', trim_scale(k.balance)::text,
        'reserved', trim_scale(k.reserved)::text,
        'available', trim_scale(k.balance - k.reserved)::text,
        'threshold', trim_scale(k.threshold)::text
      )
      order by k.crossed_at, k.id
    ), '[]')
    from (
      select a.*, p.level, p.threshold, p.crossed_at, w.shown_id, w.shown_name
      from ai.credit_alerts p
      join ai.credit_accounts a on a.id = p.account_id
      -- Selects the workspace that the warning links to. For a member's credits, selects a workspace whose plan charges
      -- the member.
      cross join lateral (
        select s.id as shown_id, s.name as shown_name
        from public.workspaces s
        join ai.plans l on l.id = s.plan_id and l.payer = 'workspace'
        where s.id = a.workspace_id and s.deleted_at is null
        union all
        (
          select s.id, s.name
          from public.workspace_members m
          join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
          join ai.plans l on l.id = s.plan_id and l.payer = 'member'
          where m.user_id = a.user_id
          order by s.personal_user_id is not distinct from a.user_id desc, s.created_at, s.id
          limit 1
        )
      ) w
      where p.posted_at is null
      order by p.crossed_at
      limit max_alerts
    ) k
  );
end
$$;

-- Queues an email about a crossing for each recipient, and marks the crossing as emailed in the same statement, so that
-- concurrent callers queue the emails only once. Returns the number of emails; 0 if they were already queued or credits
-- were added since the sweep.
-- Definer: the service role cannot write alerts or read Supabase Auth's email addresses.
create or replace function ai.queue_credit_alert_mails(alert jsonb, subject text, body text) returns integer
  language sql volatile security definer set search_path = ''
as $$
  with marked as (
    update ai.credit_alerts k
    set
      posted_at = now(),
      -- Computes the level again, because credits may have been added since the sweep.
      level = least(k.level, ai.credit_level(a, k.threshold))
    from ai.credit_accounts a
    where a.id = k.account_id
      and k.account_id = (alert ->> 'accountId')::uuid
      and k.level = (alert ->> 'level')::ai.credit_level
      and k.crossed_at = (alert ->> 'crossedAt')::timestamptz
      and k.posted_at is null
    returning a.workspace_id, a.user_id, k.level
  ), queued as (
    insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
    select r.email, queue_credit_alert_mails.subject, queue_credit_alert_mails.body, now()
    from marked p
    cross join lateral ai.credit_recipients(p.workspace_id, p.user_id) as r (email)
    where p.level = (alert ->> 'level')::ai.credit_level
    returning id
  )
  select count(*)::integer from queued
$$;

-- Records the level (low or empty) that each balance has reached. Reads ai.credit_accounts without a lock. Records the
-- same level again only after credits were added, or after the plan's threshold fell below the balance.
create or replace function ai.record_credit_alerts() returns void
  language sql volatile security invoker set search_path = ''
as $$
  with candidates as materialized (
    select a, a.workspace_id, a.user_id, k.threshold as known_threshold
    from ai.credit_accounts a
    left join ai.credit_alerts k on k.account_id = a.id
    -- Rules out most accounts before their plan is looked up.
    where case
      when a.balance <= 0 then k.level is distinct from 'empty'
      else k.level <> 'funded' or a.balance - a.reserved < (select greatest(max(ai.low_credits(p)), 1000) from ai.plans p)
    end
  )
  insert into ai.credit_alerts as k (account_id, level, threshold)
  select (c.a).id, x.level, x.threshold
  from ai.paying_plans(
    array(select o.workspace_id from candidates o where o.workspace_id is not null),
    array(select o.user_id from candidates o where o.user_id is not null)
  ) as p
  join candidates c on coalesce(c.workspace_id, c.user_id) = p.owner_id
  cross join lateral (
    select ai.low_credits(p.plan) as threshold, ai.credit_level(c.a, ai.low_credits(p.plan)) as level
  ) as x
  where x.level > 'funded' or c.known_threshold <> x.threshold
  on conflict (account_id) do update
  set
    threshold = excluded.threshold,
    level = case when excluded.threshold < k.threshold then excluded.level else greatest(k.level, excluded.level) end,
    crossed_at = case when excluded.level > k.level then now() else k.crossed_at end,
    posted_at = case
      when excluded.level > k.level then null
      when excluded.level < k.level and excluded.threshold < k.threshold then coalesce(k.posted_at, now())
      else k.posted_at
    end
  where excluded.level > k.level or excluded.threshold <> k.threshold
$$;

-- Returns the balance below which a plan's payers are warned. The default is a tenth of the plan's initial credits, or
-- 10,000 if the plan has no initial credits.
create or replace function ai.low_credits(plan ai.plans) returns numeric
  language sql immutable security invoker parallel safe
as $$
  select coalesce((plan).low_credits, case when (plan).initial_credits > 0 then (plan).initial_credits * 0.1 else 10000 end)
$$;

-- Returns the plan under which each workspace or member pays. Returns no row for a workspace or member that no plan
-- charges. For a member who pays in several workspaces, returns the plan with the most initial credits.
create or replace function ai.paying_plans(workspaces uuid[], members uuid[]) returns table (owner_id uuid, plan ai.plans)
  language sql stable security invoker set search_path = ''
as $$
  select distinct on (w.owner_id) w.owner_id, p
  from (
    select s.id as owner_id, s.plan_id, 'workspace' as payer
    from unnest(workspaces) as u (id)
    join public.workspaces s on s.id = u.id and s.deleted_at is null
    union all
    select m.user_id, s.plan_id, 'member'
    from unnest(members) as u (id)
    join public.workspace_members m on m.user_id = u.id
    join public.workspaces s on s.id = m.workspace_id and s.deleted_at is null
  ) w
  join ai.plans p on p.id = w.plan_id and p.payer = w.payer
  order by w.owner_id, p.initial_credits desc, p.id
$$;

-- Returns the plan under which a workspace or a member pays, or no row if no plan charges them.
create or replace function ai.paying_plan(payer text, owner_id uuid) returns setof ai.plans
  language sql stable security invoker set search_path = ''
as $$
  select (p.plan).*
  from ai.paying_plans(
    case payer when 'workspace' then array[paying_plan.owner_id] end, case payer when 'member' then array[paying_plan.owner_id] end
  ) as p
$$;

-- Returns the email addresses that receive warnings about a balance. If the workspace pays, these are its owners and
-- its members with manage_ai_policy; otherwise the member who pays.
create or replace function ai.credit_recipients(workspace uuid, member_id uuid) returns setof text
  language sql stable security invoker set search_path = ''
as $$
  select r.email from ai.budget_recipients('workspace', workspace) as r (email)
  union all
  select u.email
  from auth.users u
  where u.id = member_id
    and char_length(u.email) between 3 and 320
    and u.deleted_at is null
    and (u.banned_until is null or u.banned_until <= now())
$$;

-- Returns { level, available } if the balance that pays for a member's calls in a workspace is low or empty. Returns
-- null otherwise, or if the member lacks use_ai_studio.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credit_notice(member_id uuid, workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object('level', x.level, 'available', trim_scale(greatest((o.a).balance - (o.a).reserved, 0))::text)
  from public.workspaces w
  join ai.plans p on p.id = w.plan_id
  cross join lateral (
    select a from ai.credit_accounts a
    where case p.payer when 'workspace' then a.workspace_id = w.id else a.user_id = member_id end
    union all
    -- If no credit account exists yet, uses the plan's initial credits.
    select jsonb_populate_record(null::ai.credit_accounts, jsonb_build_object('balance', p.initial_credits, 'reserved', 0))
    where not exists (
      select from ai.credit_accounts a
      where coalesce(a.workspace_id, a.user_id) = case p.payer when 'workspace' then w.id else member_id end
    )
  ) o
  cross join lateral (
    select ai.credit_level(
      o.a,
      case p.payer
        when 'member' then (select ai.low_credits(m) from ai.paying_plan('member', member_id) as m)
        else ai.low_credits(p)
      end
    ) as level
  ) x
  where w.id = workspace and w.deleted_at is null and x.level > 'funded'
    and private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
$$;
