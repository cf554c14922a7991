-- Decides which imported costs count in totals.

-- Returns a book's imported costs of a half-open range, and whether each cost counts in totals. The cost of a run does
-- not count if its account has a daily record for the day of the run, even if the record begins before the range. The
-- totals of adjacent ranges therefore add up. A daily record of a service does not count if the account has a total for
-- that day. Of rows that differ only in the case of the provider's name, the last observed counts.
create or replace function ai.provider_costs_in_totals(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (cost ai.cost_book_entries, counted boolean)
  language sql stable security invoker set search_path = ''
as $$
  with superseded as materialized (
    select e.id
    from ai.cost_book_entries e
    cross join lateral ai.find_cost(e.book_id, e.app_id, e.provider, e.account_id, e.external_run_id) f
    where
      -- Postgres evaluates this condition once per query. A partial index contains only the costs whose provider name
      -- is not in lower case.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and e.book_id = book
      and e.occurred_at >= date_trunc('day', window_from, 'UTC')
      and e.occurred_at < window_to
      and f.id <> e.id
  ), days as materialized (
    select
      d.id, d.app_id, d.provider, d.account_id, d.occurred_at,
      -- If the day has a total, counts only its latest record. Otherwise counts the latest record of each service.
      row_number() over (
        partition by d.app_id, d.provider, d.account_id, d.occurred_at, d.service order by d.observed_at desc, d.id desc
      ) = 1 and (
        d.service is null
        or not bool_or(d.service is null) over (partition by d.app_id, d.provider, d.account_id, d.occurred_at)
      ) as counted
    from ai.cost_book_entries d
    where d.granularity = 'account_day'
      and d.book_id = book
      and d.occurred_at >= date_trunc('day', window_from, 'UTC')
      and d.occurred_at < window_to
      and d.id not in (select s.id from superseded s)
  )
  -- Uses subqueries instead of joins. Postgres hashes the result of such a subquery even if it expects few rows, and it
  -- expects too few for a book that has just grown.
  select c, c.id not in (select s.id from superseded s) and case c.granularity
    when 'run' then not coalesce(
      (c.app_id, c.provider, c.account_id, date_trunc('day', c.occurred_at, 'UTC'))
        in (select d.app_id, d.provider, d.account_id, d.occurred_at from days d),
      false
    )
    else c.id in (select d.id from days d where d.counted)
  end
  from ai.cost_book_entries c
  where c.book_id = book and c.occurred_at >= window_from and c.occurred_at < window_to
$$;

-- Returns whether the same cost was observed later under another spelling of the provider's name.
create or replace function ai.is_superseded_cost(entry ai.cost_book_entries) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  -- Two rows can be for the same cost only if the provider name of at least one of them is not normalized. Looks for
  -- such names first, because the partial index contains only rows with such names.
  select exists (
    select
    from ai.external_provider_costs o
    where o.workspace_id = (entry).book_id
      and o.app_id = (entry).app_id
      and o.external_run_id = (entry).external_run_id
      and o.provider <> lower(o.provider)
  ) and exists (
    select
    from ai.find_cost((entry).book_id, (entry).app_id, (entry).provider, (entry).account_id, (entry).external_run_id) f
    where f.id <> (entry).id
  )
$$;
