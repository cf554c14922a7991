set lock_timeout = '500ms';

-- Two concurrent transactions of Supabase Auth can end one login. On a unique index they could deadlock.
alter table private.logout_notices drop constraint logout_notices_sid_key;
create index if not exists logout_notices_sid_idx on private.logout_notices (sid);
