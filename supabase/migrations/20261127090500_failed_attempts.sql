create table ai.failed_attempts (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  run_created_at timestamptz not null,
  run_id uuid not null,
  request_id text not null,
  workspace_id uuid not null,
  model_id text not null,
  provider_id text not null,
  provider_model text not null,
  route smallint not null,
  status smallint,
  failure text not null,
  upstream_request_id text
);
comment on table ai.failed_attempts is
  'The failed requests to providers of the last seven days, for the console. Copied from ai.runs.attempts when a run is settled. '
  'Like ai.runs, it has no foreign key: workspaces and models may be deleted.';
create index failed_attempts_at_idx on ai.failed_attempts (at);
create index failed_attempts_route_idx on ai.failed_attempts (model_id, provider_id, provider_model, at);
alter table ai.failed_attempts enable row level security;
select private.protect_table('ai.failed_attempts');
revoke insert, update, delete on ai.failed_attempts from service_role;
