-- Counters of the whole deployment, for monitoring.
set lock_timeout = '500ms';

-- Writes would wait while this file builds an index on a large table. So it ends the upgrade, before it has changed
-- anything, if the index is missing on more than 8 MB of rows, or invalid since its build failed.
do $$
declare
  missing text;
begin
  select string_agg(w.name, ', ' order by w.name) into missing
  from (values
    ('public.security_events', 'public.security_events_sign_in_idx')
  ) as w (relation, name)
  left join pg_catalog.pg_index x on x.indexrelid = to_regclass(w.name)
  where not x.indisvalid or x.indisvalid is null and pg_relation_size(w.relation::regclass) > 8 * 1024 * 1024;
  if missing is not null then
    raise exception 'Nothing was changed. First build the indexes that are missing or invalid: %', missing
      using hint = 'CHANGELOG.md has the statements under "Indexes to build first". Drop an invalid index before you build it again.';
  end if;
end
$$;

create table ai.totals (
  figure text not null check (figure in (
    'runs', 'failed_runs', 'input_tokens', 'output_tokens', 'cost_usd', 'failed_attempts', 'sign_ins'
  )),
  label text not null,
  total numeric not null check (total >= 0),
  primary key (figure, label)
) with (fillfactor = 50);
comment on table ai.totals is
  'Counters of the whole deployment since the release that added them, for monitoring. They never fall: a later '
  'correction of a run may only raise them. ai.roll_up_usage() is their only writer. Use ai.usage_daily for accounts.';
comment on column ai.totals.label is
  'Provider, or method of sign-ins. Empty for runs without a provider.';
select private.protect_table('ai.totals');
revoke insert, update, delete on ai.totals from service_role;

alter table ai.usage_progress
  add column runs_counted_until timestamptz not null default now(),
  add column events_counted_until timestamptz not null default now();
comment on column ai.usage_progress.runs_counted_until is
  'ai.totals contains runs that began before this. Summing them again after the clock was set back does not count them '
  'twice.';
comment on column ai.usage_progress.events_counted_until is
  'ai.totals contains failed attempts and sign-ins from before this.';

create index if not exists security_events_sign_in_idx on public.security_events (created_at) where kind = 'sign_in';
