-- Warnings of budgets with other periods and thresholds.
set lock_timeout = '500ms';

alter table ai.budget_alerts add column if not exists period text not null default 'month';
create unique index if not exists budget_alerts_subject_period_idx
  on ai.budget_alerts (scope, subject_id, workspace_id, period);
alter table ai.budget_alerts
  drop constraint budget_alerts_scope_check,
  add constraint budget_alerts_scope_check check (
    scope in ('key', 'app', 'member', 'label', 'workspace', 'envelope')
  ) not valid,
  drop constraint budget_alerts_threshold_check,
  add constraint budget_alerts_threshold_check check (threshold between 0 and 100) not valid;
comment on column ai.budget_alerts.period is 'The period of the budget.';
comment on column ai.budget_alerts.month is 'The local date on which the budget''s window began.';
