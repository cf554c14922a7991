-- Separate, after the functions: the sweep of 0.3.0 finds a warning by the former key, until the functions are replaced.
set lock_timeout = '500ms';

alter table ai.budget_alerts
  drop constraint budget_alerts_pkey,
  add constraint budget_alerts_pkey primary key using index budget_alerts_subject_period_idx;
