-- Validates the constraints of the tables file, which reads rows without blocking writes. Drops types of 0.1.0 that only
-- its functions used.
set lock_timeout = '500ms';

alter table private.outgoing_mails validate constraint text_or_event;
alter table ai.plans validate constraint plans_low_credits_check;
alter table ai.keys
  validate constraint keys_entity_id_check,
  validate constraint keys_connection_id_fkey,
  validate constraint agent_keys_are_short_lived;
alter table ai.budgets validate constraint budgets_scope_check;
alter table ai.budget_alerts validate constraint budget_alerts_scope_check;
alter table ai.external_provider_invoices
  validate constraint external_provider_invoices_kind_check,
  validate constraint external_provider_invoices_replaces_check,
  validate constraint external_provider_invoices_account_id_form,
  validate constraint external_provider_invoices_reference_form;
alter table public.security_events validate constraint security_events_place_check;
alter table ai.external_provider_costs
  validate constraint external_provider_costs_account_id_form,
  validate constraint external_provider_costs_external_run_id_form,
  validate constraint external_provider_costs_service_form,
  validate constraint external_provider_costs_amount_sign,
  validate constraint external_provider_costs_original_import,
  validate constraint external_provider_costs_observed_at_check;
alter table private.apps
  validate constraint apps_kind_check,
  validate constraint apps_backchannel_logout_uri_check,
  validate constraint apps_resource_url_check,
  validate constraint apps_scopes_check,
  validate constraint key_scope_is_for_openid_clients;

-- Unused since 0.1.0: only functions that are gone have used them.
drop type ai.run_report, ai.closed_run, ai.priced_call, ai.route_offer, ai.token_use, ai.reservation, ai.rate_window_use;
