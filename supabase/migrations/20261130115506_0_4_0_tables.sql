-- Calls that the gateway refused, and their sums by day.
set lock_timeout = '500ms';

create table ai.refused_calls (
  id uuid not null,
  created_at timestamptz not null,
  workspace_id uuid not null,
  actor_id uuid,
  app_id uuid,
  key_id uuid,
  key_lineage_id uuid,
  credential_source ai.credential_source not null,
  feature ai.run_feature,
  entity_id text,
  request_id text not null,
  model_id text,
  endpoint text not null,
  streamed boolean not null default false,
  http_status smallint not null,
  error_code text not null,
  param text,
  details jsonb,
  primary key (created_at, id)
) partition by range (created_at);
comment on table ai.refused_calls is
  'Calls of known callers that were refused before a run began, for seven days, partitioned by UTC day. At most 20 a '
  'caller and minute; ai.refused_daily counts all of them. Like ai.runs, it has no foreign keys.';
comment on column ai.refused_calls.id is 'UUID version 7 of created_at, so that an id alone finds its partition.';
comment on column ai.refused_calls.model_id is
  'The model as the request named it, truncated. Null if the request was refused before its body was read.';
comment on column ai.refused_calls.feature is 'Null if the request was refused before its feature was known.';
comment on column ai.refused_calls.details is
  'The members of the error besides code, message and param, such as the limit, the need and the remainder. Contains '
  'nothing of the prompt and nothing that a provider sent.';
create index refused_calls_workspace_id_created_at_id_idx
  on ai.refused_calls (workspace_id, created_at desc, id desc);
create index refused_calls_workspace_id_request_id_idx on ai.refused_calls (workspace_id, request_id);
select private.protect_table('ai.refused_calls');
revoke insert, update, delete, truncate on ai.refused_calls from service_role;

create table ai.refused_calls_default partition of ai.refused_calls default;
comment on table ai.refused_calls_default is 'Holds refused calls of days without a partition.';
select ai.protect_partition('ai.refused_calls_default');

create table ai.refused_daily (
  workspace_id uuid not null,
  day date not null,
  app_id uuid,
  key_lineage_id uuid,
  actor_id uuid,
  model_id text,
  feature text,
  execution_mode text not null,
  refused bigint not null check (refused > 0),
  unique nulls not distinct (workspace_id, day, app_id, key_lineage_id, actor_id, model_id, feature, execution_mode)
);
comment on table ai.refused_daily is
  'All refused calls of known callers, counted by the UTC day on which they were refused. No foreign keys, as '
  'ai.usage_daily has none.';
comment on column ai.refused_daily.model_id is 'Null if the request named no model, or one that does not exist.';
comment on column ai.refused_daily.feature is
  'Null if it is unknown, and for all others once a caller had 20 combinations of model and feature on the day.';
select private.protect_table('ai.refused_daily');
revoke insert, update, delete, truncate on ai.refused_daily from service_role;
reset all;
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
reset all;
-- Envelopes: limits of one task, which its owner can raise or end while it runs.
set lock_timeout = '500ms';

create table ai.envelopes (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid not null references public.workspaces (id) on delete cascade,
  principal_id uuid not null,
  label text not null default '' check (label ~ '^[A-Za-z0-9._:-]{0,128}$'),
  holds_all boolean not null default false,
  key_lineage_id uuid,
  actor_id uuid,
  opened_usd numeric(24, 12) not null check (opened_usd > 0),
  opened_calls bigint check (opened_calls > 0),
  ttl_seconds integer check (ttl_seconds > 0),
  opened_at timestamptz not null default now(),
  opened_by uuid references auth.users (id) on delete set null,
  ended_at timestamptz,
  ended_by uuid references auth.users (id) on delete set null,
  superseded_at timestamptz
);
comment on table ai.envelopes is
  'Limits of one session, task or label of a key or person. The amounts and counts are in ai.budgets with scope envelope.';
comment on column ai.envelopes.principal_id is
  'The lineage of the key whose calls the envelope holds, or the person whose own calls it holds.';
comment on column ai.envelopes.label is
  'The label or session of the calls that it holds. Empty: calls that name the envelope, or all of the principal''s with holds_all.';
comment on column ai.envelopes.holds_all is 'Whether a person opened it for all calls of the principal, with any label or none.';
comment on column ai.envelopes.actor_id is 'The creator of the key, or the person: the owner, who may raise and end it.';
comment on column ai.envelopes.opened_usd is
  'The amount with which it was opened. A call that joins it must name this amount, even after it was raised.';
comment on column ai.envelopes.opened_by is 'The person who opened it. Null if a call did.';
comment on column ai.envelopes.ended_at is 'When a person ended it. Its end time is in ai.budgets.ends_at.';
comment on column ai.envelopes.superseded_at is 'When a person opened another one in its place.';
create unique index envelopes_current_idx on ai.envelopes (principal_id, workspace_id, label) where superseded_at is null;
create index envelopes_workspace_id_opened_at_idx on ai.envelopes (workspace_id, opened_at desc, id);
create index envelopes_opened_at_idx on ai.envelopes (opened_at);
create index envelopes_opened_by_idx on ai.envelopes (opened_by);
create index envelopes_ended_by_idx on ai.envelopes (ended_by);
select private.protect_table('ai.envelopes');
revoke insert, update, delete, truncate on ai.envelopes from service_role;
reset all;
-- Limits of the calls and tokens a minute of providers. Few rows, one of which changes with each call to a limited provider.
set lock_timeout = '500ms';

create table ai.provider_limits (
  provider_id text primary key check (provider_id ~ '^[a-z][a-z0-9_]{0,31}$'),
  requests_per_minute integer check (requests_per_minute > 0),
  tokens_per_minute bigint check (tokens_per_minute between 1 and 100000000000),
  requests_full_at timestamptz not null default now(),
  tokens_full_at timestamptz not null default now(),
  check (num_nonnulls(requests_per_minute, tokens_per_minute) > 0)
) with (fillfactor = 50);
comment on table ai.provider_limits is
  'Limits of a provider''s credential, which the calls of all workspaces share. Each limit is a token bucket.';
comment on column ai.provider_limits.tokens_per_minute is 'Counts the maximum input and the output limit of each call.';
comment on column ai.provider_limits.requests_full_at is 'When the bucket of requests will be full, or has become full.';
comment on column ai.provider_limits.tokens_full_at is 'When the bucket of tokens will be full, or has become full.';
select private.protect_table('ai.provider_limits');
reset all;
-- The usual output of the calls of workspaces with budgets that reserve it.
set lock_timeout = '500ms';

create table ai.output_histories (
  workspace_id uuid not null,
  model_id text not null,
  feature text not null,
  outputs bigint[] not null,
  updated_at timestamptz not null default now(),
  primary key (workspace_id, model_id, feature)
) with (fillfactor = 50);
comment on table ai.output_histories is
  'The output tokens of the last 100 runs of a model and feature in a workspace that has a budget with reserves_expected. '
  'No foreign keys, because settlements would wait for changes of workspaces and models.';
create index output_histories_updated_at_idx on ai.output_histories (updated_at);
select private.protect_table('ai.output_histories');
revoke insert, update, delete, truncate on ai.output_histories from service_role;
reset all;
-- State of the automatic imports of providers' costs.
set lock_timeout = '500ms';

create table ai.cost_importers (
  provider text primary key check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  last_complete_day date,
  missed datemultirange not null default '{}',
  next_attempt_at timestamptz not null default now(),
  last_attempt_at timestamptz,
  last_error text check (char_length(last_error) between 1 and 500),
  failures integer not null default 0 check (failures >= 0),
  lease uuid,
  leased_until timestamptz,
  check (num_nulls(lease, leased_until) in (0, 2))
);
comment on table ai.cost_importers is
  'How far each provider''s costs were imported into the platform''s book from its API. Has no keys.';
comment on column ai.cost_importers.last_complete_day is
  'The last UTC day up to which the provider answered every day. Null: nothing was imported yet.';
comment on column ai.cost_importers.missed is
  'The days that the provider no longer reported when the import continued after them.';
comment on column ai.cost_importers.failures is 'The failed attempts since the last successful one.';
comment on column ai.cost_importers.lease is 'Identifies the attempt in progress. Only its server may store days.';
comment on column ai.cost_importers.leased_until is 'When another server may begin an attempt.';
select private.protect_table('ai.cost_importers');
reset all;
-- Statements of the platform's closed months.
set lock_timeout = '500ms';

create table ai.book_statements (
  id uuid primary key default gen_random_uuid(),
  book_id uuid not null,
  month date not null check (extract(day from month) = 1),
  version integer not null check (version > 0),
  closed_by uuid not null,
  closed_at timestamptz not null default now(),
  figures jsonb not null,
  exceptions jsonb not null,
  records text not null,
  sha256 bytea not null check (octet_length(sha256) = 32),
  reopened_by uuid,
  reopened_at timestamptz,
  reopen_reason text check (char_length(reopen_reason) between 1 and 500),
  check (num_nonnulls(reopened_by, reopened_at, reopen_reason) in (0, 3)),
  unique (book_id, month, version)
);
comment on table ai.book_statements is
  'Statements of closed months, append-only: only a reopening is added, once. Kept for good, so nothing refers to a book '
  'or a person by a foreign key.';
comment on column ai.book_statements.figures is
  'Metered, imported and invoiced amounts by provider and account, as exact decimals in text.';
comment on column ai.book_statements.exceptions is 'What was open when the month was closed, each with its reason.';
comment on column ai.book_statements.records is 'The lines of the records that counted (ai.month_records), sorted by byte.';
comment on column ai.book_statements.sha256 is 'The SHA-256 of records in UTF-8.';
create unique index book_statements_closed_idx on ai.book_statements (book_id, month) where reopened_at is null;
alter table ai.book_statements enable row level security;
select private.protect_table('ai.book_statements');
revoke insert, update, delete on ai.book_statements from service_role;
reset all;
-- Who may use the platform's books in the console without being an infrastructure admin.
set lock_timeout = '500ms';

create table private.finance_people (
  user_id uuid primary key references auth.users (id) on delete cascade,
  reason text not null check (char_length(reason) between 1 and 500),
  created_at timestamptz not null default now()
);
comment on table private.finance_people is
  'Who may use the platform''s books, and nothing else of the console. A row, not a claim, so withdrawing it takes effect at once.';
alter table private.finance_people enable row level security;
select private.protect_table('private.finance_people');
reset all;
-- What providers count by hour, for the comparison with the calls of that hour.
set lock_timeout = '500ms';

create table ai.usage_days (
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  day date not null,
  observed_at timestamptz not null default now(),
  primary key (provider, day)
);
comment on table ai.usage_days is 'The UTC days whose hours a provider has stated, at the request of a person.';
select private.protect_table('ai.usage_days');

create table ai.usage_hours (
  provider text not null,
  day date not null,
  hour timestamptz not null check (hour = date_trunc('hour', hour, 'UTC') and (hour at time zone 'UTC')::date = day),
  key_id text check (char_length(key_id) between 1 and 256),
  model text not null check (char_length(model) between 1 and 256),
  requests bigint check (requests >= 0),
  input_tokens bigint not null check (input_tokens >= 0),
  cached_input_tokens bigint not null check (cached_input_tokens >= 0),
  cache_write_tokens bigint not null check (cache_write_tokens >= 0),
  output_tokens bigint not null check (output_tokens >= 0),
  foreign key (provider, day) references ai.usage_days (provider, day) on delete cascade,
  unique nulls not distinct (provider, day, hour, key_id, model)
);
comment on table ai.usage_hours is 'What a provider counted in an hour, by its own API key and model. No row: nothing.';
comment on column ai.usage_hours.key_id is 'The provider''s id of its API key. Null: without a key, such as in its console.';
comment on column ai.usage_hours.requests is 'Null: the provider does not state it.';
comment on column ai.usage_hours.input_tokens is 'Includes cached tokens and cache writes, as in ai.runs.';
select private.protect_table('ai.usage_hours');

create table ai.gateway_provider_keys (
  provider text not null check (provider ~ '^[a-z0-9._:-]{1,128}$'),
  key_id text not null check (char_length(key_id) between 1 and 256),
  created_at timestamptz not null default now(),
  primary key (provider, key_id)
);
comment on table ai.gateway_provider_keys is
  'The providers'' API keys that only this gateway uses, as people marked them. Has ids, not keys.';
select private.protect_table('ai.gateway_provider_keys');

revoke insert, update, delete on ai.usage_days, ai.usage_hours, ai.gateway_provider_keys from service_role;
reset all;
-- What OpenRouter charged for single calls.
set lock_timeout = '500ms';

create table ai.generation_costs (
  run_id uuid not null,
  generation_id text not null check (generation_id ~ '^gen-.' and char_length(generation_id) <= 128),
  cost_usd numeric check (cost_usd >= 0),
  own_key_usd numeric check (own_key_usd >= 0),
  observed_at timestamptz not null,
  primary key (run_id, generation_id),
  check (own_key_usd is null or cost_usd is not null)
);
comment on table ai.generation_costs is
  'The answers of OpenRouter about the cost of single calls (generations). Kept for good, like the runs.';
comment on column ai.generation_costs.cost_usd is
  'What OpenRouter charged, with all its decimals. Null if it did not know the generation.';
comment on column ai.generation_costs.own_key_usd is
  'What the model''s provider charged the operator''s own key. OpenRouter does not bill it. Null for calls with its key.';
select private.protect_table('ai.generation_costs');
revoke insert, update, delete on ai.generation_costs from service_role;
