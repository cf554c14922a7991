-- How service accounts authenticate, and which scopes they may have.
set lock_timeout = '500ms';

create table private.service_account_credentials (
  id uuid primary key default gen_random_uuid(),
  service_account_id uuid not null references private.service_accounts (id) on delete cascade,
  secret_hash bytea unique check (octet_length(secret_hash) = 32),
  public_jwk jsonb check (
    jsonb_typeof(public_jwk) = 'object'
    and not public_jwk ?| array['d', 'k', 'p', 'q', 'dp', 'dq', 'qi', 'oth']
    and octet_length(public_jwk::text) <= 4096
  ),
  kid text check (char_length(kid) between 1 and 200),
  created_by uuid references auth.users (id) on delete set null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  last_used_at timestamptz,
  constraint secret_or_key check (num_nonnulls(secret_hash, public_jwk) = 1),
  constraint kid_of_key check ((kid is null) = (public_jwk is null))
);
comment on table private.service_account_credentials is
  'Secrets and public keys with which service accounts request tokens.';
comment on column private.service_account_credentials.secret_hash is 'The SHA-256 of the secret.';
comment on column private.service_account_credentials.public_jwk is
  'The public key that verifies the service account''s assertions. It has no private member.';
comment on column private.service_account_credentials.created_by is
  'The person who added it, and who may hold the secret or private key. Null once that account is deleted.';
comment on column private.service_account_credentials.expires_at is
  'Set when a newer secret replaces this one. Null: the credential works as long as the service account.';
create unique index service_account_credentials_service_account_id_kid_key
  on private.service_account_credentials (service_account_id, kid);
create index service_account_credentials_created_by_idx on private.service_account_credentials (created_by);
alter table private.service_account_credentials enable row level security;
select private.protect_table('private.service_account_credentials');
revoke insert, update, delete, truncate on private.service_account_credentials from service_role;

create table private.service_tokens (
  token_hash bytea primary key check (octet_length(token_hash) = 32),
  service_account_id uuid not null references private.service_accounts (id) on delete cascade,
  credential_id uuid not null references private.service_account_credentials (id) on delete cascade,
  scopes text[] not null check (cardinality(scopes) between 1 and 20),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
comment on table private.service_tokens is
  'Access tokens of service accounts. A token ends with its credential, and with its service account.';
comment on column private.service_tokens.token_hash is 'The SHA-256 of the token.';
comment on column private.service_tokens.scopes is
  'The requested scopes, or all that the service account had.';
create index service_tokens_service_account_id_idx on private.service_tokens (service_account_id);
create index service_tokens_credential_id_idx on private.service_tokens (credential_id);
create index service_tokens_expires_at_idx on private.service_tokens (expires_at);
alter table private.service_tokens enable row level security;
select private.protect_table('private.service_tokens');

create table private.used_assertions (
  service_account_id uuid not null references private.service_accounts (id) on delete cascade,
  jti text not null check (char_length(jti) between 8 and 128),
  expires_at timestamptz not null,
  primary key (service_account_id, jti)
);
comment on table private.used_assertions is
  'Client assertions that were accepted. Each is accepted once (RFC 7523 section 3).';
create index used_assertions_expires_at_idx on private.used_assertions (expires_at);
alter table private.used_assertions enable row level security;
select private.protect_table('private.used_assertions');

-- The lists are also in remix-app/machines/scopes.ts.
alter table private.service_accounts add constraint service_accounts_known_scopes check (
  scopes <@ case
    when workspace_id is null then array[
      'admin:accounts:read', 'admin:accounts:write', 'admin:workspaces:read', 'admin:workspaces:write',
      'admin:approvals:write', 'admin:catalogue:read', 'admin:catalogue:write', 'admin:apps:read', 'admin:apps:write',
      'admin:books', 'admin:audit:read', 'admin:security:read'
    ]
    else array['use_ai_studio', 'manage_ai_keys', 'manage_ai_policy']
  end
) not valid;
