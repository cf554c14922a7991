-- Invoices of providers as a person reviewed them: immutable snapshots.

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
comment on column ai.external_provider_invoices.account_id is 'Null is one account of its own, for providers without accounts.';
create index external_provider_invoices_workspace_id_issued_on_idx
  on ai.external_provider_invoices (workspace_id, issued_on desc, id);

create function ai.reject_invoice_change() returns trigger
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
revoke execute on function ai.reject_invoice_change() from public, anon, authenticated;
create trigger reject_invoice_change before update or delete on ai.external_provider_invoices
  for each row execute function ai.reject_invoice_change();
comment on trigger reject_invoice_change on ai.external_provider_invoices is 'For everyone, the table''s owner too.';
create trigger reject_invoice_truncate before truncate on ai.external_provider_invoices
  for each statement execute function ai.reject_invoice_change();
comment on trigger reject_invoice_truncate on ai.external_provider_invoices is 'As reject_invoice_change.';

alter table ai.external_provider_invoices enable row level security;
revoke all on ai.external_provider_invoices from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.external_provider_invoices from service_role;

create function ai.invoice_differences(kept ai.external_provider_invoices, record jsonb) returns text[]
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
revoke execute on function ai.invoice_differences(ai.external_provider_invoices, jsonb) from public, anon, authenticated;

create function ai.store_provider_invoice(workspace uuid, app uuid, record jsonb) returns jsonb
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
revoke execute on function ai.store_provider_invoice(uuid, uuid, jsonb) from public, anon, authenticated;
