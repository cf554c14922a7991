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

alter table ai.external_provider_invoices enable row level security;
revoke all on ai.external_provider_invoices from public, anon, authenticated;
revoke insert, update, delete, truncate on ai.external_provider_invoices from service_role;
