-- Separate: every call writes ai.runs.
set lock_timeout = '500ms';

alter table ai.runs
  add column expected_usd numeric(24, 12),
  add column expected_scopes text[];
comment on column ai.runs.expected_usd is
  'What the run reserves in the budgets of expected_scopes. The balance and other budgets hold reserved_usd.';
comment on column ai.runs.expected_scopes is
  'Those of budget_scopes that reserve the expected cost. Null if all reserve the maximum cost.';
