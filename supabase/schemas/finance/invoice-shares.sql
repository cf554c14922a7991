-- Computes the share of an invoice that belongs to one month.

-- Returns the share of an invoice that belongs to a month (YYYY-MM), with the first and last day of that share: {
-- inMonth: { amountUsd, firstDay, lastDay } }. The invoice's days must overlap the month. The amount of a credit note
-- is negative. Returns null if the month is null. Not granted to any role.
create or replace function ai.invoice_share(invoice ai.invoice_book_entries, month text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'inMonth', jsonb_build_object(
      'amountUsd', trim_scale(ai.invoice_amount(invoice, d.days))::text,
      'firstDay', lower(d.days),
      'lastDay', upper(d.days) - 1
    )
  )
  from (
    select ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) * ai.month_days(month) as days
  ) d
  where month is not null
$$;
