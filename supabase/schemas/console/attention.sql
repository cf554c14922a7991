-- What in the deployment needs a person: the rows of the console's overview, and the counts of its menu. Each kind has
-- one function, which both read, so that they never disagree. Neither reads the tables of alerts, which are filled only
-- where emails are sent.

-- Returns the budgets that are used up and refused a call in the last 24 hours, the latest refusal first. Envelopes are
-- excluded, because their owners decide about them. Finds the scopes by the primary key: an index of refused_at would
-- slow every call that changes a budget. Not granted to any role.
create or replace function private.used_up_budgets(max_rows integer) returns setof ai.budgets
  language sql stable security invoker set search_path = ''
as $$
  select (r.budget).*
  from (
    select b as budget
    from ai.budgets b
    where b.scope in ('key', 'app', 'member', 'label', 'workspace') and b.refused_at > now() - interval '24 hours'
    -- Otherwise, Postgres could apply the costly rule below to all budgets.
    offset 0
  ) r
  where ai.budget_refuses_calls(r.budget)
    and exists (select from public.workspaces w where w.id = (r.budget).workspace_id and w.deleted_at is null)
  order by (r.budget).refused_at desc, (r.budget).subject_id, (r.budget).period
  limit max_rows
$$;

-- Returns the balances that refused a call in the last seven days, were not topped up since, and have fewer credits left
-- than their plan calls low, or than 1,000 if the plan says 0. The latest refusal comes first. A call that was refused
-- with more left was simply very large. Not granted to any role.
create or replace function private.used_up_credits(max_rows integer) returns setof ai.credit_accounts
  language sql stable security invoker set search_path = ''
as $$
  with refused as materialized (
    select a.* from ai.credit_accounts a where a.refused_at > now() - interval '7 days'
  )
  select r.*
  from refused r
  -- Deleted owners have no plan.
  join ai.paying_plans(
    (select array_agg(w.workspace_id) from refused w), (select array_agg(m.user_id) from refused m)
  ) p on p.owner_id = coalesce(r.workspace_id, r.user_id)
  where r.balance - r.reserved < coalesce(nullif(ai.low_credits(p.plan), 0), 1000)
  order by r.refused_at desc, r.id
  limit max_rows
$$;

-- Returns the first days of those of the last twelve ended months (UTC) that have runs, or records in the platform's
-- book, and are not closed, oldest first. Not granted to any role.
create or replace function private.unreconciled_months() returns setof date
  language sql stable security invoker set search_path = '' set timezone = 'UTC'
as $$
  select m.first_day
  from (
    select (date_trunc('month', now()) - n * interval '1 month')::date as first_day,
      (date_trunc('month', now()) - (n - 1) * interval '1 month')::date as end_day
    from generate_series(1, 12) as n
  ) m
  where not exists (
    select from ai.book_statements s
    where s.book_id = ai.platform_book() and s.month = m.first_day and s.reopened_at is null
  ) and (
    exists (select from ai.usage_daily u where u.day >= m.first_day and u.day < m.end_day)
    or exists (select from ai.runs r where r.created_at >= m.first_day and r.created_at < m.end_day)
    or exists (
      select from ai.cost_book_entries e
      where e.book_id = ai.platform_book() and e.occurred_at >= m.first_day and e.occurred_at < m.end_day
    )
    or exists (
      select from ai.invoice_book_entries i
      where i.book_id = ai.platform_book()
        and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && daterange(m.first_day, m.end_day)
    )
  )
  order by m.first_day
$$;

-- Returns those of the providers' importers whose last attempts failed, or that missed days. The caller names the
-- providers that are configured, which the database does not know. Not granted to any role.
create or replace function private.failing_importers(providers text[])
  returns table (provider text, failures integer, last_error text, last_complete_day date, missed_days integer)
  language sql stable security invoker set search_path = ''
as $$
  select i.provider, i.failures, i.last_error, i.last_complete_day, m.days
  from ai.cost_importers i
  cross join lateral (
    select coalesce(sum(upper(r.days) - lower(r.days)), 0)::integer as days from unnest(ai.missed_days(i)) as r (days)
  ) m
  where i.provider = any (providers) and (i.failures > 0 or m.days > 0)
  order by i.provider
$$;

-- Returns the scheduled jobs that are behind: the sweep after 5 minutes, the sums of usage after 10, as the alerts of
-- monitoring. since is when a job last finished, or null if it never did. Not granted to any role.
create or replace function private.late_jobs() returns table (job text, since timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select j.job, nullif(j.done_until, '-infinity')
  from (
    select 'sweep', p.seen_until, interval '5 minutes' from ai.sweep_progress p
    union all
    select 'sums', u.summed_until, interval '10 minutes' from ai.usage_progress u
  ) as j (job, done_until, max_age)
  where j.done_until < now() - j.max_age
  order by j.job
$$;

-- Returns recoveries that are begun and not finished, the oldest first: resets of authenticators, which keep an account
-- closed until an admin finishes them, and active overrides that have not been used. ends_at is an override's. Reads the
-- log of the last 90 days, and only the accounts that it names. Not granted to any role.
create or replace function private.unfinished_recoveries(max_rows integer)
  returns table (kind text, user_id uuid, email text, since timestamptz, ends_at timestamptz)
  language sql stable security invoker set search_path = ''
as $$
  select 'reset', l.user_id, a.email, l.since, null::timestamptz
  from (
    select g.target_user_id as user_id, max(g.created_at) as since
    from private.admin_audit_log g
    where g.created_at > now() - interval '90 days' and g.action = 'required_mfa.begin_reset'
    group by g.target_user_id
  ) l
  cross join lateral (
    select u.email::text
    from auth.users u
    where u.id = l.user_id and u.deleted_at is null
      and private.required_mfa_state(u.raw_app_meta_data) = 'recovery_in_progress'
    -- Otherwise, Postgres could read all accounts.
    offset 0
  ) a
  union all
  select 'override', null, o.email, o.created_at, o.expires_at
  from private.recovery_overrides o
  where o.revoked_at is null and o.expires_at > now() and o.used_at is null
  order by 4, 3
  limit max_rows
$$;

-- Returns the platform's service accounts that expire within 14 days or expired in the last seven, or that are in force
-- although a person who created them, or added a credential that works, no longer has a role in the console. The
-- earliest expiry comes first. Not granted to any role.
create or replace function private.service_accounts_to_review(max_rows integer)
  returns table (id uuid, name text, expires_at timestamptz, creator_left boolean)
  language sql stable security invoker set search_path = ''
as $$
  select r.*
  from (
    select s.id, s.name, s.expires_at, exists (
        select from private.service_account_holders(s) h where private.console_role(h) is null
      ) as creator_left
    from private.service_accounts s
    where s.workspace_id is null and s.enabled and s.revoked_at is null and s.expires_at > now() - interval '7 days'
  ) r
  where r.expires_at < now() + interval '14 days' or r.creator_left
  order by r.expires_at, r.id
  limit max_rows
$$;

-- Returns the calls that were refused on a day (UTC). Looks up each workspace of the sums by its index, because there is
-- no index of days. Not granted to any role.
create or replace function private.refused_calls_of(of_day date) returns numeric
  language sql stable security invoker set search_path = ''
as $$
  with recursive workspaces as (
    (select d.workspace_id from ai.refused_daily d order by d.workspace_id limit 1)
    union all
    select (
      select d.workspace_id from ai.refused_daily d
      where d.workspace_id > w.workspace_id
      order by d.workspace_id
      limit 1
    )
    from workspaces w
    where w.workspace_id is not null
  )
  select coalesce(sum(r.refused), 0)
  from workspaces w
  cross join lateral (
    select d.refused from ai.refused_daily d where d.workspace_id = w.workspace_id and d.day = of_day offset 0
  ) r
$$;

-- Returns how many rows of each kind need a person, up to 1,001, and since when: { approvals, months, importers,
-- recoveries, deletions, machines, providers }, each { count, since }, and also { budgets, credits, mails, jobs } unless
-- in_menu is set, since the menu has no section for them. since is the earliest time or day, or null if it is unknown. cost_providers are the
-- providers whose costs are imported automatically.
-- Definer: functions that read budgets, runs, books and accounts are not granted to the service role.
create or replace function private.read_attention(cost_providers text[], in_menu boolean default false) returns jsonb
  language sql stable security definer set search_path = '' set jit = off
as $$
  select jsonb_build_object(
    'approvals', (
      select jsonb_build_object('count', private.count_approval_requests(), 'since', (
        select q.requested_at
        from ai.key_approval_requests q
        join public.workspaces w on w.id = q.workspace_id and w.deleted_at is null
        where q.state = 'open'
        order by q.requested_at
        limit 1
      ))
    ),
    'months', (
      select jsonb_build_object('count', count(*), 'since', min(m)) from private.unreconciled_months() m
    ),
    'importers', (
      select jsonb_build_object('count', count(*), 'since', null) from private.failing_importers(cost_providers)
    ),
    'recoveries', (
      select jsonb_build_object('count', count(*), 'since', min(r.since)) from private.unfinished_recoveries(1001) r
    ),
    'deletions', (
      select jsonb_build_object('count', count(*), 'since', min(d.due_at)) from private.blocked_deletions(1001) d
    ),
    'machines', (
      select jsonb_build_object('count', count(*), 'since', min(s.expires_at))
      from private.service_accounts_to_review(1001) s
    ),
    'providers', (
      select jsonb_build_object('count', private.count_provider_trouble(), 'since', min(t.since))
      from private.list_troubled_providers(now()) t
    )
  ) || case when in_menu then '{}' else jsonb_build_object(
    'budgets', (
      select jsonb_build_object('count', count(*), 'since', min(b.refused_at)) from private.used_up_budgets(1001) b
    ),
    'credits', (
      select jsonb_build_object('count', count(*), 'since', min(a.refused_at)) from private.used_up_credits(1001) a
    ),
    'mails', (
      select jsonb_build_object('count', count(*), 'since', min(o.created_at))
      from (
        select m.created_at
        from private.outgoing_mails m
        where m.attempts >= 12 or m.next_attempt_at < now() - interval '15 minutes'
        order by m.created_at
        limit 1001
      ) o
    ),
    'jobs', (select jsonb_build_object('count', count(*), 'since', min(j.since)) from private.late_jobs() j)
  ) end
$$;

-- Returns what the console's overview shows: { attention, providers, approvals, budgets, credits, months, importers,
-- mails, jobs, recoveries, deletions, machines, today, usual }. attention is private.read_attention, providers is
-- private.read_provider_trouble, usual is private.read_usual_day, and the lists have at most 10 rows. mails is { failed,
-- waiting }, each up to 1,001. today is { calls, failed, refused, costUsd } since midnight (UTC), as on the page about
-- providers.
-- Definer: functions that read budgets, runs, books and accounts are not granted to the service role.
create or replace function private.read_overview(cost_providers text[]) returns jsonb
  language sql stable security definer set search_path = '' set jit = off
as $$
  select jsonb_build_object(
    'attention', private.read_attention(cost_providers),
    'providers', private.read_provider_trouble(),
    'approvals', private.list_approval_requests(null, 10),
    'budgets', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'workspaceId', b.workspace_id,
        'workspace', w.name,
        'scope', b.scope,
        'subjectId', b.subject_id,
        'name', ai.budget_name(b.scope, b.subject_id, b.workspace_id),
        'period', b.period,
        'limitUsd', trim_scale(b.limit_usd)::text,
        'refusedAt', b.refused_at
      ) order by b.refused_at desc, b.subject_id, b.period), '[]')
      from private.used_up_budgets(10) b
      join public.workspaces w on w.id = b.workspace_id
    ),
    'credits', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'payer', case when a.workspace_id is null then 'member' else 'workspace' end,
        'ownerId', coalesce(a.workspace_id, a.user_id),
        'name', coalesce(
          (select w.name::text from public.workspaces w where w.id = a.workspace_id),
          (select u.email::text from auth.users u where u.id = a.user_id)
        ),
        'available', trim_scale(a.balance - a.reserved)::text,
        'refusedAt', a.refused_at
      ) order by a.refused_at desc, a.id), '[]')
      from private.used_up_credits(10) a
    ),
    'months', (
      select coalesce(jsonb_agg(to_char(m.day, 'YYYY-MM') order by m.day), '[]')
      from (select d as day from private.unreconciled_months() d limit 10) m
    ),
    'importers', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'failures', i.failures, 'lastError', i.last_error,
        'lastCompleteDay', i.last_complete_day, 'missedDays', i.missed_days
      )), '[]')
      from (select * from private.failing_importers(cost_providers) limit 10) i
    ),
    'mails', jsonb_build_object(
      'failed', (
        select count(*) from (select from private.outgoing_mails m where m.attempts >= 12 limit 1001) f
      ),
      'waiting', (
        select count(*) from (
          select from private.outgoing_mails m
          where m.attempts < 12 and m.next_attempt_at < now() - interval '15 minutes'
          limit 1001
        ) f
      )
    ),
    'jobs', (select coalesce(jsonb_agg(jsonb_build_object('job', j.job, 'since', j.since)), '[]') from private.late_jobs() j),
    'recoveries', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', r.kind, 'userId', r.user_id, 'email', r.email, 'since', r.since, 'endsAt', r.ends_at
      ) order by r.since, r.email), '[]')
      from private.unfinished_recoveries(10) r
    ),
    'deletions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'userId', d.user_id, 'email', d.email, 'dueAt', d.due_at,
        'workspaces', jsonb_path_query_array(d.blockers, '$[0 to 2].name'),
        'blockers', jsonb_array_length(d.blockers)
      ) order by d.due_at, d.user_id), '[]')
      from private.blocked_deletions(10) d
    ),
    'machines', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id, 'name', s.name, 'expiresAt', s.expires_at, 'creatorLeft', s.creator_left
      ) order by s.expires_at, s.id), '[]')
      from private.service_accounts_to_review(10) s
    ),
    'today', (
      select jsonb_build_object(
        'calls', coalesce(sum(t.requests), 0),
        'failed', coalesce(sum(t.failed), 0),
        'refused', private.refused_calls_of(d.day),
        'costUsd', trim_scale(coalesce(sum(t.cost_usd), 0))::text
      )
      from (select (now() at time zone 'UTC')::date as day) d
      left join lateral ai.platform_usage(d.day, d.day) t on true
      group by d.day
    ),
    'usual', private.read_usual_day()
  )
$$;
