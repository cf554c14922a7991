-- Separate: the audit log and its readers are in use.
set lock_timeout = '500ms';

-- Service accounts of the platform and of workspaces, and what they changed in the console.
create table private.service_accounts (
  id uuid primary key default gen_random_uuid(),
  workspace_id uuid references public.workspaces (id) on delete cascade,
  name text not null check (char_length(name) between 1 and 100),
  scopes text[] not null check (cardinality(scopes) between 1 and 20),
  allowed_addresses cidr[] not null default '{}' check (cardinality(allowed_addresses) <= 50),
  enabled boolean not null default true,
  created_by uuid references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  revoked_at timestamptz,
  last_used_at timestamptz,
  last_used_ip inet
);
comment on table private.service_accounts is
  'Programs with an identity of their own. They never sign in to pages.';
comment on column private.service_accounts.workspace_id is 'Null for a service account of the platform.';
comment on column private.service_accounts.scopes is 'What the service account may do, such as admin:apps:write.';
comment on column private.service_accounts.allowed_addresses is 'If empty, every address may use the service account.';
comment on column private.service_accounts.created_by is
  'The person who is responsible for what the service account does. Null once that account is deleted.';
create unique index service_accounts_workspace_id_name_key
  on private.service_accounts (workspace_id, name) nulls not distinct where revoked_at is null;
create index service_accounts_workspace_id_idx on private.service_accounts (workspace_id);
create index service_accounts_created_by_idx on private.service_accounts (created_by);
alter table private.service_accounts enable row level security;
select private.protect_table('private.service_accounts');
revoke insert, update, delete, truncate on private.service_accounts from service_role;

alter table private.admin_audit_log
  add column service_account_id uuid,
  add column service_account_name text check (char_length(service_account_name) <= 100);
comment on column private.admin_audit_log.service_account_id is
  'The service account that made the change. No foreign key: a line outlives the service account.';
