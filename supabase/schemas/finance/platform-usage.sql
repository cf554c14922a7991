-- Sums the usage of all workspaces by provider and billing account.

-- Returns the normalized provider name under which a run is compared with imported costs and invoices. Uses the run's
-- billing name, or the provider's id if the run has no billing name.
create or replace function ai.billing_provider(billing_name text, provider_id text) returns text
  language sql immutable security invoker
as $$
  select ai.provider_name(coalesce(billing_name, provider_id, 'unknown'))
$$;

-- Returns the usage of all workspaces from range_start to before range_end, in rows that callers group: the sums of the
-- days from first_day to before end_day, the changes since, and the runs outside of first_moment to end_moment. The
-- last four arguments are a result of ai.summed_range. Changes can make a group's requests 0; callers leave such groups
-- out. Not granted to any role.
-- Has no SET clause, so that Postgres inlines it. Callers run it with a custom plan, because a generic plan would read
-- all daily sums.
create or replace function ai.platform_parts(
  range_start timestamptz, range_end timestamptz, first_moment timestamptz, end_moment timestamptz, first_day date,
  end_day date
)
  returns setof ai.usage_daily
  language sql stable security invoker
as $$
  select u.*
  from ai.usage_daily u
  where u.day >= first_day and u.day < end_day
  union all
  select u.*
  from ai.usage_changes c
  cross join lateral ai.changed_usage(c) u
  where c.run_created_at >= first_moment and c.run_created_at < end_moment
  union all
  select u.*
  from ai.runs r
  cross join lateral ai.run_usage(r) u
  where r.created_at >= range_start and r.created_at < first_moment
  union all
  select u.*
  from ai.runs r
  cross join lateral ai.run_usage(r) u
  where r.created_at >= end_moment and r.created_at < range_end
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
  -- Hashes the rows instead of sorting them, although Postgres overestimates the number of groups.
  set work_mem = '64MB'
as $$
#variable_conflict use_column
declare
  detailed boolean := of_provider is not null;
  summed record := ai.summed_range(first_day, last_day + 1, detailed);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return query
    select case when detailed then p.workspace_id end, case when detailed or by_day then p.day end, p.provider_id,
      p.billing_name, p.billing_account, sum(p.requests), sum(p.failed), sum(p.input_tokens), sum(p.output_tokens),
      sum(p.cost_usd), sum(p.estimated_runs), sum(p.closed_runs)
    from ai.platform_parts(
      range_start, range_end, summed.first_moment, summed.end_moment, summed.first_day, summed.end_day
    ) as p
    where not detailed or p.closed_runs <> 0 or ai.billing_provider(p.billing_name, p.provider_id) = of_provider
    group by 1, 2, p.provider_id, p.billing_name, p.billing_account
    having sum(p.requests) > 0;
end
$$;
