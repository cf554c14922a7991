-- Who gets the console's emails, when outages were last seen, and the deployment's counters by hour.
set lock_timeout = '500ms';

create table private.console_notices (
  user_id uuid primary key references auth.users (id) on delete cascade,
  outages boolean not null
);
comment on table private.console_notices is
  'The emails that people with a role in the console chose. Without a row, infrastructure admins get all of them, and '
  'others none.';
comment on column private.console_notices.outages is 'Whether the person gets emails about outages of providers.';
alter table private.console_notices enable row level security;
select private.protect_table('private.console_notices');
revoke insert, update, delete, truncate on private.console_notices from service_role;

alter table ai.provider_outages add column failing_at timestamptz not null default now();
comment on column ai.provider_outages.failing_at is
  'When ai.record_provider_outages() last saw a route of the provider fail. The outage ends two minutes later.';

create table ai.hourly_totals (
  hour timestamptz primary key,
  runs numeric not null,
  failed_runs numeric not null,
  refused_calls numeric not null,
  cost_usd numeric not null
);
comment on table ai.hourly_totals is
  'What the counters of ai.totals were at the first roll-up that had counted all runs before an hour, for 40 days. Hours '
  'in which no roll-up ran have no row.';
alter table ai.hourly_totals enable row level security;
select private.protect_table('ai.hourly_totals');
revoke insert, update, delete, truncate on ai.hourly_totals from service_role;

reset all;
