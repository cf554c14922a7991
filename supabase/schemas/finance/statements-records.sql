-- Lists the records that count in a month of the platform's book, and derives the month's figures from them.

-- Returns the records that count in a month of the platform's book: the metered sum of each UTC day, provider and
-- account, each imported cost, and each invoice with its share of the month. The amount of a credit note is negative.
-- record is the external run id of a cost, or the reference of an invoice. Not granted to any role.
create or replace function ai.month_records(of_month date) returns table (
  kind text, first_day date, last_day date, provider text, account_id text, record text, service text, runs numeric,
  amount_usd numeric
)
  language sql stable security invoker set search_path = ''
as $$
  select 'metered', u.day, u.day, m.provider, u.billing_account, null::text, null::text, sum(u.requests), sum(u.cost_usd)
  from ai.platform_usage(of_month, (of_month::timestamp + interval '1 month - 1 day')::date, by_day => true) u
  cross join lateral (select ai.billing_provider(u.billing_name, u.provider_id) as provider) m
  group by u.day, m.provider, u.billing_account
  having sum(u.requests) > 0
  union all
  select 'cost', o.day, o.day, (c.cost).provider, (c.cost).account_id, (c.cost).external_run_id, (c.cost).service, null,
    (c.cost).amount_usd
  from ai.provider_costs_in_totals(
    ai.platform_book(), of_month::timestamp at time zone 'UTC', (of_month::timestamp + interval '1 month') at time zone 'UTC'
  ) c
  cross join lateral (select ((c.cost).occurred_at at time zone 'UTC')::date as day) o
  where c.counted
  union all
  select i.kind, lower(d.days), upper(d.days) - 1, i.provider, i.account_id, i.reference, null, null,
    ai.invoice_amount(i, d.days)
  from ai.invoice_book_entries i
  cross join lateral (
    select ai.invoice_days(i.period_start, i.period_end, i.issued_on) * ai.month_days(to_char(of_month, 'YYYY-MM')) as days
  ) d
  where i.book_id = ai.platform_book() and not isempty(d.days) and ai.invoice_replacement(i) is null
$$;

-- Returns a month's records as text, their SHA-256, and the figures by provider and account, all from one snapshot. In
-- records, each record is a line of nine fields separated by tabs: kind, first day, last day, provider, account, record,
-- service, runs and amount in USD. A missing value is empty, each line ends with a line feed, and the lines are sorted by
-- their bytes in UTF-8. Not granted to any role.
create or replace function ai.summarize_month(of_month date, out records text, out sha256 bytea, out figures jsonb)
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  with counted as materialized (
    select * from ai.month_records(of_month)
  ), accounts as (
    select
      c.provider, c.account_id,
      coalesce(sum(c.amount_usd) filter (where c.kind = 'metered'), 0) as metered,
      coalesce(sum(c.amount_usd) filter (where c.kind = 'cost'), 0) as imported,
      coalesce(sum(c.amount_usd) filter (where c.kind in ('invoice', 'credit_note')), 0) as invoiced,
      coalesce(sum(c.runs), 0) as runs,
      count(*) filter (where c.kind = 'cost') as records,
      count(*) filter (where c.kind in ('invoice', 'credit_note')) as invoices
    from counted c
    group by c.provider, c.account_id
  )
  select
    (
      select coalesce(string_agg(l.line || e'\n', '' order by l.line collate "C"), '')
      from (
        select array_to_string(
          array[
            c.kind, c.first_day::text, c.last_day::text, c.provider, c.account_id, c.record, c.service, c.runs::text,
            trim_scale(c.amount_usd)::text
          ],
          e'\t', ''
        ) as line
        from counted c
      ) l
    ),
    (
      select coalesce(jsonb_agg(
        jsonb_build_object(
          'provider', a.provider,
          'accountId', a.account_id,
          'meteredUsd', trim_scale(a.metered)::text,
          'importedUsd', trim_scale(a.imported)::text,
          'invoicedUsd', trim_scale(a.invoiced)::text,
          'runs', a.runs,
          'importedRecords', a.records,
          'invoices', a.invoices
        )
        order by a.provider collate "C", a.account_id collate "C" nulls first
      ), '[]')
      from accounts a
    )
  into records, figures;
  sha256 := sha256(convert_to(records, 'UTF8'));
end
$$;

-- Returns by how much a month's figures differ from the figures of its statement, by provider and account, leaving out
-- accounts without a difference: [{ provider, accountId, meteredUsd, importedUsd, invoicedUsd, runs, importedRecords,
-- invoices }]. Not granted to any role.
create or replace function ai.figures_difference(figures jsonb, closed_figures jsonb) returns jsonb
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object(
      'provider', d.provider, 'accountId', d.account_id, 'meteredUsd', trim_scale(d.metered)::text,
      'importedUsd', trim_scale(d.imported)::text, 'invoicedUsd', trim_scale(d.invoiced)::text, 'runs', d.runs,
      'importedRecords', d.records, 'invoices', d.invoices
    )
    order by d.provider collate "C", d.account_id collate "C" nulls first
  ), '[]')
  from (
    select s.figure ->> 'provider' as provider, s.figure ->> 'accountId' as account_id,
      sum(s.sign * (s.figure ->> 'meteredUsd')::numeric) as metered,
      sum(s.sign * (s.figure ->> 'importedUsd')::numeric) as imported,
      sum(s.sign * (s.figure ->> 'invoicedUsd')::numeric) as invoiced, sum(s.sign * (s.figure ->> 'runs')::numeric) as runs,
      sum(s.sign * (s.figure ->> 'importedRecords')::numeric) as records,
      sum(s.sign * (s.figure ->> 'invoices')::numeric) as invoices
    from (
      select 1 as sign, f as figure from jsonb_array_elements(figures) f
      union all
      select -1, f from jsonb_array_elements(closed_figures) f
    ) s
    group by 1, 2
  ) d
  where (d.metered, d.imported, d.invoiced, d.runs, d.records, d.invoices) <> (0, 0, 0, 0, 0, 0)
$$;
