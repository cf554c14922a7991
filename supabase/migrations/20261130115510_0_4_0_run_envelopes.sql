-- Separate: every call writes ai.runs.
set lock_timeout = '500ms';

alter table ai.runs add column envelope_id uuid;
comment on column ai.runs.envelope_id is 'The envelope that holds the run, if any.';
comment on column ai.runs.budget_scopes is
  'The budgets that count the run: a scope for the budget of the month, and scope/period for others. Empty if there are none.';
