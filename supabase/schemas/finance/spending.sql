-- Lists how much each workspace or account spends.

-- Returns the usage of all workspaces from first_day to last_day (UTC, inclusive), by workspace or, if grouped_by is
-- account, by the member who called or who made the key: { totals: { owners, requests, failed, costUsd, billedCredits },
-- rows: [{ id, name, email, plan, isDeleted, requests, failed, costUsd, billedCredits, balance, available, lastDay,
-- value }] }. Amounts are text, and owners are those with runs. The row whose id is null has the runs without an account,
-- so that all rows add up to the cost of ai.platform_usage. balance and available are current, and null without a credit
-- account.
-- Rows are ordered by sorted_by (cost, runs, failed, credits, balance or id), highest value first, and then by id. after
-- is the value and the id of the last row of the page before. With with_balances, also lists owners without usage whose
-- balance is not 0.
-- Definer: email addresses are in Supabase Auth's tables, and functions that read runs are not granted to the service
-- role.
create or replace function private.list_spending(
  grouped_by text, first_day date, last_day date, sorted_by text, with_balances boolean, after jsonb, page_size integer
)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- Days are in UTC. A custom plan is required, because a generic plan would read all daily sums.
  set timezone = 'UTC' set plan_cache_mode = force_custom_plan
as $$
declare
  by_account boolean := grouped_by = 'account';
  nil_id uuid := '00000000-0000-0000-0000-000000000000';
  -- Only detailed sums have accounts.
  summed record := ai.summed_range(first_day, last_day + 1, by_account);
  range_start timestamptz := first_day;
  range_end timestamptz := last_day + 1;
begin
  return (
    with spent as (
      select
        case when by_account then p.actor_id else p.workspace_id end as id, sum(p.requests) as requests,
        sum(p.failed) as failed, sum(p.cost_usd) as cost_usd, sum(p.billed_credits) as billed_credits,
        max(p.day) filter (where p.requests > 0) as last_day
      from ai.platform_parts(
        range_start, range_end, summed.first_moment, summed.end_moment, summed.first_day, summed.end_day
      ) as p
      group by 1
      having sum(p.requests) > 0
    ), owners as materialized (
      select
        coalesce(s.id, a.owner_id) as id, coalesce(s.requests, 0) as requests, coalesce(s.failed, 0) as failed,
        coalesce(s.cost_usd, 0) as cost_usd, coalesce(s.billed_credits, 0) as billed_credits, s.last_day, a.balance,
        a.balance - a.reserved as available
      from spent s
      full join (
        select case when by_account then c.user_id else c.workspace_id end as owner_id, c.balance, c.reserved
        from ai.credit_accounts c
      ) a on a.owner_id = s.id
      where s.requests is not null or (with_balances and a.owner_id is not null and a.balance <> 0)
    ), listed as (
      select o.*,
        coalesce(o.id, nil_id) as place,
        case sorted_by
          when 'runs' then o.requests
          when 'failed' then o.failed
          when 'credits' then o.billed_credits
          when 'balance' then coalesce(o.balance, '-infinity')
          when 'id' then 0
          else o.cost_usd
        end as value
      from owners o
    ), page as (
      select l.*
      from listed l
      where after is null or l.value < (after ->> 'value')::numeric
        or (l.value = (after ->> 'value')::numeric and l.place > coalesce((after ->> 'id')::uuid, nil_id))
      order by l.value desc, l.place
      limit page_size
    )
    select jsonb_build_object(
      'totals', (
        select jsonb_build_object(
          'owners', count(o.id) filter (where o.requests > 0),
          'requests', coalesce(sum(o.requests), 0),
          'failed', coalesce(sum(o.failed), 0),
          'costUsd', trim_scale(coalesce(sum(o.cost_usd), 0))::text,
          'billedCredits', trim_scale(coalesce(sum(o.billed_credits), 0))::text
        )
        from owners o
      ),
      'rows', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'id', g.id,
          'name', case when by_account then f.display_name else w.name end,
          'email', u.email,
          'plan', coalesce(n.name, w.plan_id),
          'isDeleted', g.id is not null and case when by_account then u.id is null else w.id is null or w.deleted_at is not null end,
          'requests', g.requests,
          'failed', g.failed,
          'costUsd', trim_scale(g.cost_usd)::text,
          'billedCredits', trim_scale(g.billed_credits)::text,
          'balance', trim_scale(g.balance)::text,
          'available', trim_scale(g.available)::text,
          'lastDay', g.last_day,
          'value', trim_scale(g.value)::text
        ) order by g.value desc, g.place), '[]')
        from page g
        left join public.workspaces w on not by_account and w.id = g.id
        left join ai.plans n on n.id = w.plan_id
        left join auth.users u on by_account and u.id = g.id and u.deleted_at is null
        left join public.profiles f on f.id = u.id
      )
    )
  );
end
$$;
