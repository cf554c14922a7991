-- Sums the usage of all workspaces by provider and billing account.

-- Returns the normalized provider name under which a run is compared with imported costs and invoices. Uses the run's
-- billing name, or the provider's id if the run has no billing name.
create or replace function ai.billing_provider(billing_name text, provider_id text) returns text
  language sql immutable security invoker
as $$
  select ai.provider_name(coalesce(billing_name, provider_id, 'unknown'))
$$;

-- Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by provider and billing account.
-- With of_provider (a result of ai.billing_provider), returns only that provider's usage, also grouped by workspace and
-- day. Runs closed by the sweep name no billing provider, so the usage of every of_provider includes all of them.
-- Without of_provider, workspace_id is null, and day is null unless by_day is set. Not granted to any role.
create or replace function ai.platform_usage(
  first_day date, last_day date, of_provider text default null, by_day boolean default false
)
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
  summed record := ai.summed_range(first_day, last_day + 1, detailed);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return query
    with parts as (
      -- Groups each part separately, so that Postgres can hash the rows of a small part instead of sorting them.
      select case when detailed then u.workspace_id end as workspace_id, case when detailed or by_day then u.day end as day,
        u.provider_id, u.billing_name, u.billing_account, sum(u.requests) as requests, sum(u.failed) as failed,
        sum(u.input_tokens) as input_tokens, sum(u.output_tokens) as output_tokens, sum(u.cost_usd) as cost_usd,
        sum(u.estimated_runs) as estimated_runs, sum(u.closed_runs) as closed_runs
      from ai.usage_daily u
      where u.day >= summed.first_day and u.day < summed.end_day
        and (not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider)
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
      union all
      select case when detailed then c.workspace_id end, case when detailed or by_day then c.day end, c.provider_id, c.billing_name,
        c.billing_account, sum(c.requests), sum(c.failed), sum(c.input_tokens), sum(c.output_tokens), sum(c.cost_usd),
        sum(c.estimated_runs), sum(c.closed_runs)
      from ai.usage_changes c
      where c.run_created_at >= summed.first_moment and c.run_created_at < summed.end_moment
        and (not detailed or c.closed_runs <> 0 or ai.billing_provider(c.billing_name, c.provider_id) = of_provider)
      group by 1, 2, c.provider_id, c.billing_name, c.billing_account
      union all
      select case when detailed then u.workspace_id end, case when detailed or by_day then u.day end, u.provider_id, u.billing_name,
        u.billing_account, sum(u.requests), sum(u.failed), sum(u.input_tokens), sum(u.output_tokens), sum(u.cost_usd),
        sum(u.estimated_runs), sum(u.closed_runs)
      from (
        select * from ai.runs b where b.created_at >= range_start and b.created_at < summed.first_moment
        union all
        select * from ai.runs a where a.created_at >= summed.end_moment and a.created_at < range_end
      ) as r
      cross join lateral ai.run_usage(r) u
      where not detailed or u.closed_runs > 0 or ai.billing_provider(u.billing_name, u.provider_id) = of_provider
      group by 1, 2, u.provider_id, u.billing_name, u.billing_account
    )
    select p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account, sum(p.requests), sum(p.failed),
      sum(p.input_tokens), sum(p.output_tokens), sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from parts p
    group by p.workspace_id, p.day, p.provider_id, p.billing_name, p.billing_account
    having sum(p.requests) > 0;
end
$$;
