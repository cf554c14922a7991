-- Separate: calls of workspaces with budgets read this table.
set lock_timeout = '500ms';

alter table ai.budgets add column reserves_expected boolean not null default false;
comment on column ai.budgets.reserves_expected is
  'Whether calls reserve the cost of the output that is usual for their kind, instead of their maximum cost.';
