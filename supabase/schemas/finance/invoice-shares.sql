-- Computes the days and the amount of an invoice, and the share that belongs to one month.

-- Returns the share of an invoice that belongs to a month (YYYY-MM), with the first and last day of that share: {
-- inMonth: { amountUsd, netAmount, taxAmount, firstDay, lastDay } }. The net amount and the tax are in the invoice's
-- currency, and null if it has none. The invoice's days must overlap the month. The amounts of a credit note are
-- negative. Returns null if the month is null. Not granted to any role.
create or replace function ai.invoice_share(invoice ai.invoice_book_entries, month text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'inMonth', jsonb_build_object(
      'amountUsd', trim_scale(ai.invoice_amount(invoice, d.days))::text,
      'netAmount', trim_scale(ai.invoice_part(invoice, (invoice).net_amount, d.days))::text,
      'taxAmount', trim_scale(ai.invoice_part(invoice, (invoice).tax_amount, d.days))::text,
      'firstDay', lower(d.days),
      'lastDay', upper(d.days) - 1
    )
  )
  from (
    select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) * ai.month_days(month) as days
  ) d
  where month is not null
$$;

-- Returns the days that an invoice covers. A missing start becomes the first day of the end's month. A missing end
-- becomes the last day of the start's month. Without a period, returns the month in which the invoice was issued.
create or replace function ai.invoice_days(period_start date, period_end date, issued_on date) returns daterange
  language sql immutable security invoker set search_path = ''
as $$
  select daterange(
    coalesce(period_start, month.first_day),
    coalesce(period_end, (month.first_day::timestamp + interval '1 month - 1 day')::date),
    '[]'
  )
  from (
    select date_trunc('month', coalesce(period_start, period_end, issued_on)::timestamp)::date as first_day
  ) as month
$$;

-- Returns the amount in USD that an invoice adds to totals, for all of its days or only for those within a range. The
-- amount of a credit note is negative.
create or replace function ai.invoice_amount(invoice ai.invoice_book_entries, within daterange default null) returns numeric
  language sql immutable security invoker set search_path = ''
as $$
  select ai.invoice_part(invoice, (invoice).amount_usd, within)
$$;

-- Returns what one of an invoice's amounts adds to totals, like ai.invoice_amount.
create or replace function ai.invoice_part(invoice ai.invoice_book_entries, amount numeric, within daterange) returns numeric
  language sql immutable security invoker set search_path = ''
as $$
  -- Computes a range's share as the difference of two rounded running totals, so that the shares of adjacent ranges add
  -- up to the amount.
  select case (invoice).kind when 'credit_note' then -1 else 1 end
    * case
      when within is null then amount
      when isempty(d.days * within) then 0
      else
        round(amount * (upper(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
        - round(amount * (lower(d.days * within) - lower(d.days)) / (upper(d.days) - lower(d.days)), 12)
    end
  from (select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) as days) d
$$;

-- Returns the days of a month (YYYY-MM), or null if the month is null.
create or replace function ai.month_days(month text) returns daterange
  language sql immutable security invoker set search_path = ''
as $$
  select daterange(first_day, (first_day::timestamp + interval '1 month')::date)
  from (select (month || '-01')::date as first_day) m
  where month is not null
$$;
