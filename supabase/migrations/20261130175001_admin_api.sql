-- The changes that callers of the admin API may repeat.
set lock_timeout = '500ms';

create table private.idempotency_keys (
  caller_id uuid not null,
  key text not null check (char_length(key) between 1 and 255),
  request_hash bytea not null check (octet_length(request_hash) = 32),
  answer jsonb not null check (jsonb_typeof(answer) = 'object'),
  created_at timestamptz not null default now(),
  primary key (caller_id, key)
);
comment on table private.idempotency_keys is
  'The answers to changes through the admin API, so that a repeated request changes nothing, for 24 hours. They have no '
  'secrets.';
comment on column private.idempotency_keys.caller_id is
  'The account of a person with a role in the console, or a service account. No foreign key: rows end within a day.';
comment on column private.idempotency_keys.request_hash is
  'The SHA-256 of the operation, its parameters and its body.';
create index idempotency_keys_created_at_idx on private.idempotency_keys (created_at);
alter table private.idempotency_keys enable row level security;
select private.protect_table('private.idempotency_keys');

reset all;
