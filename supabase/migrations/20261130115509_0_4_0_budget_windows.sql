-- Separate: calls of workspaces with budgets read this table.
set lock_timeout = '500ms';

-- A workspace has few budgets, so the index is built within the lock.
alter table ai.budgets add column if not exists period text not null default 'month';
create unique index if not exists budgets_subject_period_idx
  on ai.budgets (scope, subject_id, workspace_id, period);
alter table ai.budgets
  add column time_zone text not null default 'UTC',
  add column starts_at timestamptz,
  add column ends_at timestamptz,
  add column thresholds smallint[] not null default '{50,80,100}',
  add column max_calls bigint,
  add column calls bigint not null default 0,
  drop constraint budgets_scope_check,
  add constraint budgets_scope_check check (
    case scope
      when 'label' then char_length(label) between 1 and 128 and label !~ '[^A-Za-z0-9._:-]' and label is not null
      else scope in ('key', 'app', 'member', 'workspace', 'envelope') and label is null
    end
    and period in ('day', 'week', 'month', 'total', 'concurrent')
    and (scope <> 'envelope' or period = 'total')
  ) not valid,
  add constraint budgets_amount_check check (
    max_calls >= 0 and calls >= 0 and (max_calls is null or scope = 'envelope' or period = 'concurrent')
    and (limit_usd is null or period <> 'concurrent')
  ) not valid,
  add constraint budgets_thresholds_check check (
    cardinality(thresholds) <= 5 and 1 <= all (thresholds) and 100 >= all (thresholds)
  ) not valid,
  drop constraint budgets_pkey,
  add constraint budgets_pkey primary key using index budgets_subject_period_idx;
comment on table ai.budgets is
  'Budgets of a workspace, or of a key''s lineage, an app, a member, an entity label or an envelope in it, and limits of '
  'their concurrent calls. Reserved amounts count as spent until their runs are settled. A subject has one budget for each period.';
comment on column ai.budgets.period is
  'The window in which the budget counts: a local day, week (from Monday) or month, or total for all time. concurrent '
  'limits the calls in progress, and has no amount.';
comment on column ai.budgets.time_zone is 'The IANA time zone in which days, weeks and months begin.';
comment on column ai.budgets.starts_at is
  'Start of the window that spent_usd counts. Null until the first change after 0.3.0: the UTC month of period_start.';
comment on column ai.budgets.ends_at is
  'End of the window that spent_usd counts, or of an envelope. Null while starts_at is null.';
comment on column ai.budgets.period_start is 'Unused since 0.4.0 once starts_at is set.';
comment on column ai.budgets.thresholds is 'The percentages of the limit at which warnings are sent.';
comment on column ai.budgets.max_calls is 'The maximum number of calls of an envelope, or of concurrent calls. Null: no limit.';
comment on column ai.budgets.calls is 'The calls that an envelope has admitted, or the calls in progress of period concurrent.';
