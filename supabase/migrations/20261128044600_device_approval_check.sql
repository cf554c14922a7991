set lock_timeout = '500ms';

-- A composite is only "not null" if all of its fields are, and the proof of a device's login has no session.
alter table private.device_authorizations drop constraint approval_is_whole;
alter table private.device_authorizations add constraint approval_is_whole check (
  approved_at is null
  or (user_id is not null and proof is distinct from null and authentication is distinct from null)
) not valid;
