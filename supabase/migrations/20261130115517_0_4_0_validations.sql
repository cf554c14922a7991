set lock_timeout = '500ms';

alter table ai.totals validate constraint totals_figure_check;

alter table public.workspace_roles validate constraint workspace_roles_member_budget_usd_check;

alter table ai.budgets validate constraint budgets_scope_check;
alter table ai.budgets validate constraint budgets_amount_check;
alter table ai.budgets validate constraint budgets_thresholds_check;
alter table ai.budget_alerts validate constraint budget_alerts_scope_check;
alter table ai.budget_alerts validate constraint budget_alerts_threshold_check;

alter table ai.external_provider_invoices validate constraint external_provider_invoices_currency_check;
alter table ai.external_provider_invoices validate constraint external_provider_invoices_total_check;
alter table ai.external_provider_invoices validate constraint external_provider_invoices_rounding_check;
