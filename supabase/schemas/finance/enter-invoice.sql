-- Lets a person enter an invoice by hand. These functions list the apps for which an invoice can be entered, compare
-- the invoice with the book before it is stored, and return its receipt.

-- Compares an invoice with a book, for a person to review before the invoice is stored permanently. Returns { outcome:
-- reviewed, reviewedAt, appName, kept, differs, comparison }, { outcome: not_issued_yet }, { outcome: month_closed,
-- months }, { outcome: cannot_replace, param, message }, ai.book_refusal or ai.app_refusal. kept is the stored invoice with the same key, if any. differs
-- lists the fields in which kept is different, except for the time of the review. comparison is ai.invoice_comparison.
-- Writes nothing.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  refusal jsonb := coalesce(ai.book_refusal(member_id, workspace), ai.app_refusal(workspace, app));
  stored ai.invoice_book_entries;
  replacement ai.invoice_book_entries;
  closed text[];
  fault jsonb;
begin
  if refusal is not null then
    return refusal;
  elsif (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  stored := ai.find_invoice(workspace, app, record, record ->> 'reference');
  replacement := ai.find_replacement(workspace, app, record);
  fault := ai.refused_replacement(workspace, app, record);
  if fault is null and stored.id is null and replacement.id is not null then
    fault := ai.replaced_already(record, replacement);
  end if;
  if fault is not null then
    return jsonb_build_object('outcome', 'cannot_replace') || fault;
  end if;
  closed := ai.months_closed_to_invoice(workspace, app, record);
  if closed <> '{}' then
    return jsonb_build_object('outcome', 'month_closed', 'months', closed);
  end if;
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when stored.id is not null then ai.invoice_summary(stored) end,
    'differs', case when stored.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(stored, record || jsonb_build_object('reviewedAt', stored.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(workspace, record || jsonb_build_object('appId', app), stored.id)
  );
end
$$;

-- Returns one invoice of a book, with its recorder (ai.invoice_recorder), who attached its document
-- (ai.document_attacher), and its comparison (ai.invoice_comparison): { outcome: read, invoice, recorded, attachedBy,
-- comparison }, { outcome: not_found } or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.read_provider_invoice(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'read',
      'invoice', ai.invoice_summary(i),
      'recorded', ai.invoice_recorder(i),
      'attachedBy', ai.document_attacher(i),
      'comparison', ai.invoice_comparison(workspace, ai.invoice_summary(i), i.id)
    )
    from ai.invoice_book_entries i
    where i.id = invoice_id and i.book_id = workspace
  ), '{"outcome": "not_found"}')
$$;

-- Compares an invoice with its provider's metered and imported cost for the days that the invoice covers
-- (ai.invoice_days), in the scope of ai.reconcile_costs: an invoice with an account is compared with that account, and
-- one without an account with all accounts of the provider. An account's meteredUsd is null if a run of the provider
-- has a cost but names no account. Also returns the total of the scope's other invoices for these days, and the
-- difference between all of the scope's invoices and the imported cost. Ignores replaced invoices. Returns null if the
-- invoice covers more than 366 days. Not granted to any role.
create or replace function ai.invoice_comparison(book uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  of_provider text := ai.provider_name(record ->> 'provider');
  of_account text := record ->> 'accountId';
  own_amount numeric := case
    when record ->> 'replacedBy' is not null then 0
    else (record ->> 'amountUsd')::numeric * case record ->> 'kind' when 'credit_note' then -1 else 1 end
  end;
  imported record;
  others record;
begin
  -- Compares no period of more than 366 days, because no report covers such a period.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(book, window_from, window_to) c
  where c.counted
    and (c.cost).provider = of_provider
    and (of_account is null or (c.cost).account_id = of_account);
  select coalesce(sum(ai.invoice_amount(i, days)), 0) as amount, count(*) as invoices into others
  from ai.invoice_book_entries i
  where i.book_id = book
    and i.provider = of_provider
    and (of_account is null or i.account_id = of_account)
    and i.id is distinct from own_id
    and ai.invoice_replacement(i) is null
    -- Excludes the invoice that the record replaces. The record names that invoice's reference in `replaces`, and both
    -- belong to the same app and account.
    and (i.app_id, i.account_id, i.reference) is distinct from (
      coalesce((record ->> 'appId')::uuid, ai.platform_book()), of_account, record ->> 'replaces'
    )
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(book) then (
      select case
        when of_account is null or coalesce(bool_and(m.account_id is not null) filter (where m.metered <> 0), true)
          then trim_scale(coalesce(sum(m.metered) filter (where of_account is null or m.account_id = of_account), 0))::text
      end
      from (
        select c.account_id, sum(c.metered) as metered
        from ai.metered_costs(book, window_from, window_to) c
        where c.provider = of_provider
        group by c.account_id
      ) m
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale(own_amount + others.amount - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
$$;

-- Returns the exchange rate of the latest cost file with which days of an invoice's provider and period were imported,
-- and that file: { outcome: found, rate, import }. The record is { provider, currency, issuedOn, periodStart,
-- periodEnd }. Returns { outcome: none } if no such file has a rate for the currency, or ai.book_refusal.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.find_import_rate(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object(
      'outcome', 'found', 'rate', i.rates ->> (record ->> 'currency'), 'import', ai.cost_import_summary(i.id)
    )
    from ai.cost_imports i
    cross join lateral (
      select ai.invoice_days(
        (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
      ) as days
    ) d
    where i.workspace_id = workspace
      and i.app_id = app
      and i.provider = ai.provider_name(record ->> 'provider')
      and i.rates ? (record ->> 'currency')
      and exists (
        select
        from ai.external_provider_costs c
        where c.workspace_id = workspace
          and c.app_id = app
          and ai.provider_name(c.provider) = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
          and c.occurred_at >= lower(d.days)::timestamp at time zone 'UTC'
          and c.occurred_at < upper(d.days)::timestamp at time zone 'UTC'
      )
    order by i.imported_at desc, i.id desc
    limit 1
  ), '{"outcome": "none"}')
$$;

-- Returns { outcome: listed, apps } or ai.book_refusal. apps are the enabled external apps that are linked to a
-- workspace. The workspace may have costs and invoices for these apps.
-- Definer: the service role cannot check who may use a book.
create or replace function ai.list_linked_apps(member_id uuid, workspace uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(ai.book_refusal(member_id, workspace), (
    select jsonb_build_object('outcome', 'listed', 'apps', coalesce(jsonb_agg(
      jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id
    ), '[]'))
    from private.app_workspaces l
    join private.apps a on a.id = l.app_id
    where l.workspace_id = workspace and ai.app_can_act_in_workspace(a.id, workspace)
  ))
$$;
