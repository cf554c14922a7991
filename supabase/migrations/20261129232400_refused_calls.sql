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
