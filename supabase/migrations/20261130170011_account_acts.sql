-- Who may sign up, who is invited, and which accounts will be deleted.
set lock_timeout = '500ms';

create table private.platform_settings (
  singleton boolean primary key default true check (singleton),
  sign_up text not null default 'open' check (sign_up in ('open', 'invitation')),
  updated_at timestamptz not null default now()
);
comment on table private.platform_settings is 'The settings of the platform that the console changes. One row.';
comment on column private.platform_settings.sign_up is
  'open: everyone may create an account. invitation: only people with an invitation, or a recovery override.';
insert into private.platform_settings default values;
alter table private.platform_settings enable row level security;
select private.protect_table('private.platform_settings');

create table private.account_invitations (
  id uuid primary key default gen_random_uuid(),
  email text not null check (email = lower(email) and email like '%_@_%' and char_length(email) <= 254),
  invited_by uuid references auth.users (id) on delete set null,
  service_account_id uuid references private.service_accounts (id) on delete set null,
  reason text not null check (char_length(reason) between 1 and 500),
  imported boolean not null default false,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '14 days' check (expires_at > created_at),
  revoked_at timestamptz
);
comment on table private.account_invitations is
  'Emails that may create an account while sign-up is by invitation. The id, which the email links to, proves nothing: '
  'the new account still has to confirm its email.';
comment on column private.account_invitations.imported is
  'Added by an import of users, for an hour, without an email. The console does not list it.';
comment on column private.account_invitations.revoked_at is
  'When it was revoked, or replaced after it expired. Whether it was accepted follows from the accounts.';
create unique index account_invitations_one_open on private.account_invitations (email) where revoked_at is null;
create index account_invitations_created_at_idx on private.account_invitations (created_at, id) where not imported;
create index account_invitations_invited_by_idx on private.account_invitations (invited_by);
create index account_invitations_service_account_id_idx on private.account_invitations (service_account_id);
alter table private.account_invitations enable row level security;
select private.protect_table('private.account_invitations');

create table private.account_deletions (
  user_id uuid primary key references auth.users (id) on delete cascade,
  requested_by uuid references auth.users (id) on delete set null,
  service_account_id uuid references private.service_accounts (id) on delete set null,
  reason text not null check (char_length(reason) between 1 and 500),
  request_id text check (char_length(request_id) <= 128),
  requested_at timestamptz not null default now(),
  due_at timestamptz not null check (due_at > requested_at),
  banned_until_before timestamptz,
  mail_subject text check (char_length(mail_subject) between 1 and 200),
  mail_body text check (char_length(mail_body) between 1 and 20000),
  last_blockers jsonb,
  checked_at timestamptz,
  check (num_nonnulls(mail_subject, mail_body) in (0, 2))
);
comment on table private.account_deletions is
  'Accounts that an admin deletes after a waiting time, in which they are banned. An account that is kept has no row.';
comment on column private.account_deletions.banned_until_before is 'The ban that applies again if the account is kept.';
comment on column private.account_deletions.mail_subject is
  'The email to the owner about the deletion, sent once the account and its log are gone.';
comment on column private.account_deletions.last_blockers is
  'What private.list_account_deletion_blockers returned at the last attempt. Null before it.';
comment on column private.account_deletions.checked_at is
  'The last attempt. An account that could not be deleted waits for the others.';
create index account_deletions_due_at_idx on private.account_deletions (due_at);
create index account_deletions_requested_by_idx on private.account_deletions (requested_by);
create index account_deletions_service_account_id_idx on private.account_deletions (service_account_id);
alter table private.account_deletions enable row level security;
select private.protect_table('private.account_deletions');

revoke insert, update, delete, truncate
  on private.platform_settings, private.account_invitations, private.account_deletions from service_role;

reset all;
