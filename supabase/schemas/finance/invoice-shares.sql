-- An invoice's share of one month.

create or replace function ai.invoice_share(invoice ai.invoice_book_entries, month text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
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
comment on function ai.invoice_share(ai.invoice_book_entries, text) is
  'Returns the amount and the days of an invoice within a month, YYYY-MM, that its days overlap: { inMonth: { '
  'amountUsd, firstDay, lastDay } }; the amount of a credit note is negative. Null without a month. Not granted to any'
  ' role.';
