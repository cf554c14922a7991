set lock_timeout = '500ms';

alter table ai.external_provider_costs
  validate constraint external_provider_costs_account_id_form,
  validate constraint external_provider_costs_external_run_id_form,
  validate constraint external_provider_costs_service_form,
  validate constraint external_provider_costs_amount_sign,
  validate constraint external_provider_costs_original_import;
alter table ai.external_provider_invoices
  validate constraint external_provider_invoices_account_id_form,
  validate constraint external_provider_invoices_reference_form;
