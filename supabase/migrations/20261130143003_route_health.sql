-- What the gateway reports about its routes, and the outages of providers.
set lock_timeout = '500ms';

create table ai.route_health (
  provider_id text not null check (provider_id ~ '^[a-z][a-z0-9_]{0,31}$'),
  provider_model text not null check (char_length(provider_model) <= 512),
  endpoint text not null check (endpoint ~ '^[a-z_]{1,32}$'),
  failing_since timestamptz,
  failures_in_row integer not null default 0 check (failures_in_row >= 0),
  failure text check (failure in (
    'unreachable', 'timeout', 'connection_lost', 'unauthorized', 'payment_required', 'forbidden', 'not_found',
    'rate_limited', 'server_error', 'invalid_request', 'context_length_exceeded', 'content_filter', 'invalid_answer'
  )),
  status smallint,
  failed_at timestamptz,
  answered_at timestamptz,
  skipped_until timestamptz,
  reported_at timestamptz not null default now(),
  primary key (provider_id, provider_model, endpoint),
  check (failing_since is not null or failures_in_row = 0)
) with (fillfactor = 50);
comment on table ai.route_health is
  'The latest answer, failure and cooldown of each route, as all processes of the gateway report them. No foreign keys, '
  'because the gateway names a route by its provider and model.';
comment on column ai.route_health.failing_since is 'The first failure since the last answer. Null: the last call was answered.';
comment on column ai.route_health.failures_in_row is 'The failures since the last answer.';
comment on column ai.route_health.failure is 'The last failure: one of _shared/attempt.ts, of which skipped and cancelled are none.';
comment on column ai.route_health.status is 'The HTTP status of the last failure. Null if the provider did not answer.';
comment on column ai.route_health.skipped_until is 'The end of the last cooldown that a process began.';
alter table ai.route_health enable row level security;
select private.protect_table('ai.route_health');

create table ai.provider_outages (
  id uuid primary key default gen_random_uuid(),
  provider_id text not null check (provider_id ~ '^[a-z][a-z0-9_]{0,31}$'),
  began_at timestamptz not null,
  ended_at timestamptz check (ended_at >= began_at),
  routes jsonb not null default '[]',
  failure text,
  status smallint,
  began_mailed_at timestamptz,
  ended_mailed_at timestamptz
);
comment on table ai.provider_outages is
  'Times in which routes of a provider kept failing, for 90 days. No foreign key, because a provider is only an id.';
comment on column ai.provider_outages.ended_at is 'Null while the outage lasts.';
comment on column ai.provider_outages.routes is 'The routes that failed, as [{ model, endpoint }] with the provider''s name of the model.';
comment on column ai.provider_outages.failure is 'The last failure, as in ai.route_health.';
comment on column ai.provider_outages.began_mailed_at is 'When the emails about its beginning were queued.';
comment on column ai.provider_outages.ended_mailed_at is 'When the emails about its end were queued.';
create unique index provider_outages_open_idx on ai.provider_outages (provider_id) where ended_at is null;
create index provider_outages_began_at_idx on ai.provider_outages (began_at);
alter table ai.provider_outages enable row level security;
select private.protect_table('ai.provider_outages');

revoke insert, update, delete, truncate on ai.route_health, ai.provider_outages from service_role;
reset all;
