-- Shows a workspace's credits to its members. In a free workspace, each member's own balance pays.

-- Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and the credits used in
-- the window. The default window is the last 30 days. Used credits are credits billed for runs and credits deducted
-- without a run. availableUsd is the provider cost that a balance pays for at the plan's markup. Each account has the
-- changes of its balance in the window (ai.balance_changes). elsewhere has the credits of the window's runs that no
-- account shown paid in the window, so that runCredits less these credits is what the accounts paid, and whether members'
-- own balances paid part of them. With with_totals = false, returns only the page, for an export that reads page by page.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.read_credits(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  before_id bigint default null, page_size integer default 50, with_totals boolean default true
) returns jsonb
  language plpgsql stable security definer set search_path = '' set timezone = 'UTC'
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  report_window record := ai.usage_window(given_from, given_to, 30);
  last_id bigint := coalesce(before_id, 9223372036854775807);
  -- Null if the workspace hides provider cost, or if its calls are free.
  credits_per_usd numeric := case when ai.cost_visible(workspace) then (
    select nullif(ai.credits_per_usd(p.markup), 0)
    from public.workspaces w
    join ai.plans p on p.id = w.plan_id
    where w.id = workspace
  ) end;
  listed jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  if report_window.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', report_window.fault);
  end if;
  listed := jsonb_build_object(
    'outcome', 'listed',
    'from', ai.utc_text_microseconds(report_window.window_from),
    'to', ai.utc_text_microseconds(report_window.window_to),
    'entries', (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'id', p.id::text,
          'createdAt', ai.utc_text_microseconds(p.created_at),
          'payer', p.payer,
          'kind', p.kind,
          'amount', trim_scale(p.amount)::text,
          'balanceAfter', trim_scale(p.balance_after)::text,
          'runId', p.run_id,
          'description', p.description
        )
        order by p.id desc
      ), '[]')
      from (
        select case when a.workspace_id is null then 'member' else 'workspace' end as payer, e.*
        from ai.credit_accounts_of(member_id, workspace) a
        cross join lateral (
          select *
          from ai.credit_ledger l
          where l.account_id = a.id
            and l.created_at >= report_window.window_from
            and l.created_at < report_window.window_to
            and l.id < last_id
            -- A member's balance pays for runs in all of their free workspaces, but only this workspace's runs are
            -- listed here.
            and (
              a.workspace_id is not null
              or l.run_id is null
              or exists (
                select from ai.runs r
                where r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = workspace
              )
            )
          order by l.id desc
          limit page_size
        ) as e
        order by e.id desc
        limit page_size
      ) p
    )
  );
  if not with_totals then
    return listed;
  end if;
  return listed || (
    with accounts as materialized (
      select
        a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer,
        ai.balance_changes(a, workspace, report_window.window_from, report_window.window_to) as changes
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select
        coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered,
        coalesce(sum(u.billed_credits), 0)
          - coalesce((select sum((a.changes ->> 'runs')::numeric) from accounts a), 0) as elsewhere
      from ai.usage_between(workspace, report_window.window_from, report_window.window_to) u
    ), unlinked as (
      select ai.unlinked_deductions(member_id, workspace, report_window.window_from, report_window.window_to) as credits
    )
    select jsonb_build_object(
      'payer', (select p.payer from public.workspaces w join ai.plans p on p.id = w.plan_id where w.id = workspace),
      'accounts', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'payer', a.payer,
            'balance', trim_scale(a.balance)::text,
            'reserved', trim_scale(a.reserved)::text,
            'available', trim_scale(a.balance - a.reserved)::text,
            'availableUsd', trim_scale(round((a.balance - a.reserved) / credits_per_usd, 12))::text,
            'changes', a.changes
          )
          order by a.payer desc
        ), '[]')
        from accounts a
      ),
      'elsewhere', (
        select jsonb_build_object(
          'credits', trim_scale(r.elsewhere)::text,
          'membersPaid', case r.elsewhere when 0 then false else ai.members_paid(workspace) end
        )
        from runs r
      ),
      'totals', (
        select jsonb_build_object(
          'runCredits', trim_scale(r.billed)::text,
          'otherDeductions', trim_scale(o.credits)::text,
          'usedCredits', trim_scale(r.billed + o.credits)::text,
          'unmeteredCredits', trim_scale(r.unmetered)::text,
          'addedCredits', trim_scale((
            select coalesce(sum(l.amount), 0)
            from accounts a
            join ai.credit_ledger l on l.account_id = a.id
            where l.run_id is null and l.amount > 0
              and l.created_at >= report_window.window_from and l.created_at < report_window.window_to
          ))::text
        )
        from runs r cross join unlinked o
      )
    )
  );
end
$$;

-- Returns the credit accounts that a member can see in a workspace: the workspace's account and, in a free workspace,
-- the member's own account.
create or replace function ai.credit_accounts_of(member_id uuid, workspace uuid) returns setof ai.credit_accounts
  language sql stable security invoker set search_path = ''
as $$
  select a.*
  from public.workspaces w
  join ai.plans p on p.id = w.plan_id
  join ai.credit_accounts a on a.workspace_id = w.id or (p.payer = 'member' and a.user_id = member_id)
  where w.id = workspace
$$;

-- Returns how an account's balance changed in a half-open window: { opening, added, deducted, runs, otherRuns, closing }.
-- opening + added - deducted - runs - otherRuns = closing. added and deducted are entries without a run. otherRuns were
-- made in other workspaces, whose runs a member's own balance also pays.
create or replace function ai.balance_changes(
  account ai.credit_accounts, workspace uuid, window_from timestamptz, window_to timestamptz
) returns jsonb
  language plpgsql stable security invoker set search_path = ''
  -- A generic plan would read an account's whole ledger.
  set plan_cache_mode = force_custom_plan
as $$
declare
  first_id bigint := ai.last_entry_before((account).id, window_from);
  last_id bigint := ai.last_entry_before((account).id, window_to);
  opening numeric := coalesce((
    select l.balance_after from ai.credit_ledger l where l.account_id = (account).id and l.id = first_id
  ), 0);
  closing numeric := coalesce((
    select l.balance_after from ai.credit_ledger l where l.account_id = (account).id and l.id = last_id
  ), 0);
  unlinked record;
  runs numeric;
  other_runs numeric := 0;
begin
  select
    coalesce(sum(l.amount) filter (where l.amount > 0), 0) as added,
    coalesce(-sum(l.amount) filter (where l.amount < 0), 0) as deducted
  into unlinked
  from ai.credit_ledger l
  where l.account_id = (account).id and l.run_id is null and l.id > first_id and l.id <= last_id;
  if (account).user_id is null then
    -- Saves reading the entries of all runs of a busy workspace.
    runs := opening + unlinked.added - unlinked.deducted - closing;
  else
    select
      coalesce(-sum(l.amount) filter (where r.id is not null), 0),
      coalesce(-sum(l.amount) filter (where r.id is null), 0)
    into runs, other_runs
    from ai.credit_ledger l
    left join ai.runs r
      on r.created_at = l.run_created_at and r.id = l.run_id and r.workspace_id = balance_changes.workspace
    where l.account_id = (account).id and l.run_id is not null and l.id > first_id and l.id <= last_id;
  end if;
  return jsonb_build_object(
    'opening', trim_scale(opening)::text,
    'added', trim_scale(unlinked.added)::text,
    'deducted', trim_scale(unlinked.deducted)::text,
    'runs', trim_scale(runs)::text,
    'otherRuns', trim_scale(other_runs)::text,
    'closing', trim_scale(closing)::text
  );
end
$$;

-- Returns the id of an account's last ledger entry before a moment, or 0 if there is none. Entries are numbered in the
-- order of their balances, so a binary search finds the entry without reading the ledger.
create or replace function ai.last_entry_before(account uuid, moment timestamptz) returns bigint
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  -- All entries up to low are before the moment, and no entry after high is.
  low bigint := 0;
  high bigint;
  middle bigint;
  entry record;
begin
  select l.id, l.created_at into entry from ai.credit_ledger l where l.account_id = account order by l.id desc limit 1;
  if not found or entry.created_at < moment then
    return coalesce(entry.id, 0);
  end if;
  high := entry.id;
  while low < high loop
    middle := (low + high) / 2;
    select l.id, l.created_at into entry
    from ai.credit_ledger l
    where l.account_id = account and l.id > middle
    order by l.id
    limit 1;
    if entry.created_at < moment then
      low := entry.id;
    else
      high := middle;
    end if;
  end loop;
  return coalesce((
    select l.id from ai.credit_ledger l where l.account_id = account and l.id <= low order by l.id desc limit 1
  ), 0);
end
$$;

-- Returns whether members' own balances have paid for runs of a workspace: all runs cost more than the workspace's
-- balance has paid.
create or replace function ai.members_paid(workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(sum(u.billed_credits), 0) <> coalesce((
    select (
      select coalesce(sum(l.amount), 0) from ai.credit_ledger l where l.account_id = a.id and l.run_id is null
    ) - a.balance
    from ai.credit_accounts a
    where a.workspace_id = members_paid.workspace
  ), 0)
  from ai.usage_between(workspace, '2000-01-01', now() + interval '1 day') u
$$;

-- Returns the sum of ai.unlinked_deductions_by_day over the window.
create or replace function ai.unlinked_deductions(member_id uuid, workspace uuid, window_from timestamptz, window_to timestamptz)
  returns numeric
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(sum(d.credits), 0) from ai.unlinked_deductions_by_day(member_id, workspace, window_from, window_to) d
$$;

-- Returns the credits that were deducted without a run, by UTC day, as positive numbers. Credits that were billed for a
-- run are stored in that run instead.
create or replace function ai.unlinked_deductions_by_day(
  member_id uuid, workspace uuid, window_from timestamptz, window_to timestamptz
) returns table (day date, credits numeric)
  language sql stable security invoker set search_path = ''
as $$
  select (l.created_at at time zone 'UTC')::date, -sum(l.amount)
  from ai.credit_accounts_of(member_id, workspace) a
  join ai.credit_ledger l on l.account_id = a.id
  where l.run_id is null and l.amount < 0 and l.created_at >= window_from and l.created_at < window_to
  group by 1
$$;
