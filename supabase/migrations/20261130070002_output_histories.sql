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
