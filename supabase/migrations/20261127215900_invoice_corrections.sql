set lock_timeout = '500ms';

alter table ai.external_provider_invoices
  add column if not exists kind text not null default 'invoice',
  add column if not exists replaces text;
alter table ai.external_provider_invoices
  add constraint external_provider_invoices_kind_check check (kind in ('invoice', 'credit_note')) not valid,
  add constraint external_provider_invoices_replaces_check check (replaces <> reference) not valid;
comment on column ai.external_provider_invoices.kind is 'The amount of a credit note is positive and is subtracted.';
comment on column ai.external_provider_invoices.replaces is
  'The reference of the invoice that this one corrects, which no longer counts.';

create unique index if not exists external_provider_invoices_one_replacement_idx
  on ai.external_provider_invoices (workspace_id, app_id, provider, replaces, account_id) nulls not distinct
  where replaces is not null;
