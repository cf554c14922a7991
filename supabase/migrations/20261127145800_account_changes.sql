set lock_timeout = '500ms';

alter table public.security_events add column target_id uuid;
comment on column public.security_events.target_id is
  'The identity, passkey or authenticator that the event concerns. No foreign key: they are the identity backend''s.';

alter table private.outgoing_mails
  add column event_id uuid references public.security_events (id) on delete cascade,
  alter column subject drop not null,
  alter column body drop not null,
  add constraint text_or_event check ((event_id is null) = (subject is not null and body is not null)) not valid;
comment on column private.outgoing_mails.event_id is
  'The event that the mail tells the owner about. Our server writes the text when it sends the mail.';
create index if not exists outgoing_mails_event_id_idx on private.outgoing_mails (event_id);

create table private.unconfirmed_additions (
  target_id uuid primary key,
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null check (kind in ('identity', 'passkey', 'authenticator')),
  created_at timestamptz not null default now()
);
comment on table private.unconfirmed_additions is
  'Identities, passkeys and authenticators that a direct call of the identity backend added, until the owner keeps them. '
  'No foreign key to them: they are the identity backend''s.';
create index unconfirmed_additions_user_id_idx on private.unconfirmed_additions (user_id);
select private.protect_table('private.unconfirmed_additions');

create table private.announced_additions (
  target text primary key check (char_length(target) between 1 and 2048),
  user_id uuid not null references auth.users (id) on delete cascade,
  expires_at timestamptz not null default now() + interval '1 minute'
);
comment on table private.announced_additions is
  'Authenticators (by id) and passkeys (by credential id in hexadecimal) that our server is about to add, after step-up.';
create index announced_additions_user_id_idx on private.announced_additions (user_id);
select private.protect_table('private.announced_additions');

create table private.access_confirmations (
  user_id uuid primary key references auth.users (id) on delete cascade,
  confirmed_at timestamptz not null,
  confirmed_by_mail_at timestamptz
);
comment on table private.access_confirmations is
  'When an owner last confirmed the list of what can open the account.';
comment on column private.access_confirmations.confirmed_by_mail_at is
  'When a session that began with a password reset or recovery last did so. Others may have known the password alone.';
select private.protect_table('private.access_confirmations');
