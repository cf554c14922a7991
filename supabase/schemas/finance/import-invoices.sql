-- Stores reviewed provider invoices that an app sends or a member enters. A stored invoice is never changed.

-- Stores an invoice that an app sends. Returns the result of ai.store_provider_invoice, or { refused } if the
-- credential does not allow imports.
-- Definer: gateway has no grant on any table. The caller is always derived from the credential.
create or replace function ai.import_provider_invoice(call jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  answer jsonb;
begin
  if caller.refused is not null then
    return ai.credential_refusal(caller);
  end if;
  perform ai.record_key_use(array[caller.key_id]);
  answer := ai.store_provider_invoice(caller.workspace_id, caller.app_id, call -> 'record');
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      caller.workspace_id, caller.app_id, call -> 'record' || jsonb_build_object('id', answer -> 'id'),
      jsonb_build_object('actor', case when caller.source = 'app_token' then caller.actor_id end)
    );
  end if;
  return answer;
end
$$;

-- Stores an invoice that a person enters. Returns the result of ai.store_provider_invoice or { refused: not_allowed |
-- app_not_linked | month_closed }. For the platform's book, the change is { reason, requestId, ip }, which the audit log
-- records.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.record_provider_invoice(
  member_id uuid, workspace uuid, app uuid, record jsonb, change jsonb default '{}'
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  closed text[];
  answer jsonb;
begin
  if refusal is not null then
    return jsonb_build_object('refused', refusal ->> 'outcome');
  end if;
  perform ai.hold_open_months(workspace);
  closed := ai.months_closed_to_invoice(workspace, app, record);
  if closed <> '{}' then
    return jsonb_build_object('refused', 'month_closed', 'months', closed);
  end if;
  answer := ai.store_provider_invoice(workspace, app, record);
  if answer ->> 'outcome' = 'stored' then
    perform ai.log_recorded_invoice(
      workspace, app, record || jsonb_build_object('id', answer -> 'id'), change || jsonb_build_object('actor', member_id)
    );
  end if;
  return answer;
end
$$;

-- Stores a reviewed invoice in a book. Returns { outcome: stored | unchanged, id } or { refused }. If the stored
-- invoice with the same key has different content, returns { refused: invoice_conflict, id, differs }: the id of the
-- stored invoice and the fields that differ. The caller has derived the book and the app and validated the record. Not
-- granted to any role.
create or replace function ai.store_provider_invoice(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  refused jsonb := ai.refused_replacement(book, app, record);
  stored ai.invoice_book_entries;
  stored_id uuid;
  differing text[];
begin
  if reviewed > now() then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'reviewedAt must not be in the future.'
    );
  end if;
  if reviewed < issued::timestamp at time zone 'UTC' then
    return jsonb_build_object(
      'refused', 'invalid_request', 'param', 'reviewedAt', 'message', 'An invoice is reviewed after it was issued.'
    );
  end if;

  if refused is not null then
    return jsonb_build_object('refused', 'invalid_request') || refused;
  end if;

  -- Searches before inserting, because the unique keys don't cover older rows whose provider name is not normalized.
  stored := ai.find_invoice(book, app, record, record ->> 'reference');
  if stored.id is null then
    stored := ai.find_replacement(book, app, record);
  end if;
  if stored.id is null then
    stored_id := ai.add_invoice(book, app, record);
    if stored_id is not null then
      return jsonb_build_object('outcome', 'stored', 'id', stored_id);
    end if;
    -- A concurrent call recorded this reference, or another replacement of the same invoice.
    stored := ai.find_invoice(book, app, record, record ->> 'reference');
    if stored.id is null then
      stored := ai.find_replacement(book, app, record);
    end if;
  end if;

  if stored.reference <> record ->> 'reference' then
    return jsonb_build_object(
      'refused', 'invoice_conflict', 'id', stored.id, 'differs', '["replaces"]'::jsonb
    ) || ai.replaced_already(record, stored);
  end if;
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;

-- Returns the closed months that a person's invoice would change: those of its days, and of the days of the invoice that
-- it replaces. Returns none for a recorded invoice, because nothing is stored. Not granted to any role.
create or replace function ai.months_closed_to_invoice(book uuid, app uuid, record jsonb) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array(
    select distinct m.month
    from (
      select ai.invoice_days(r.period_start, r.period_end, r.issued_on) as days from ai.invoice_of(record) r
      union all
      select ai.invoice_days((i).period_start, (i).period_end, (i).issued_on)
      from ai.find_invoice(book, app, record, record ->> 'replaces') i
      where (i).id is not null
    ) d
    cross join lateral unnest(ai.closed_months(book, lower(d.days), upper(d.days) - 1)) as m (month)
    where (ai.find_invoice(book, app, record, record ->> 'reference')).id is null
    order by m.month
  )
$$;

-- If a record cannot replace the invoice that it names in replaces, returns the error { param, message }. Returns null
-- otherwise. Not granted to any role.
create or replace function ai.refused_replacement(book uuid, app uuid, record jsonb) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  replaced ai.invoice_book_entries := ai.find_invoice(book, app, record, record ->> 'replaces');
begin
  if record ->> 'replaces' is not null and replaced.id is null then
    return jsonb_build_object('param', 'replaces', 'message', format(
      'No recorded invoice or credit note of this %sprovider and account has this reference.',
      case when book = ai.platform_book() then '' else 'app, ' end
    ));
  elsif replaced.kind <> coalesce(record ->> 'kind', 'invoice') then
    return jsonb_build_object(
      'param', 'kind', 'message', 'An invoice replaces an invoice, and a credit note replaces a credit note.'
    );
  end if;
  return null;
end
$$;

-- Returns the error { param, message } of a record that would replace an invoice that already has a replacement. Not
-- granted to any role.
create or replace function ai.replaced_already(record jsonb, replacement ai.invoice_book_entries) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('param', 'replaces', 'message', format(
    '%s is already replaced by %s. Replace that one instead.', record ->> 'replaces', (replacement).reference
  ))
$$;

-- Adds an invoice to a book. Returns the invoice's id, or null if another invoice already has one of its unique keys: this
-- reference is recorded, or the invoice to replace is already replaced.
create or replace function ai.add_invoice(book uuid, app uuid, record jsonb) returns uuid
  language sql volatile security invoker set search_path = ''
as $$
  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, kind, replaces, amount_usd, issued_on, period_start, period_end,
    reviewed_at, currency, exchange_rate, net_amount, tax_amount, total_amount
  )
  select book, app, r.provider, r.account_id, r.reference, r.kind, r.replaces, r.amount_usd, r.issued_on, r.period_start,
    r.period_end, r.reviewed_at, r.currency, r.exchange_rate, r.net_amount, r.tax_amount, r.total_amount
  from ai.invoice_of(record) r
  on conflict do nothing
  returning id
$$;

-- Returns a record in the form in which it is stored, with defaults and a normalized provider name. Without a net amount,
-- only the USD amount is known and no currency is stored.
create or replace function ai.invoice_of(record jsonb) returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select r
  from jsonb_populate_record(null::ai.invoice_book_entries, jsonb_build_object(
    'provider', ai.provider_name(record ->> 'provider'),
    'account_id', record ->> 'accountId',
    'reference', record ->> 'reference',
    'kind', coalesce(record ->> 'kind', 'invoice'),
    'replaces', record ->> 'replaces',
    'amount_usd', record -> 'amountUsd',
    'issued_on', record ->> 'issuedOn',
    'period_start', record ->> 'periodStart',
    'period_end', record ->> 'periodEnd',
    'reviewed_at', record ->> 'reviewedAt'
  ) || case when record ->> 'netAmount' is null then '{}' else jsonb_build_object(
    'currency', coalesce(record ->> 'currency', 'USD'),
    'exchange_rate', coalesce(record ->> 'exchangeRate', '1'),
    'net_amount', record -> 'netAmount',
    'tax_amount', record -> 'taxAmount',
    'total_amount', record -> 'totalAmount'
  ) end) r
$$;

-- Returns the invoice with the given reference and the record's provider and account, or nulls. If there are several,
-- returns the first recorded.
create or replace function ai.find_invoice(book uuid, app uuid, record jsonb, of_reference text)
  returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select i
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.app_id = app
    and i.provider = ai.provider_name(record ->> 'provider')
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = of_reference
  order by i.recorded_at, i.id
  limit 1
$$;

-- Returns the first recorded invoice whose provider, account and replaces equal the record's. Returns nulls if there is
-- none.
create or replace function ai.find_replacement(book uuid, app uuid, record jsonb) returns ai.invoice_book_entries
  language sql stable security invoker set search_path = ''
as $$
  select i
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.app_id = app
    and i.provider = ai.provider_name(record ->> 'provider')
    and i.account_id is not distinct from record ->> 'accountId'
    and i.replaces = record ->> 'replaces'
  order by i.recorded_at, i.id
  limit 1
$$;

-- Returns the fields in which a record differs from the stored invoice with the same key. Returns none for an identical
-- retry.
create or replace function ai.invoice_differences(stored ai.invoice_book_entries, record jsonb) returns text[]
  language sql stable security invoker set search_path = ''
as $$
  select array_remove(
    array[
      case when (stored).kind <> r.kind then 'kind' end,
      case when (stored).replaces is distinct from r.replaces then 'replaces' end,
      -- A record with only the USD amount differs by amountUsd from an invoice that also states its currency.
      -- Until 0.5.0: servers of 0.3.0 don't know the other names.
      case
        when (stored).amount_usd <> r.amount_usd or r.net_amount is null and (stored).net_amount is not null
        then 'amountUsd'
      end,
      case when r.net_amount is not null and (stored).currency is distinct from r.currency then 'currency' end,
      case when r.net_amount is not null and (stored).exchange_rate is distinct from r.exchange_rate then 'exchangeRate' end,
      case when r.net_amount is not null and (stored).net_amount is distinct from r.net_amount then 'netAmount' end,
      case when r.net_amount is not null and (stored).tax_amount is distinct from r.tax_amount then 'taxAmount' end,
      case when r.net_amount is not null and (stored).total_amount is distinct from r.total_amount then 'totalAmount' end,
      case when (stored).issued_on <> r.issued_on then 'issuedOn' end,
      case when (stored).period_start is distinct from r.period_start then 'periodStart' end,
      case when (stored).period_end is distinct from r.period_end then 'periodEnd' end,
      case when (stored).reviewed_at <> r.reviewed_at then 'reviewedAt' end
    ],
    null
  )
  from ai.invoice_of(record) r
$$;

-- Logs a recorded invoice, whose record has its id: in the workspace's activity log, or in the audit log for the
-- platform's book. The change is { actor, reason, requestId, ip }. An invoice that an app sent has no actor.
create or replace function ai.log_recorded_invoice(book uuid, app uuid, record jsonb, change jsonb) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  name text := ai.provider_name(record ->> 'provider');
begin
  if book = ai.platform_book() then
    perform private.record_admin_action(change, jsonb_build_object(
      'action', 'books.record_invoice',
      'target', 'platform invoice ' || (record ->> 'id'),
      'targetName', concat_ws(' ', name, record ->> 'reference'),
      'after', jsonb_strip_nulls(record - 'id') || jsonb_build_object('provider', name)
    ));
    return;
  end if;
  perform set_config('gatehouse.actor_id', coalesce(change ->> 'actor', ''), true);
  perform private.log_workspace_change(
    book, 'provider_invoice.recorded', (record ->> 'id')::uuid, concat_ws(' ', name, record ->> 'reference'),
    jsonb_strip_nulls(jsonb_build_object(
      'appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn',
      'kind', nullif(record ->> 'kind', 'invoice'), 'replaces', record ->> 'replaces',
      'totalAmount', record ->> 'totalAmount',
      'currency', case when record ->> 'totalAmount' is not null then coalesce(record ->> 'currency', 'USD') end
    ))
  );
end
$$;

-- Rejects every change of a stored invoice. A record with different content is a conflict and never a correction.
create or replace function ai.reject_invoice_change() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  raise exception 'an invoice snapshot is immutable' using errcode = 'restrict_violation';
end
$$;

-- Applies to every role, including the table's owner.
create or replace trigger reject_invoice_change before update or delete on ai.external_provider_invoices
  for each row execute function ai.reject_invoice_change();
-- Prevents every role, including the table's owner, from truncating the table.
create or replace trigger reject_invoice_truncate before truncate on ai.external_provider_invoices
  for each statement execute function ai.reject_invoice_change();
