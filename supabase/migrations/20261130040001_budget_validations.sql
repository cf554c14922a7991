set lock_timeout = '500ms';

alter table ai.budgets validate constraint budgets_scope_check;
alter table ai.budgets validate constraint budgets_amount_check;
alter table ai.budgets validate constraint budgets_thresholds_check;
alter table ai.budget_alerts validate constraint budget_alerts_scope_check;
alter table ai.budget_alerts validate constraint budget_alerts_threshold_check;
