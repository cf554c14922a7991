-- Invoices of providers as a person reviewed them: immutable snapshots. With them, the comparison of metered, imported
-- and invoiced cost.

create table ai.external_provider_invoices (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null,
  app_id uuid not null,
  provider text not null check (provider ~ '^[A-Za-z0-9._:-]{1,128}$'),
  account_id text check (account_id ~ '^[A-Za-z0-9._:-]{1,128}$'),
  reference text not null check (reference ~ '^[A-Za-z0-9._:-]{1,128}$'),
  amount_usd numeric(24, 12) not null check (amount_usd >= 0),
  issued_on date not null,
  period_start date,
  period_end date,
  reviewed_at timestamptz not null,
  recorded_at timestamptz not null default now(),
  unique nulls not distinct (workspace_id, app_id, provider, account_id, reference),
  check (reviewed_at <= recorded_at),
  check (reviewed_at >= issued_on::timestamp at time zone 'UTC'),
  check (period_start <= period_end)
);
comment on table ai.external_provider_invoices is
  'Reviewed invoices, one a workspace, app, provider, account and reference. Kept for good, so nothing refers to '
  'workspace or app by a foreign key.';
comment on column ai.external_provider_invoices.account_id is
  'Null is one account of its own, for providers without accounts.';
create index external_provider_invoices_workspace_id_issued_on_idx
  on ai.external_provider_invoices (workspace_id, issued_on desc, id);
alter table ai.external_provider_invoices enable row level security;

-- schemas/finance/import-invoices.sql

-- Definer: as check_app_caller.
create or replace function ai.import_provider_invoice(call jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller ai.caller := ai.app_caller(call);
  answer jsonb;
begin
  if caller.refused is not null then
    return ai.refusal(caller.refused);
  end if;
  perform ai.record_key_use(caller);
  answer := ai.store_provider_invoice(caller.workspace_id, caller.app_id, call -> 'record');
  if answer ->> 'outcome' = 'stored' then
    perform set_config('gatehouse.actor_id', coalesce(case when caller.source = 'app_token' then caller.actor_id end::text, ''), true);
    perform ai.record_invoice_activity(caller.workspace_id, caller.app_id, (answer ->> 'id')::uuid, call -> 'record');
  end if;
  return answer;
end
$$;
comment on function ai.import_provider_invoice(jsonb) is
  'Keeps the invoice of a call, as ai.store_provider_invoice answers; or { refused } where the credential is not good for it.';

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.record_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  answer jsonb;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return jsonb_build_object('refused', 'not_allowed');
  end if;
  if not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('refused', 'app_not_linked');
  end if;
  answer := ai.store_provider_invoice(workspace, app, record);
  if answer ->> 'outcome' = 'stored' then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform ai.record_invoice_activity(workspace, app, (answer ->> 'id')::uuid, record);
  end if;
  return answer;
end
$$;
comment on function ai.record_provider_invoice(uuid, uuid, uuid, jsonb) is
  'Keeps an invoice that a member with use_ai_studio enters for an app linked to the workspace: as '
  'ai.store_provider_invoice answers, or { refused: not_allowed or app_not_linked }.';

create or replace function ai.store_provider_invoice(workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  issued date := (record ->> 'issuedOn')::date;
  reviewed timestamptz := (record ->> 'reviewedAt')::timestamptz;
  amount numeric := (record ->> 'amountUsd')::numeric;
  stored ai.external_provider_invoices;
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

  insert into ai.external_provider_invoices (
    workspace_id, app_id, provider, account_id, reference, amount_usd, issued_on, period_start, period_end, reviewed_at
  )
  values (
    workspace, app, record ->> 'provider', record ->> 'accountId', record ->> 'reference', amount, issued,
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, reviewed
  )
  on conflict (workspace_id, app_id, provider, account_id, reference) do nothing
  returning * into stored;
  if found then
    return jsonb_build_object('outcome', 'stored', 'id', stored.id);
  end if;

  select * into strict stored
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.app_id = app
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = record ->> 'reference';
  differing := ai.invoice_differences(stored, record);
  if differing = '{}' then
    return jsonb_build_object('outcome', 'unchanged', 'id', stored.id);
  end if;
  return jsonb_build_object('refused', 'invoice_conflict', 'id', stored.id, 'differs', to_jsonb(differing));
end
$$;
comment on function ai.store_provider_invoice(uuid, uuid, jsonb) is
  'Keeps one reviewed invoice, or says why not: { outcome: stored or unchanged, id } or { refused }. Another state of one '
  'that is kept is a conflict, which names the kept one and what differs: { refused: invoice_conflict, id, differs }. '
  'Workspace and app were derived and the record''s shape checked before. Granted to nobody.';

create or replace function ai.invoice_differences(kept ai.external_provider_invoices, record jsonb) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array_remove(
    array[
      case when (kept).amount_usd <> (record ->> 'amountUsd')::numeric then 'amountUsd' end,
      case when (kept).issued_on <> (record ->> 'issuedOn')::date then 'issuedOn' end,
      case when (kept).period_start is distinct from (record ->> 'periodStart')::date then 'periodStart' end,
      case when (kept).period_end is distinct from (record ->> 'periodEnd')::date then 'periodEnd' end,
      case when (kept).reviewed_at <> (record ->> 'reviewedAt')::timestamptz then 'reviewedAt' end
    ],
    null
  )
$$;
comment on function ai.invoice_differences(ai.external_provider_invoices, jsonb) is
  'By which fields a record of the same key is another state of an invoice; none for an identical retry.';

create or replace function ai.record_invoice_activity(workspace uuid, app uuid, invoice_id uuid, record jsonb) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  select private.log_workspace_change(
    workspace, 'provider_invoice.recorded', invoice_id, concat_ws(' ', record ->> 'provider', record ->> 'reference'),
    jsonb_build_object('appId', app, 'amountUsd', record ->> 'amountUsd', 'issuedOn', record ->> 'issuedOn')
  )
$$;
comment on function ai.record_invoice_activity(uuid, uuid, uuid, jsonb) is
  'An invoice is a person''s word about money, whoever brought it: the workspace''s owners read of it.';

create or replace function ai.reject_invoice_change() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  raise exception 'an invoice snapshot is immutable' using errcode = 'restrict_violation';
end
$$;
comment on function ai.reject_invoice_change() is 'Another state of an invoice is a conflict, never a correction.';

-- schemas/finance/enter-invoice.sql

-- Definer: as ai.list_linked_apps.
create or replace function ai.review_provider_invoice(member_id uuid, workspace uuid, app uuid, record jsonb) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  kept ai.external_provider_invoices;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  if not ai.app_can_act_in_workspace(app, workspace) then
    return '{"outcome": "app_not_linked"}';
  end if;
  if (record ->> 'issuedOn')::date > (now() at time zone 'UTC')::date then
    return '{"outcome": "not_issued_yet"}';
  end if;
  select * into kept
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.app_id = app
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.reference = record ->> 'reference';
  return jsonb_build_object(
    'outcome', 'reviewed',
    'reviewedAt', ai.utc_text_microseconds(now()),
    'appName', ai.app_label(app),
    'kept', case when kept.id is not null then ai.invoice_summary(kept) end,
    'differs', case when kept.id is not null then to_jsonb(array_remove(
      ai.invoice_differences(kept, record || jsonb_build_object('reviewedAt', kept.reviewed_at)), 'reviewedAt'
    )) end,
    'comparison', ai.invoice_comparison(workspace, record, kept.id)
  );
end
$$;
comment on function ai.review_provider_invoice(uuid, uuid, uuid, jsonb) is
  'What a member with use_ai_studio sees of an invoice before it is kept for good: the moment of the review, an invoice of '
  'the same key that is kept already and by what else than its review it differs, and ai.invoice_comparison. '
  '{ outcome: reviewed, … }, not_allowed, app_not_linked or not_issued_yet. Writes nothing.';

-- Definer: as ai.list_linked_apps.
create or replace function ai.read_provider_invoice(member_id uuid, workspace uuid, invoice_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  kept ai.external_provider_invoices;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio') then
    return '{"outcome": "not_allowed"}';
  end if;
  select * into kept from ai.external_provider_invoices i where i.id = invoice_id and i.workspace_id = workspace;
  if not found then
    return '{"outcome": "not_found"}';
  end if;
  return jsonb_build_object(
    'outcome', 'read',
    'invoice', ai.invoice_summary(kept),
    'recorded', ai.invoice_recorder(kept),
    'comparison', ai.invoice_comparison(workspace, ai.invoice_summary(kept), kept.id)
  );
end
$$;
comment on function ai.read_provider_invoice(uuid, uuid, uuid) is
  'One invoice, ai.invoice_recorder and ai.invoice_comparison, for a member with use_ai_studio: { outcome: read, invoice, '
  'recorded, comparison }, not_found or not_allowed.';

create or replace function ai.invoice_comparison(workspace uuid, record jsonb, own_id uuid default null) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  days daterange := ai.invoice_days(
    (record ->> 'periodStart')::date, (record ->> 'periodEnd')::date, (record ->> 'issuedOn')::date
  );
  first_day date := lower(days);
  last_day date := upper(days) - 1;
  window_from timestamptz := first_day::timestamp at time zone 'UTC';
  window_to timestamptz := (last_day + 1)::timestamp at time zone 'UTC';
  imported record;
  others record;
begin
  -- Longer than any report: such a period says nothing of what it compares with.
  if last_day - first_day >= 366 then
    return null;
  end if;
  select coalesce(sum((c.cost).amount_usd), 0) as amount, count(*) as records into imported
  from ai.provider_costs_in_totals(workspace, window_from, window_to) c
  where c.counted
    and (c.cost).provider = record ->> 'provider'
    and (c.cost).account_id is not distinct from record ->> 'accountId';
  select coalesce(sum(i.amount_usd), 0) as amount, count(*) as invoices into others
  from ai.external_provider_invoices i
  where i.workspace_id = workspace
    and i.provider = record ->> 'provider'
    and i.account_id is not distinct from record ->> 'accountId'
    and i.id is distinct from own_id
    and ai.invoice_days(i.period_start, i.period_end, i.issued_on) && days;
  return jsonb_build_object(
    'firstDay', first_day,
    'lastDay', last_day,
    'meteredUsd', case when ai.cost_visible(workspace) then (
      select trim_scale(coalesce(sum(u.cost_usd), 0))::text
      from ai.usage_between(workspace, window_from, window_to) u
      where ai.billing_provider(u) = record ->> 'provider'
        and coalesce(u.billing_account = record ->> 'accountId', true)
    ) end,
    'importedUsd', trim_scale(imported.amount)::text,
    'importedRecords', imported.records,
    'importedDifferenceUsd', trim_scale((record ->> 'amountUsd')::numeric - imported.amount)::text,
    'otherInvoicesUsd', trim_scale(others.amount)::text,
    'otherInvoices', others.invoices
  );
end
$$;
comment on function ai.invoice_comparison(uuid, jsonb, uuid) is
  'What was metered of an invoice''s provider, without other accounts'' runs, and imported of its account in its days '
  '(ai.invoice_days), and the other invoices of its account in these days. Null for more than 366 days. Granted to nobody.';

create or replace function ai.invoice_recorder(invoice ai.external_provider_invoices) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'by', case when l.actor_id is null then 'app' else 'person' end,
    'name', case
      when l.actor_id is null then ai.app_label((invoice).app_id)
      else (select p.display_name from public.profiles p where p.id = l.actor_id)
    end
  )
  from public.workspace_audit_log l
  where l.action = 'provider_invoice.recorded'
    and l.subject_id = (invoice).id
    and l.workspace_id = (invoice).workspace_id
$$;
comment on function ai.invoice_recorder(ai.external_provider_invoices) is
  'Who recorded an invoice, as the workspace''s log has it: { by: person | app, name }. A key says which app sent it, and '
  'no person; the name is null once person or app are gone.';

create or replace function ai.linked_apps(workspace uuid) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'name', a.display_name) order by a.display_name, a.id), '[]')
  from private.app_workspaces l
  join private.apps a on a.id = l.app_id
  where l.workspace_id = workspace and ai.app_can_act_in_workspace(a.id, workspace)
$$;
comment on function ai.linked_apps(uuid) is
  'The enabled external apps that are linked to a workspace: those whose costs and invoices it may have. Granted to nobody.';

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_linked_apps(member_id uuid, workspace uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then jsonb_build_object('outcome', 'listed', 'apps', ai.linked_apps(workspace))
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_linked_apps(uuid, uuid) is
  'ai.linked_apps for a member with use_ai_studio: { outcome: listed, apps } or { outcome: not_allowed }.';

-- schemas/finance/provider-invoices.sql

create or replace function ai.invoice_counts_on(invoice ai.external_provider_invoices) returns date
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select coalesce((invoice).period_start, (invoice).period_end, (invoice).issued_on)
$$;
comment on function ai.invoice_counts_on(ai.external_provider_invoices) is
  'The day in whose month an invoice counts, the month that ai.invoice_days begins in: its period''s first, else its last, '
  'else that it was issued on.';

create or replace function ai.invoice_matches(invoice ai.external_provider_invoices, filter jsonb) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select (filter ->> 'provider' is null or filter ->> 'provider' = (invoice).provider)
    and (not filter ? 'accountId' or filter ->> 'accountId' is not distinct from (invoice).account_id)
    and (filter ->> 'month' is null or filter ->> 'month' = to_char(ai.invoice_counts_on(invoice), 'YYYY-MM'))
$$;
comment on function ai.invoice_matches(ai.external_provider_invoices, jsonb) is
  'Whether an invoice is of what a filter names: any of provider, accountId, where a null names those without an account, '
  'and month, YYYY-MM, in which it counts.';

create or replace function ai.invoice_summary(invoice ai.external_provider_invoices) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (invoice).id,
    'appId', (invoice).app_id,
    'appName', ai.app_label((invoice).app_id),
    'provider', (invoice).provider,
    'accountId', (invoice).account_id,
    'reference', (invoice).reference,
    'amountUsd', trim_scale((invoice).amount_usd)::text,
    'issuedOn', (invoice).issued_on,
    'periodStart', (invoice).period_start,
    'periodEnd', (invoice).period_end,
    'reviewedAt', ai.utc_text_microseconds((invoice).reviewed_at),
    'recordedAt', ai.utc_text_microseconds((invoice).recorded_at)
  )
$$;
comment on function ai.invoice_summary(ai.external_provider_invoices) is 'An invoice for its workspace''s members.';

create or replace function ai.provider_invoices_page(
  workspace uuid, before jsonb, page_size integer, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'outcome', 'listed',
    'totals', (
      select jsonb_build_object('amountUsd', trim_scale(coalesce(sum(i.amount_usd), 0))::text, 'records', count(*))
      from ai.external_provider_invoices i
      where i.workspace_id = workspace and ai.invoice_matches(i, filter)
    ),
    'records', (
      select coalesce(jsonb_agg(
        ai.invoice_summary(p)
        order by p.issued_on desc, p.id desc
      ), '[]')
      from (
        select *
        from ai.external_provider_invoices i
        where i.workspace_id = workspace
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
comment on function ai.provider_invoices_page(uuid, jsonb, integer, jsonb) is
  'A page of a workspace''s invoices, the latest issued first, and the total of all of them. Granted to nobody.';

-- Definer: as ai.list_provider_costs.
create or replace function ai.list_provider_invoices(
  member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50, filter jsonb default '{}'
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.provider_invoices_page(workspace, before, page_size, filter)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb) is
  'ai.provider_invoices_page for a member with use_ai_studio, else { outcome: not_allowed }. filter as of '
  'ai.invoice_matches.';

-- Definer: as private.list_provider_costs_by_app_session.
create or replace function private.list_provider_invoices_by_app_session(
  token_hash bytea, workspace_id uuid, before jsonb default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  refused text := private.studio_refusal(token_hash, workspace_id);
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  return ai.provider_invoices_page(workspace_id, before, page_size);
end
$$;
comment on function private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer) is
  'ai.provider_invoices_page for the session''s user, or {refused}.';

create or replace function ai.invoice_days(period_start date, period_end date, issued_on date) returns daterange
  language sql
  immutable
  security invoker
  set search_path = ''
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
comment on function ai.invoice_days(date, date, date) is
  'The days that an invoice is of: its period; where an edge is missing, to the edge of the other''s month; without any, '
  'the month that it was issued in.';

-- schemas/finance/reconciliation.sql

create or replace function ai.reconciliation_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, after text[], page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with parts as materialized (
      select * from ai.reconciled_costs(workspace, asked.window_from, asked.window_to)
    ), months as (
      select
        p.month, p.provider, sum(p.metered) as metered, sum(p.imported) as imported, sum(p.invoiced) as invoiced,
        sum(p.runs) as runs, sum(p.records) as records, sum(p.invoices) as invoices,
        coalesce(jsonb_agg(
          jsonb_build_object(
            'accountId', p.account_id,
            'meteredUsd', case when visible and p.metered_by_account then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text,
            'invoicedUsd', trim_scale(p.invoiced)::text,
            'importedDifferenceUsd',
              case when visible and p.metered_by_account then trim_scale(p.imported - p.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(p.invoiced - p.imported)::text,
            'runs', case when p.metered_by_account then p.runs end,
            'importedRecords', p.records,
            'invoices', p.invoices
          )
          order by p.account_id collate "C" nulls first
        ) filter (where p.records > 0 or p.invoices > 0 or p.metered_by_account), '[]') as accounts
      from (
        -- One run without an account leaves open what the month's accounts were charged.
        select *, bool_and(q.account_id is not null) filter (where q.runs > 0) over (partition by q.month, q.provider)
          as metered_by_account
        from parts q
      ) as p
      group by p.month, p.provider
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'from', ai.utc_text_microseconds(asked.window_from),
      'to', ai.utc_text_microseconds(asked.window_to),
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(m.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(m.imported), 0))::text,
          'invoicedUsd', trim_scale(coalesce(sum(m.invoiced), 0))::text,
          'records', count(*)
        )
        from months m
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'month', to_char(m.month, 'YYYY-MM'),
            'provider', m.provider,
            'meteredUsd', case when visible then trim_scale(m.metered)::text end,
            'importedUsd', trim_scale(m.imported)::text,
            'invoicedUsd', trim_scale(m.invoiced)::text,
            'importedDifferenceUsd', case when visible then trim_scale(m.imported - m.metered)::text end,
            'invoicedDifferenceUsd', trim_scale(m.invoiced - m.imported)::text,
            'runs', m.runs,
            'importedRecords', m.records,
            'invoices', m.invoices,
            'accounts', m.accounts
          )
          order by m.month desc, m.provider collate "C"
        ), '[]')
        from (
          select *
          from months m
          where after is null
            or m.month < (after[1] || '-01')::date
            or (m.month = (after[1] || '-01')::date and m.provider collate "C" > after[2] collate "C")
          order by m.month desc, m.provider collate "C"
          limit page_size
        ) m
      )
    )
  );
end
$$;
comment on function ai.reconciliation_page(uuid, timestamptz, timestamptz, text[], integer) is
  'A page of months and providers, the latest month first, each with its accounts and differences: imported less metered, '
  'and invoiced less imported. The window as of ai.reconciled_window. meteredUsd is null where the workspace hides it, and '
  'of accounts unless all runs of the month and provider name theirs.';

-- Definer: as ai.list_provider_costs.
create or replace function ai.reconcile_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.reconciliation_page(workspace, given_from, given_to, after, page_size)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer) is
  'ai.reconciliation_page for a member with use_ai_studio, else { outcome: not_allowed }.';

-- Definer: as private.list_provider_costs_by_app_session.
create or replace function private.reconcile_costs_by_app_session(
  token_hash bytea, workspace_id uuid, given_from timestamptz default null, given_to timestamptz default null,
  after text[] default null, page_size integer default 50
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  refused text := private.studio_refusal(token_hash, workspace_id);
begin
  if refused is not null then
    return jsonb_build_object('refused', refused);
  end if;
  return ai.reconciliation_page(workspace_id, given_from, given_to, after, page_size);
end
$$;
comment on function private.reconcile_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, text[], integer) is
  'ai.reconciliation_page for the session''s user, or {refused}.';

create or replace function ai.cost_comparison_page(
  workspace uuid, given_from timestamptz, given_to timestamptz, of_provider text, after text, page_size integer
) returns jsonb
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  asked record := ai.reconciled_window(given_from, given_to);
  visible boolean := ai.cost_visible(workspace);
begin
  if asked.fault is not null then
    return jsonb_build_object('outcome', 'bad_window', 'fault', asked.fault);
  end if;
  return (
    with providers as materialized (
      select p.provider, sum(p.metered) as metered, sum(p.imported) as imported
      from ai.reconciled_costs(workspace, asked.window_from, asked.window_to) p
      where of_provider is null or p.provider = of_provider
      group by p.provider
      having sum(p.records) > 0 or (visible and sum(p.metered) <> 0)
    )
    select jsonb_build_object(
      'outcome', 'listed',
      'totals', (
        select jsonb_build_object(
          'meteredUsd', case when visible then trim_scale(coalesce(sum(p.metered), 0))::text end,
          'importedUsd', trim_scale(coalesce(sum(p.imported), 0))::text,
          'providers', count(*)
        )
        from providers p
      ),
      'records', (
        select coalesce(jsonb_agg(
          jsonb_build_object(
            'provider', p.provider,
            'meteredUsd', case when visible then trim_scale(p.metered)::text end,
            'importedUsd', trim_scale(p.imported)::text
          )
          order by p.provider collate "C"
        ), '[]')
        from (
          select *
          from providers p
          where after is null or p.provider collate "C" > after collate "C"
          order by p.provider collate "C"
          limit page_size
        ) p
      )
    )
  );
end
$$;
comment on function ai.cost_comparison_page(uuid, timestamptz, timestamptz, text, text, integer) is
  'A page of the providers of a range by name, or one of them: what was metered and imported of each, and totals of all. '
  'Those of which nothing is known are left out; meteredUsd is null where the workspace hides it.';

-- Definer: as ai.reconcile_costs.
create or replace function ai.compare_costs(
  member_id uuid, workspace uuid, given_from timestamptz default null, given_to timestamptz default null,
  of_provider text default null, after text default null, page_size integer default 50
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select case
    when private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      then ai.cost_comparison_page(workspace, given_from, given_to, of_provider, after, page_size)
    else '{"outcome": "not_allowed"}'
  end
$$;
comment on function ai.compare_costs(uuid, uuid, timestamptz, timestamptz, text, text, integer) is
  'ai.cost_comparison_page for a member with use_ai_studio, else { outcome: not_allowed }.';

create or replace function ai.billing_provider(part ai.usage_daily) returns text
  language sql
  immutable
  security invoker
as $$
  select coalesce(part.billing_name, part.provider_id, 'unknown')
$$;
comment on function ai.billing_provider(ai.usage_daily) is
  'The provider''s name in imported costs and invoices: the billing name of the runs, else the provider''s id.';

create or replace function ai.reconciled_costs(workspace uuid, window_from timestamptz, window_to timestamptz)
  returns table (
    month date, provider text, account_id text, metered numeric, imported numeric, invoiced numeric, runs numeric,
    records bigint, invoices bigint
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select s.month, s.provider, s.account_id, coalesce(sum(s.metered), 0), coalesce(sum(s.imported), 0), coalesce(sum(s.invoiced), 0),
    coalesce(sum(s.requests), 0), count(s.imported), count(s.invoiced)
  from (
    select date_trunc('month', u.day::timestamp)::date as month, ai.billing_provider(u) as provider,
      u.billing_account as account_id, u.cost_usd as metered, null::numeric as imported, null::numeric as invoiced,
      u.requests
    from ai.usage_between(workspace, window_from, window_to) u
    union all
    select date_trunc('month', (c.cost).occurred_at at time zone 'UTC')::date, (c.cost).provider, (c.cost).account_id,
      null, (c.cost).amount_usd, null, null
    from ai.provider_costs_in_totals(workspace, window_from, window_to) c
    where c.counted
    union all
    select date_trunc('month', ai.invoice_counts_on(i)::timestamp)::date, i.provider, i.account_id,
      null, null, i.amount_usd, null
    from ai.external_provider_invoices i
    where i.workspace_id = workspace
      and ai.invoice_counts_on(i)::timestamp at time zone 'UTC' >= window_from
      and ai.invoice_counts_on(i)::timestamp at time zone 'UTC' < window_to
  ) as s
  group by s.month, s.provider, s.account_id
$$;
comment on function ai.reconciled_costs(uuid, timestamptz, timestamptz) is
  'Metered, imported and invoiced cost by month, provider and account. Runs count for ai.billing_provider and the account '
  'that they name, if any; an invoice counts in the month that its days begin in (ai.invoice_days).';

create or replace function ai.reconciled_window(
  given_from timestamptz, given_to timestamptz, out window_from timestamptz, out window_to timestamptz, out fault text
)
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- Twelve months may be those of a leap year. A month in part would miss its invoice, so that none begins by default
  -- before its first moment.
  select w.window_from, w.window_to, w.fault
  from ai.usage_window(
    coalesce(
      given_from,
      (
        date_trunc(
          'month',
          (coalesce(given_to, now()) - 366 * interval '24 hours') at time zone 'UTC' - interval '1 microsecond'
        ) + interval '1 month'
      ) at time zone 'UTC'
    ),
    given_to, 365, 366
  ) w
$$;
comment on function ai.reconciled_window(timestamptz, timestamptz) is
  'ai.usage_window of what is compared: by default twelve months with the one in which it ends, from the first moment of '
  'the first.';

create or replace trigger reject_invoice_change before update or delete on ai.external_provider_invoices
  for each row execute function ai.reject_invoice_change();
comment on trigger reject_invoice_change on ai.external_provider_invoices is 'For everyone, the table''s owner too.';
create or replace trigger reject_invoice_truncate before truncate on ai.external_provider_invoices
  for each statement execute function ai.reject_invoice_change();
comment on trigger reject_invoice_truncate on ai.external_provider_invoices is 'As reject_invoice_change.';

-- finance/
grant execute on function
  ai.import_provider_invoice(jsonb)
to gateway;

revoke insert, update, delete on ai.external_provider_invoices from service_role;

-- finance/
grant execute on function
  ai.record_provider_invoice(uuid, uuid, uuid, jsonb),
  ai.review_provider_invoice(uuid, uuid, uuid, jsonb),
  ai.read_provider_invoice(uuid, uuid, uuid),
  ai.list_linked_apps(uuid, uuid),
  ai.list_provider_invoices(uuid, uuid, jsonb, integer, jsonb),
  private.list_provider_invoices_by_app_session(bytea, uuid, jsonb, integer),
  ai.reconcile_costs(uuid, uuid, timestamptz, timestamptz, text[], integer),
  private.reconcile_costs_by_app_session(bytea, uuid, timestamptz, timestamptz, text[], integer),
  ai.compare_costs(uuid, uuid, timestamptz, timestamptz, text, text, integer)
to service_role;
