-- Separate: it alters a table in use, which then counts refused calls, too.
set lock_timeout = '500ms';

alter table ai.totals
  drop constraint totals_figure_check,
  add constraint totals_figure_check check (figure in (
    'runs', 'failed_runs', 'input_tokens', 'output_tokens', 'cost_usd', 'failed_attempts', 'sign_ins', 'refused_calls'
  )) not valid;
comment on table ai.totals is
  'Counters of the whole deployment since the release that added them, for monitoring. They never fall: a later '
  'correction of a run may only raise them. Only ai.roll_up_usage() writes them, and ai.record_refused_calls() those of '
  'refused calls. Use ai.usage_daily for accounts.';
comment on column ai.totals.label is
  'Provider, method of sign-ins, or error code of refused calls. Empty for runs without a provider.';
