set lock_timeout = '500ms';

alter table ai.external_provider_invoices validate constraint external_provider_invoices_kind_check;
alter table ai.external_provider_invoices validate constraint external_provider_invoices_replaces_check;
