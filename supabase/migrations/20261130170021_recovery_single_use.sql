-- Separate: recoveries are in use.
set lock_timeout = '500ms';

alter table private.recovery_overrides
  add column single_use boolean not null default false,
  add column used_at timestamptz;
comment on column private.recovery_overrides.single_use is 'Whether the override ends when it is used.';
comment on column private.recovery_overrides.used_at is
  'When the override was first used: a recovery email, or a sign-in by password or mailed code.';
