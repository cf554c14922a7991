-- Generated from supabase/schemas by npm run db:migration.

create or replace function ai.cost_import_receipt(book uuid, of_import_id uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce((
    select jsonb_build_object(
      'outcome', 'read',
      'provider', i.provider,
      'sha256', encode(i.file_sha256, 'hex'),
      'appName', ai.app_label(i.app_id),
      'import', ai.cost_import_summary(i.id),
      'current', (
        select jsonb_build_object(
          'days', count(*),
          'accounts', count(distinct c.account_id),
          'amountUsd', trim_scale(coalesce(sum(c.amount_usd), 0))::text,
          'firstDay', min((c.occurred_at at time zone 'UTC')::date),
          'lastDay', max((c.occurred_at at time zone 'UTC')::date)
        )
        from ai.cost_book_entries c
        where c.book_id = book
          and c.app_id = coalesce(i.app_id, ai.platform_book())
          and c.provider = i.provider
          and c.granularity = 'account_day'
          and c.import_id = i.id
      )
    )
    from ai.cost_imports i
    where i.id = of_import_id and coalesce(i.workspace_id, ai.platform_book()) = book
  ), '{"outcome": "not_found"}')
$$;

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

create or replace function ai.provider_invoices_page(
  book uuid, before jsonb, page_size integer, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
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
      where i.book_id = book and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p) || coalesce(ai.invoice_share(p, filter ->> 'month'), '{}')
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.invoice_book_entries i
        where i.book_id = book
          and ai.invoice_matches(i, filter)
          and (
            before is null
            or (i.issued_on, i.id) < (((before ->> 'createdAt')::timestamptz at time zone 'UTC')::date, (before ->> 'id')::uuid)
          )
        order by i.issued_on desc, i.id desc
        limit page_size
      ) p
    )
  )
$$;

-- Definer: as ai.list_provider_costs.
create or replace function ai.read_cost_import(member_id uuid, workspace uuid, import_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.cost_import_receipt(workspace, import_id)
    else '{"outcome": "not_allowed"}'
  end
$$;

-- Definer: functions of the books are not granted to the service role.
create or replace function private.read_platform_cost_import(import_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select ai.cost_import_receipt(ai.platform_book(), import_id)
$$;

comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'Returns a page of a book''s invoices, latest issued first, and the total of those that count. With a month in the '
  'filter, the total has the shares of its days, and each invoice its own (ai.invoice_share). Not granted to any role.';

comment on function ai.cost_import_receipt(uuid, uuid) is
  'Returns an import of a book, and the account days that it wrote and that nothing has corrected since: { outcome: read, '
  'provider, sha256, appName, import, current } or { outcome: not_found }. Not granted to any role.';

comment on function ai.invoice_share(ai.invoice_book_entries, text) is
  'Returns the amount and the days of an invoice within a month, YYYY-MM, that it has days of: { inMonth: { amountUsd, '
  'firstDay, lastDay } }; the amount of a credit note is negative. Null without a month. Not granted to any role.';

comment on function ai.read_cost_import(uuid, uuid, uuid) is
  'ai.cost_import_receipt for a member with use_ai_studio, else { outcome: not_allowed }.';

comment on function private.read_platform_cost_import(uuid) is
  'ai.cost_import_receipt of the platform''s book, for the console.';

grant execute on function ai.read_cost_import(uuid, uuid, uuid) to service_role;

grant execute on function private.read_platform_cost_import(uuid) to service_role;
