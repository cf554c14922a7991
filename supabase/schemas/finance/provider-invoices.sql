-- Reads invoices. Amounts are text, so no digit is lost.

-- Returns a page of a book's invoices, latest issued first, and the total of the invoices that count. If the filter
-- (ai.invoice_matches) has a month, each invoice also has its share of that month (ai.invoice_share), and the total is
-- the sum of these shares. Returns { outcome: listed, … } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, filter jsonb default '{}',
  token_hash bytea default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace, token_hash), jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object(
        'amountUsd', trim_scale(coalesce(sum(ai.invoice_amount(i, m.days)) filter (where r.by_reference is null), 0))::text,
        'records', count(*),
        'replacedRecords', count(r.by_reference)
      )
      from ai.invoice_book_entries i
      cross join lateral (select ai.month_days(filter ->> 'month') as days) m
      cross join lateral (select ai.invoice_replacement(i) as by_reference) r
      where i.book_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p) || ai.invoice_entry(p) || coalesce(ai.invoice_share(p, filter ->> 'month'), '{}')
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.invoice_book_entries i
        where i.book_id = workspace
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  ))
$$;

-- Returns an invoice as JSON. In the platform's book, appId is ai.platform_book() and appName is null.
create or replace function ai.invoice_summary(invoice ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'kind', (invoice).kind,
    'replaces', (invoice).replaces,
    'replacedBy', ai.invoice_replacement(invoice),
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'currency', (invoice).currency,
    'exchangeRate', trim_scale((invoice).exchange_rate)::text,
    'netAmount', trim_scale((invoice).net_amount)::text,
    'taxAmount', trim_scale((invoice).tax_amount)::text,
    'totalAmount', trim_scale((invoice).total_amount)::text,
    'document', ai.invoice_document_summary((invoice).id),
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;

-- Returns null if an invoice counts in totals. Otherwise returns the reference of the invoice that counts in its place.
-- This is the invoice that replaces it, or the same invoice recorded earlier under another spelling of the provider's
-- name.
create or replace function ai.invoice_replacement(invoice ai.invoice_book_entries) returns text
  language sql stable security invoker
as $$
  select r.reference
  from ai.invoice_book_entries r
  where r.book_id = (invoice).book_id
    and r.app_id = (invoice).app_id
    and r.provider = (invoice).provider
    and r.account_id is not distinct from (invoice).account_id
    and (
      r.replaces = (invoice).reference
      -- The invoice was recorded twice, under two spellings of the provider. The first record counts.
      or (r.reference = (invoice).reference and (r.recorded_at, r.id) < ((invoice).recorded_at, (invoice).id))
    )
  order by r.replaces is not distinct from (invoice).reference desc, r.recorded_at, r.id
  limit 1
$$;

-- Returns whether an invoice matches a filter. The filter may have provider, accountId and month (YYYY-MM). A null
-- accountId selects invoices without an account. A month selects invoices with days in that month (ai.invoice_days).
create or replace function ai.invoice_matches(invoice ai.invoice_book_entries, filter jsonb) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select (filter ->> 'provider' is null or ai.provider_name(filter ->> 'provider') = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (
      filter ->> 'month' is null
      or ai.invoice_days((invoice).period_start, (invoice).period_end, (invoice).issued_on) && ai.month_days(filter ->> 'month')
    )
$$;
