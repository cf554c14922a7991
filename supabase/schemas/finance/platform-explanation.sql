-- Breaks down a provider's metered and imported costs for a month by workspace and by day. Lists the likely causes if
-- the provider's bill differs from the metered cost.

-- Explains a provider's costs in the platform's book for one month: { outcome: explained, month, provider, workspaces
-- (ai.platform_workspaces), days: [{ day, accountId, meteredUsd, importedUsd }], causes (ai.platform_causes) }.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.explain_platform_month(month date, provider text) returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- Days are in UTC.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
declare
  first_day date := date_trunc('month', month::timestamp);
  end_day date := first_day + interval '1 month';
  of_provider text := ai.provider_name(provider);
  parts ai.platform_part[];
begin
  parts := array(
    select p from ai.platform_month_parts(first_day, end_day, of_provider) p
  );
  return jsonb_build_object(
    'outcome', 'explained',
    'month', to_char(first_day, 'YYYY-MM'),
    'provider', of_provider,
    'workspaces', ai.platform_workspaces(parts),
    'days', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'day', d.day,
        'accountId', d.account_id,
        'meteredUsd', trim_scale(d.metered)::text,
        'importedUsd', trim_scale(d.imported)::text
      ) order by d.day, d.account_id collate "C" nulls first), '[]')
      from (
        select p.day, p.account_id, coalesce(sum(p.metered), 0) as metered, coalesce(sum(p.imported), 0) as imported
        from unnest(parts) p
        where p.kind in ('metered', 'booked') and (p.metered is not null or p.imported is not null)
        group by p.day, p.account_id
      ) d
    ),
    'causes', ai.platform_causes(parts)
  );
end
$$;

-- Returns the parts that add up to a provider's figures for a month, from all workspaces and from the platform's book.
-- Not granted to any role.
create or replace function ai.platform_month_parts(first_day date, end_day date, of_provider text)
  returns setof ai.platform_part
  language sql stable security invoker set search_path = '' set timezone = 'UTC'
as $$
  with usage as materialized (
    select u.*, ai.billing_provider(u.billing_name, u.provider_id) as billed_by
    from ai.platform_usage(first_day, end_day - 1, of_provider) u
  )
  select 'metered', u.workspace_id, u.day, u.billing_account,
    coalesce(sum(u.cost_usd) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.requests) filter (where u.billed_by = of_provider), 0),
    coalesce(sum(u.estimated_runs) filter (where u.billed_by = of_provider), 0),
    sum(u.closed_runs), null::numeric, null::numeric
  from usage u
  -- Runs that the sweep closed have no billing provider. They are counted for the billing provider of other runs with
  -- the same provider id.
  where u.billed_by = of_provider
    or (u.billing_name is null and u.provider_id in (select b.provider_id from usage b where b.billed_by = of_provider))
  group by u.workspace_id, u.day, u.billing_account
  union all
  select 'booked', null, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.booked_costs(ai.platform_book(), first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
  union all
  select 'own', w.id, b.day, b.account_id, null, null, null, null, b.imported, b.invoiced
  from ai.workspaces_with_books() as w (id)
  cross join lateral ai.booked_costs(w.id, first_day::timestamptz, end_day::timestamptz) b
  where b.provider = of_provider
$$;

-- Returns the workspaces whose own books contain imported costs or invoices.
create or replace function ai.workspaces_with_books() returns setof uuid
  language sql stable security invoker set search_path = ''
as $$
  -- Finds each workspace with one index lookup, because reading all records would become slower as the tables grow.
  -- Begins after the nil UUID, which is the platform's book and comes before all others.
  with recursive with_costs (id) as (
    select ai.platform_book()
    union all
    select (
      select c.workspace_id from ai.external_provider_costs c where c.workspace_id > w.id order by c.workspace_id limit 1
    )
    from with_costs w
    where w.id is not null
  ), with_invoices (id) as (
    select ai.platform_book()
    union all
    select (
      select i.workspace_id from ai.external_provider_invoices i where i.workspace_id > w.id order by i.workspace_id limit 1
    )
    from with_invoices w
    where w.id is not null
  )
  select id from with_costs where id <> ai.platform_book()
  union
  select id from with_invoices where id <> ai.platform_book()
$$;

-- Returns a provider's figures for a month by workspace and provider account, the largest difference first: [{
-- workspaceId, name (null once deleted), accountId (null for runs that name no account), meteredUsd, runs,
-- estimatedRuns, closedRuns, importedUsd, invoicedUsd, differenceUsd }]. importedUsd and invoicedUsd are from the
-- workspace's own book. differenceUsd is the imported cost minus the metered cost, or null if the workspace has no
-- imports.
create or replace function ai.platform_workspaces(parts ai.platform_part[]) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  -- Uses window functions instead of joins, because Postgres can't estimate the number of elements in `parts`.
  with sums as (
    select p.kind, p.workspace_id, p.account_id, coalesce(sum(p.metered), 0) as metered, coalesce(sum(p.runs), 0) as runs,
      coalesce(sum(p.estimated_runs), 0) as estimated_runs, coalesce(sum(p.closed_runs), 0) as closed_runs,
      sum(p.imported) as imported, coalesce(sum(p.invoiced), 0) as invoiced
    from unnest(parts) p
    where p.kind in ('metered', 'own')
    group by p.kind, p.workspace_id, p.account_id
  ), placed as (
    select s.*,
      bool_or(s.kind = 'metered') over (partition by s.workspace_id, s.account_id) as is_named,
      bool_or(s.kind = 'metered' and s.account_id is null) over (partition by s.workspace_id) as has_unnamed
    from sums s
  ), figures as (
    select p.workspace_id,
      -- If none of the workspace's runs names the account, groups the account's records with the runs that name no
      -- account.
      case when p.is_named or not p.has_unnamed then p.account_id end as account_id,
      sum(p.metered) as metered, sum(p.runs) as runs, sum(p.estimated_runs) as estimated_runs,
      sum(p.closed_runs) as closed_runs, sum(p.imported) as imported, sum(p.invoiced) as invoiced
    from placed p
    group by 1, 2
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'workspaceId', f.workspace_id,
    'name', w.name,
    'accountId', f.account_id,
    'meteredUsd', trim_scale(f.metered)::text,
    'runs', f.runs,
    'estimatedRuns', f.estimated_runs,
    'closedRuns', f.closed_runs,
    'importedUsd', trim_scale(coalesce(f.imported, 0))::text,
    'invoicedUsd', trim_scale(f.invoiced)::text,
    'differenceUsd', trim_scale(f.imported - f.metered)::text
  ) order by abs(f.imported - f.metered) desc nulls last, f.metered desc, f.workspace_id, f.account_id collate "C"), '[]')
  from figures f
  left join public.workspaces w on w.id = f.workspace_id
$$;
