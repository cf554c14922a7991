-- Separate: locks ai.external_provider_invoices, a table in use.
set lock_timeout = '500ms';

alter table ai.external_provider_invoices
  add column currency text,
  add column exchange_rate numeric(24, 12),
  add column net_amount numeric(24, 12),
  add column tax_amount numeric(24, 12),
  add column total_amount numeric(24, 12);
alter table ai.external_provider_invoices
  add constraint external_provider_invoices_currency_check check (
    num_nonnulls(currency, exchange_rate, net_amount, tax_amount, total_amount) in (0, 5)
    and currency ~ '^[A-Z]{3}$'
    and exchange_rate > 0
    and (currency <> 'USD' or exchange_rate = 1)
  ) not valid,
  add constraint external_provider_invoices_total_check check (
    net_amount >= 0 and tax_amount >= 0 and net_amount + tax_amount = total_amount
  ) not valid,
  add constraint external_provider_invoices_rounding_check check (
    abs(amount_usd - net_amount * exchange_rate) < 0.0000000000005
    or (abs(amount_usd - net_amount * exchange_rate) = 0.0000000000005 and mod(amount_usd * 1000000000000, 2) = 0)
  ) not valid;
comment on column ai.external_provider_invoices.currency is
  'The ISO 4217 code of the amounts on the invoice. If null, only amount_usd is known.';
comment on column ai.external_provider_invoices.exchange_rate is 'USD for one unit of the currency.';
comment on column ai.external_provider_invoices.net_amount is
  'The amount before tax. amount_usd is this amount times the rate, rounded half to even to 12 decimals.';

create table ai.invoice_documents (
  invoice_id uuid primary key,
  workspace_id uuid not null,
  file_name text not null check (char_length(file_name) between 1 and 128 and file_name !~ '[[:cntrl:]]'),
  sha256 bytea not null,
  content bytea not null check (
    octet_length(content) <= 5242880 and substring(content from 1 for 5) = convert_to('%PDF-', 'UTF8')
  ),
  size_bytes integer not null generated always as (octet_length(content)) stored,
  attached_by uuid,
  attached_at timestamptz not null default now(),
  check (sha256 = pg_catalog.sha256(content))
);
comment on table ai.invoice_documents is
  'The original documents of invoices. Append-only. No foreign keys, so that a record outlives its workspace and the '
  'person. Invoices are never deleted.';
comment on column ai.invoice_documents.workspace_id is 'The nil UUID: the platform''s book.';
create index invoice_documents_workspace_id_idx on ai.invoice_documents (workspace_id) include (size_bytes);
select private.protect_table('ai.invoice_documents');
revoke insert, update, delete on ai.invoice_documents from service_role;
