-- Finds likely causes if a provider's bill for a month differs from the metered cost in the platform's book.

-- Returns likely causes of a difference between a provider's bill and the metered cost, the likeliest first: [{ kind,
-- amountUsd, … }]. Returns the 20 largest causes of each kind. amountUsd is the cause's share of the difference (billed
-- minus metered), or null if unknown. The kinds are workspace_costs_above_metered { workspaceId, name, days: [{ day,
-- amountUsd }] }, account_not_metered { accountId }, days_not_metered and days_not_imported { accountId, days },
-- account_not_imported and account_differs { accountId, workspaces (ai.account_workspaces) }, workspace_runs_closed and
-- workspace_runs_estimated { workspaceId, name, runs }, and invoice_share (the invoiced cost that other causes do not
-- explain). If a run or record names no account, all accounts are compared as one and accountId is null.
create or replace function ai.platform_causes(parts ai.platform_part[]) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with totals as (
    select
      coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.imported) filter (where p.kind = 'booked'), 0) as imported,
      coalesce(sum(p.invoiced) filter (where p.kind = 'booked'), 0) as invoiced,
      count(p.imported) filter (where p.kind = 'booked') > 0 as has_costs,
      count(p.invoiced) filter (where p.kind = 'booked') > 0 as has_invoices,
      -- A cost without an account may belong to any account. If there is such a cost, all accounts are compared as one.
      coalesce(bool_or(p.account_id is null and (p.metered <> 0 or (p.kind = 'booked' and p.imported <> 0))), false) as pooled
    from unnest(parts) p
  ), days as (
    select case when not t.pooled then p.account_id end as account_id, p.day, coalesce(sum(p.metered), 0) as metered,
      coalesce(sum(p.runs), 0) as runs, coalesce(sum(p.imported), 0) as imported, count(p.imported) as records
    from unnest(parts) p
    cross join totals t
    where t.has_costs and p.kind in ('metered', 'booked') and (p.imported is not null or p.runs > 0)
    group by 1, 2
  ), accounts as (
    select d.account_id, sum(d.metered) as metered, sum(d.imported) as imported, sum(d.runs) as runs, sum(d.records) as records
    from days d
    group by d.account_id
  ), spaces as (
    -- How far the costs in a workspace's own book exceed its metered cost. The costs are the workspace's imports or,
    -- without any, its invoices.
    select p.workspace_id, coalesce(sum(p.imported), sum(p.invoiced)) - coalesce(sum(p.metered), 0) as amount,
      sum(p.estimated_runs) as estimated_runs, sum(p.closed_runs) as closed_runs
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.workspace_id
  ), differing as (
    select t.*, case when t.has_costs then t.imported when t.has_invoices then t.invoiced end - t.metered as amount
    from totals t
  ), causes as (
    select 1 as rank, 'workspace_costs_above_metered' as kind, s.workspace_id, null::text as account_id, s.amount,
      jsonb_build_object('days', (
        select coalesce(jsonb_agg(jsonb_build_object('day', o.day, 'amountUsd', trim_scale(o.amount)::text) order by o.day), '[]')
        from (
          select p.day, coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) as amount
          from unnest(parts) p
          where p.workspace_id = s.workspace_id and p.invoiced is null
          group by p.day
          having count(p.imported) > 0 and abs(coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0)) >= 0.005
        ) o
      )) as details
    from (select * from spaces o where o.amount >= 0.005 order by o.amount desc limit 20) s
    union all
    select 2, 'account_not_metered', null, a.account_id, a.imported, '{}'
    from (select * from accounts o where o.runs = 0 and abs(o.imported) >= 0.005 order by abs(o.imported) desc limit 20) a
    union all
    select 3, 'days_not_metered', null, d.account_id, sum(d.imported), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.runs = 0 and abs(d.imported) >= 0.005 and a.runs > 0
    group by d.account_id
    union all
    select 4, 'days_not_imported', null, d.account_id, -sum(d.metered), jsonb_build_object('days', jsonb_agg(d.day order by d.day))
    from days d
    join accounts a on a.account_id is not distinct from d.account_id
    where d.records = 0 and d.metered >= 0.005 and a.records > 0
    group by d.account_id
    union all
    select 5, 'account_not_imported', null, a.account_id, -a.metered, '{}'
    from (select * from accounts o where o.records = 0 and o.metered >= 0.005 order by o.metered desc limit 20) a
    union all
    select 6, 'account_differs', null, a.account_id, a.imported - a.metered, '{}'
    from (
      select * from accounts o
      where o.records > 0 and o.runs > 0 and abs(o.imported - o.metered) >= 0.005
      order by abs(o.imported - o.metered) desc limit 20
    ) a
    union all
    select 7, 'workspace_runs_closed', s.workspace_id, null, null, jsonb_build_object('runs', s.closed_runs)
    from (select * from spaces o where o.closed_runs > 0 order by o.closed_runs desc limit 20) s
    union all
    select 8, 'workspace_runs_estimated', s.workspace_id, null, null, jsonb_build_object('runs', s.estimated_runs)
    from (select * from spaces o where o.estimated_runs > 0 order by o.estimated_runs desc limit 20) s
  ), rest as (
    select case
      when d.has_costs then d.invoiced - d.imported
      else d.amount - coalesce((select sum(c.amount) from causes c where c.kind = 'workspace_costs_above_metered'), 0)
    end as amount
    from differing d
    where d.has_invoices
  ), listed as (
    select c.*
    from causes c
    cross join differing d
    where abs(d.amount) >= 0.005 or exists (select from causes o where o.rank between 2 and 6)
    union all
    select 9, 'invoice_share', null, null, r.amount, '{}'
    from rest r
    where abs(r.amount) >= 0.005
  )
  select coalesce(jsonb_agg(
    jsonb_build_object('kind', l.kind, 'amountUsd', trim_scale(l.amount)::text)
      || case when l.workspace_id is not null then jsonb_build_object('workspaceId', l.workspace_id, 'name', w.name) else '{}' end
      || case when l.rank between 2 and 6 then jsonb_build_object('accountId', l.account_id) else '{}' end
      || case when l.rank in (5, 6) then jsonb_build_object('workspaces', ai.account_workspaces(parts, l.account_id)) else '{}' end
      || l.details
    -- Causes that would explain the difference come first.
    order by coalesce(sign(l.amount) = sign(d.amount) and l.rank < 9, false) desc, l.rank, abs(l.amount) desc nulls last,
      (l.details ->> 'runs')::numeric desc, l.workspace_id, l.account_id collate "C"
  ), '[]')
  from listed l
  cross join differing d
  left join public.workspaces w on w.id = l.workspace_id
$$;

-- Returns the workspaces that have runs with the given account, at most 100. For a null account, returns workspaces
-- with any runs: [{ workspaceId, name, meteredUsd, daysWithoutRuns }]. daysWithoutRuns lists the days on which the
-- account's bill exceeds its metered cost, but the workspace has no matching runs. The workspaces with the most of
-- these days come first.
create or replace function ai.account_workspaces(parts ai.platform_part[], of_account text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with days as materialized (
    select p.day, coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) as amount
    from unnest(parts) p
    where p.kind in ('metered', 'booked') and (of_account is null or p.account_id = of_account)
    group by p.day
    having coalesce(sum(p.imported), 0) - coalesce(sum(p.metered), 0) >= 0.005
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'workspaceId', s.workspace_id, 'name', w.name, 'meteredUsd', trim_scale(s.metered)::text, 'daysWithoutRuns', g.days
    )
    order by cardinality(g.days) desc, s.metered desc, s.workspace_id
  ), '[]')
  from (
    select p.workspace_id, sum(p.metered) as metered, array_agg(p.day) filter (where p.runs > 0) as used
    from unnest(parts) p
    where p.kind = 'metered' and (of_account is null or p.account_id = of_account)
    group by p.workspace_id
    having sum(p.runs) > 0
    order by sum(p.metered) desc
    limit 100
  ) s
  cross join lateral (
    select array(select d.day from days d where d.day <> all (s.used) order by d.day) as days
  ) g
  left join public.workspaces w on w.id = s.workspace_id
$$;
