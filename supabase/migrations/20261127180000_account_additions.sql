set lock_timeout = '500ms';

create table private.account_additions (
  secret_hash bytea primary key check (octet_length(secret_hash) = 32),
  device_id uuid not null references private.account_devices (id) on delete cascade,
  user_id uuid references auth.users (id) on delete cascade,
  session_id uuid not null,
  sealed text check (char_length(sealed) between 40 and 16384),
  key_id text check (char_length(key_id) between 1 and 64),
  token_tag text check (char_length(token_tag) between 16 and 64),
  taken_from bytea check (octet_length(taken_from) = 32),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '15 minutes',
  constraint sealed_until_taken check (
    (sealed is null) = (taken_from is not null)
    and (sealed is null) = (user_id is null)
    and (sealed is null) = (key_id is null)
    and (sealed is null) = (token_tag is null)
  )
);
comment on table private.account_additions is
  'Sign-ins on a known browser, by the hash of a secret that only their response carries. A sign-in joins the browser''s '
  'accounts when the browser shows that secret.';
comment on column private.account_additions.user_id is
  'Null once the account has joined: a browser that lost that response keeps its other accounts when this one is deleted.';
comment on column private.account_additions.session_id is
  'No foreign key: sessions come and go in the identity backend''s own schema.';
comment on column private.account_additions.taken_from is
  'The hash of the device secret that was shown when the account joined; null before. The row then leads a browser that '
  'lost that response from this secret to the next one.';
create index account_additions_device_id_idx on private.account_additions (device_id);
create index account_additions_user_id_idx on private.account_additions (user_id);
create index account_additions_expires_at_idx on private.account_additions (expires_at);
select private.protect_table('private.account_additions');

alter table private.recovery_credentials
  add column repeatable_by bytea,
  add column repeatable_session_id uuid,
  add column replaced_password boolean not null default false;
comment on column private.recovery_credentials.repeatable_by is
  'The hash of a secret of the browser that used it. From then on, only that browser can use it.';
comment on column private.recovery_credentials.repeatable_session_id is
  'The session that it has made. It can be used again until that session ends or its browser shows it. No foreign key, as '
  'in private.account_additions.';
comment on column private.recovery_credentials.replaced_password is
  'Whether it replaced the password of an unconfirmed account, so that a repetition asks for a new one as well.';
