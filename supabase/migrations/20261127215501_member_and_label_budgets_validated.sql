set lock_timeout = '500ms';

alter table ai.keys validate constraint keys_entity_id_check;
alter table ai.budgets validate constraint budgets_scope_check;
alter table ai.budget_alerts validate constraint budget_alerts_scope_check;
