-- Compares metered, imported and invoiced cost.

-- Returns a page of a book's months and providers in the window of ai.reconciled_window, the latest month first. Each
-- row has the provider's accounts and two differences: imported less metered, and invoiced less imported. If the
-- workspace hides provider cost, every meteredUsd is null, and only providers with imports or invoices are listed. An
-- account's meteredUsd is also null if a run of the same month and provider has a cost but names no account; without
-- runs it is 0. clashes is the result of ai.book_clashes. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.reconcile_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50, token_hash bytea default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace, token_hash);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(workspace, dates.window_from, dates.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (
          where p.records > 0 or p.invoices > 0 or (visible and p.metered_by_account and p.account_id is not null)
        ), '[]') as accounts
      from (
        -- A single run without an account makes the metered cost of the month's accounts unknown, unless the run cost
        -- nothing. Failed calls and calls closed by the sweep often name no account.
        select *, coalesce(
          bool_and(q.account_id is not null) filter (where q.metered <> 0) over (partition by q.month, q.provider), true
        ) as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
      having visible or sum(p.records) > 0 or sum(p.invoices) > 0
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(dates.window_from),
      'to', ai.utc_text_microseconds(dates.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'clashes', ai.book_clashes(workspace, dates.window_from, dates.window_to),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;

-- Returns a page of a book's providers by name, or only one provider, each with its metered and imported cost in a
-- range, and the totals of all providers. importedRecords tells an imported cost of 0 from a missing one. Leaves out
-- providers without metered or imported cost. meteredUsd is null if the workspace hides provider cost. Returns { outcome: listed, … }, { outcome: bad_window, fault } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.compare_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  of_provider text default null, after text default null, page_size integer default 50
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := ai.book_refusal(member_id, workspace);
  dates record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if refusal is not null then
    return refusal;
  elsif dates.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', dates.fault);
  end if;
  return (
    with providers as materialized (
      select p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.records) as records
      from ai.reconciled_costs(workspace, dates.window_from, dates.window_to) p
      where of_provider is null or p.provider = ai.provider_name(of_provider)
      group by p.provider
      having sum(p.records) > 0 or (visible and sum(p.metered) <> 0)
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(p.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(p.imported), 0))::text,
          'importedRecords', coalesce(sum(p.records), 0),
          'providers', count(*)
        )
        from providers p
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'provider', p.provider,
            'meteredUsd', case when visible then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'importedRecords', p.records
          )
          order by p.provider collate "C"
        ), '[]')
        from (
          select *
          from providers p
          where after is null or p.provider collate "C" > after collate "C"
          order by p.provider collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;

-- Returns ai.usage_window for a comparison of costs. By default, the window starts with the first day of a month,
-- eleven months before the month in which the window ends.
create or replace function ai.reconciled_window(
  given_from timestamptz, given_to timestamptz, out window_from timestamptz, out window_to timestamptz, out fault text
)
  language sql stable security invoker set search_path = ''
as $$
  -- The default range starts at the beginning of a month, so that the first month is compared with its whole invoice.
  -- The maximum of 366 days allows for twelve months with a leap day.
  select w.window_from, w.window_to, w.fault
  from ai.usage_window(
    coalesce(
      given_from,
      (
        date_trunc(
          'month',
          (coalesce(given_to, now()) - 366 * interval '24 hours') at time zone 'UTC' - interval '1 microsecond'
        ) + interval '1 month'
      ) at time zone 'UTC'
    ),
    given_to, 365, 366
  ) w
$$;
