-- Reads and writes the platform's own book for the console. Compares the metered cost of all workspaces with what
-- providers billed to the platform.

-- Returns the result of ai.reconciliation_page for the platform's book and the month that contains the given date: {
-- outcome: listed, month, totals, clashes, records }.
-- Definer: functions that read runs and books are not granted to the service role.
create or replace function private.reconcile_platform(month date) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select (page - 'from' - 'to') || jsonb_build_object('month', to_char(m.first_day, 'YYYY-MM'))
  from (select date_trunc('month', month::timestamp)::date as first_day) m
  cross join lateral ai.reconciliation_page(
    ai.platform_book(), m.first_day::timestamp at time zone 'UTC',
    (m.first_day::timestamp + interval '1 month') at time zone 'UTC', null, null
  ) as page
$$;

-- Returns a page of the platform's provider costs for the month that contains the given date, in the format of
-- ai.provider_costs_page.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.list_platform_costs(
  month date, filter jsonb default '{}', before jsonb default null, page_size integer default 50
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.provider_costs_page(
    ai.platform_book(), m.first_day::timestamp at time zone 'UTC',
    (m.first_day::timestamp + interval '1 month') at time zone 'UTC', before, page_size, filter
  )
  from (select date_trunc('month', month::timestamp)::date as first_day) m
$$;

-- Returns ai.provider_invoices_page for the platform's book.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.list_platform_invoices(
  before jsonb default null, page_size integer default 50, filter jsonb default '{}'
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.provider_invoices_page(ai.platform_book(), before, page_size, filter)
$$;

-- Returns an invoice of the platform's book in the format of ai.read_invoice.
-- Definer: functions that read and write books are not granted to the service role.
create or replace function private.read_platform_invoice(invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.read_invoice(ai.platform_book(), invoice_id)
$$;

-- Returns ai.invoice_review for the platform's book.
-- Definer: the service role may not call the functions that read and write books.
create or replace function private.review_platform_invoice(record jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select ai.invoice_review(ai.platform_book(), ai.platform_book(), record)
$$;

-- Stores an invoice that a provider issued to the platform. The change is { actor, record, reason, requestId, ip }.
-- Returns the result of ai.store_provider_invoice or { refused: forbidden }.
-- Definer: the service role cannot write invoices.
create or replace function private.record_platform_invoice(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  record jsonb := change -> 'record';
  answer jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = (change ->> 'actor')::uuid) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  answer := ai.store_provider_invoice(ai.platform_book(), ai.platform_book(), record);
  if answer ->> 'outcome' = 'stored' then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.record_invoice',
      'target', 'platform invoice ' || (answer ->> 'id'),
      'after', jsonb_strip_nulls(record) || jsonb_build_object('provider', ai.provider_name(record ->> 'provider'))
    ));
  end if;
  return answer;
end
$$;
