-- Separate: attempts are in use.
set lock_timeout = '500ms';

alter table private.rate_limits add column account bytea check (octet_length(account) = 32);
comment on column private.rate_limits.account is
  'A keyed digest of the account whose attempts the bucket counts. Null if the bucket counts no account, or is not '
  'about signing in.';
