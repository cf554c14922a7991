-- Sums the metered, imported and invoiced cost of a book by month, provider and account.

-- Returns the metered cost of a book's runs, in rows that the caller must sum. A workspace's book covers the
-- workspace's runs, and the platform's book covers all runs. The platform's book is read by whole UTC days, and all of
-- its costs get the month of window_from. Each row names the provider (ai.billing_provider) and, if the runs name one,
-- the billing account.
-- Sets no search_path, so Postgres can inline this function into its callers' plans.
create or replace function ai.metered_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (month date, provider text, account_id text, metered numeric, runs numeric)
  language sql stable security invoker
as $$
  select date_trunc('month', u.day::timestamp)::date, ai.billing_provider(u.billing_name, u.provider_id), u.billing_account,
    u.cost_usd, u.requests
  from ai.usage_between(book, window_from, window_to) u
  union all
  select date_trunc('month', window_from at time zone 'UTC')::date, ai.billing_provider(p.billing_name, p.provider_id),
    p.billing_account, p.cost_usd, p.requests
  from ai.platform_usage(
    (window_from at time zone 'UTC')::date, ((window_to - interval '1 microsecond') at time zone 'UTC')::date
  ) p
  where book = ai.platform_book()
$$;

-- Returns the imported and invoiced costs that count in a book. An imported cost is one row with its UTC day. An
-- invoice has one row for each month that it covers, with the first day of the month and the amount for the month's
-- days (ai.invoice_days). Replaced invoices do not count.
-- Sets no search_path, so Postgres can inline this function into its callers' plans.
create or replace function ai.booked_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (day date, provider text, account_id text, imported numeric, invoiced numeric)
  language sql stable security invoker
as $$
  select ((c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id, (c.cost).amount_usd,
    null::numeric
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
  union all
  select m.first_day::date, i.provider, i.account_id, null,
    ai.invoice_amount(i, daterange(m.first_day::date, (m.first_day + interval '1 month')::date) * w.days)
  from ai.invoice_book_entries i
  cross join (
    -- The days that begin in the window.
    select daterange(
      ((window_from + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date,
      ((window_to + interval '1 day' - interval '1 microsecond') at time zone 'UTC')::date
    ) as days
  ) w
  cross join lateral (select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * w.days as days) d
  cross join lateral generate_series(
    date_trunc('month', lower(d.days)::timestamp), upper(d.days) - interval '1 day', interval '1 month'
  ) as m (first_day)
  where i.book_id = book and not isempty(d.days) and ai.invoice_replacement(i) is null
$$;

-- Returns the metered, imported and invoiced cost of a book by month, provider and account. Sums the rows of
-- ai.metered_costs and ai.booked_costs.
create or replace function ai.reconciled_costs(book uuid, window_from timestamptz, window_to timestamptz)
  returns table (
    month date, provider text, account_id text, metered numeric, imported numeric, invoiced numeric, runs numeric,
    records bigint, invoices bigint
  )
  language sql stable security invoker set search_path = ''
as $$
  select s.month, s.provider, s.account_id, coalesce(sum(s.metered), 0), coalesce(sum(s.imported), 0), coalesce(sum(s.invoiced), 0),
    coalesce(sum(s.runs), 0), count(s.imported), count(s.invoiced)
  from (
    select m.month, m.provider, m.account_id, m.metered, null::numeric as imported, null::numeric as invoiced, m.runs
    from ai.metered_costs(book, window_from, window_to) m
    union all
    select date_trunc('month', b.day::timestamp)::date, b.provider, b.account_id, null, b.imported, b.invoiced, null
    from ai.booked_costs(book, window_from, window_to) b
  ) as s
  group by s.month, s.provider, s.account_id
  having sum(s.runs) > 0 or count(s.imported) > 0 or count(s.invoiced) > 0
$$;

-- Returns at most 100 records of a window that are stored in several copies, each with a different spelling of the
-- provider's name: [{ kind: cost or invoice, provider, spellings, accountId, externalRunId or reference }]. Only one
-- copy counts: the last observed copy of a cost, or the first recorded copy of an invoice.
create or replace function ai.book_clashes(book uuid, window_from timestamptz, window_to timestamptz) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  with dates as (
    select daterange(
      (window_from at time zone 'UTC')::date, ((window_to - interval '1 microsecond') at time zone 'UTC')::date, '[]'
    ) as days
  ), clashes as (
    select 'cost' as kind, c.provider, c.spellings, c.account_id, c.external_run_id as name
    from dates w
    cross join ai.cost_clashes(book) c
    where
      -- Runs once per query, on an index that holds only costs whose provider is not in lower case. Without such costs,
      -- no record is read.
      (select exists (
        select from ai.external_provider_costs o where o.workspace_id = book and o.provider <> lower(o.provider)
      ))
      and daterange(c.from_day, c.to_day, '[]') && w.days
    union all
    select 'invoice', i.provider, array_agg(i.spelling order by i.spelling collate "C"), i.account_id, i.reference
    from ai.invoice_book_entries i
    cross join dates w
    where i.book_id = book
    group by i.app_id, i.provider, i.account_id, i.reference, w.days
    having count(*) > 1 and bool_or(ai.invoice_days(i.period_start, i.period_end, i.issued_on) && w.days)
  )
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'kind', c.kind,
      'provider', c.provider,
      'spellings', c.spellings,
      'accountId', c.account_id,
      case c.kind when 'cost' then 'externalRunId' else 'reference' end, c.name
    )
    order by c.kind, c.provider collate "C", c.account_id collate "C", c.name collate "C"
  ), '[]')
  from (select * from clashes limit 100) c
$$;
