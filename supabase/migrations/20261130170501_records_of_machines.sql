-- Separate: every call reads these tables, so this file locks them at once and is short.
set lock_timeout = '500ms';

-- In the order in which calls read them. lock_timeout counts for each table, statement_timeout for all.
set statement_timeout = '1s';
do $$
begin
  lock table ai.keys, ai.workspace_policies, ai.envelopes in access exclusive mode;
end
$$;
reset statement_timeout;

alter table ai.keys add column service_account_id uuid;
comment on column ai.keys.service_account_id is
  'The service account that created the key. Then created_by is null. No foreign key: both are deleted with the workspace.';

alter table ai.envelopes add column service_account_id uuid;
comment on column ai.envelopes.service_account_id is 'The service account that opened it. Then opened_by is null.';

alter table ai.workspace_policies add column service_account_id uuid;
comment on column ai.workspace_policies.service_account_id is
  'The service account that made the last change. Then updated_by is null.';
