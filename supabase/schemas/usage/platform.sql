-- The usage of all workspaces, by provider and billing account.

-- Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by provider and billing account.
-- With of_provider (a result of ai.billing_provider), returns only that provider's usage, also grouped by workspace and
-- day. Runs closed by the sweep name no billing provider, so the usage of every of_provider includes all of them.
-- Without of_provider, workspace_id and day are null. Not granted to any role.
create or replace function ai.platform_usage(first_day date, last_day date, of_provider text default null)
  returns table (
    workspace_id uuid, day date, provider_id text, billing_name text, billing_account text, requests numeric, failed numeric,
    input_tokens numeric, output_tokens numeric, cost_usd numeric, estimated_runs numeric, closed_runs numeric
  )
  language plpgsql stable security invoker set search_path = ''
  -- Days are in UTC. A custom plan is required, because a generic plan would read all daily sums.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  live_from date := (select s.before from ai.usage_sealed_days s);
  sums_from date := case
    when detailed then (select least(s.detailed_from, s.before) from ai.usage_sealed_days s) else '-infinity'
  end;
  live_start timestamptz := greatest(first_day, live_from);
  summed_start timestamptz := least(last_day + 1, sums_from);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
  changed_days date[] := array(
    select distinct c.day
    from ai.usage_changed_days c
    where c.day between first_day and last_day and c.day >= sums_from and c.day < live_from
  );
begin
  return query
    with changed as (
      select distinct c.workspace_id, c.day
      from ai.usage_changed_days c
      where c.day = any (changed_days)
    ), parts as (
      -- Groups each part separately, so that Postgres can hash the rows of a small part instead of sorting them.
      select case when detailed then u.workspace_id end as workspace_id, case when detailed then u.day end as day,
        u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd,
        sum(u.estimated_runs) as estimated_runs, sum(u.closed_runs) as closed_runs
      from ai.usage_daily u
      where u.day between greatest(first_day, sums_from) and least(last_day, live_from - 1) and u.day <> all (changed_days)
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then u.workspace_id end, case when detailed then u.day end, u.provider_id, u.billing_name,
        u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd),
        sum(u.estimated_runs), sum(u.closed_runs)
      from ai.usage_daily u
      where u.day = any (changed_days) and (u.workspace_id, u.day) not in (select c.workspace_id, c.day from changed c)
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then s.workspace_id end, case when detailed then s.day end, s.provider_id, s.billing_name,
        s.billing_account, sum(s.requests), sum(s.failed), sum(s.input_tokens), sum(s.output_tokens), sum(s.cost_usd),
        sum(s.estimated_runs), sum(s.closed_runs)
      from changed c
      cross join lateral ai.sum_usage(c.workspace_id, c.day::timestamptz, (c.day + 1)::timestamptz) as s
      where not detailed or s.closed_runs > 0 or ai.billing_provider(s.billing_name, s.provider_id) = of_provider
      group by 1, 2, s.provider_id, s.billing_name, s.billing_account
      union all
      select case when detailed then r.workspace_id end, case when detailed then r.created_at::date end,
        ai.run_provider(r.routes, r.route), r.billing_name, r.billing_account, count(*),
        count(*) filter (where r.status = 'failed'), sum(r.input_tokens), sum(r.output_tokens), sum(r.cost_usd),
        count(*) filter (where ai.is_estimated(r.usage_source, r.swept)), count(*) filter (where r.swept)
      from (
        select * from ai.runs l where l.created_at >= live_start and l.created_at < range_end
        union all
        select * from ai.runs o where o.created_at >= range_start and o.created_at < summed_start
      ) as r
      where not detailed or r.swept or ai.billing_provider(r.billing_name, ai.run_provider(r.routes, r.route)) = of_provider
      group by 1, 2, 3, r.billing_name, r.billing_account
    )
    select p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account, sum(p.requests), sum(p.failed),
      sum(p.input_tokens), sum(p.output_tokens), sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from parts p
    group by p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account;
end
$$;
