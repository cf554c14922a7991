-- Shows a workspace's credits to its members. In a free workspace, each member's own balance pays.

-- Returns the credits that a member with use_ai_studio can see: balances, a page of the ledger, and the credits used in
-- the window. The default window is the last 30 days. Used credits are credits billed for runs and credits deducted
-- without a run. availableUsd is the provider cost that a balance pays for at the plan's markup. With with_totals =
-- false, returns only the page, for an export that reads page by page.
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
      select a.*, case when a.workspace_id is null then 'member' else 'workspace' end as payer
      from ai.credit_accounts_of(member_id, workspace) a
    ), runs as (
      select coalesce(sum(u.billed_credits), 0) as billed, coalesce(sum(u.unmetered_credits), 0) as unmetered
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
            'availableUsd', trim_scale(round((a.balance - a.reserved) / credits_per_usd, 12))::text
          )
          order by a.payer desc
        ), '[]')
        from accounts a
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
