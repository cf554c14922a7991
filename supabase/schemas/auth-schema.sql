-- Contains all our triggers on the tables of Supabase Auth's schema `auth`; shared/auth-writes.sql has all our writes to
-- these tables. A new Supabase Auth release can break them; docs/operating.md lists what to check. Migrations create
-- each trigger only where its table exists.
--
-- Auth owns these tables, and its API is the normal way to change them. Each trigger says why it is needed.

-- Sign-up, invitation, OAuth and the console all create users in this table. (Only the table's owner may use `comment
-- on trigger`, so these triggers have ordinary comments.)
create or replace trigger create_profile_and_workspace after insert on auth.users
  for each row execute function private.create_profile_and_workspace();

-- Accounts are also created by identity providers and by direct calls of Auth, which our server does not see.
create or replace trigger refuse_uninvited before insert on auth.users
  for each row execute function private.refuse_uninvited();

-- Serializes account deletions in a trigger, because users are also deleted through Auth's API and by hand.
create or replace trigger serialize_account_deletions before delete on auth.users
  for each statement execute function private.serialize_account_deletions();

-- Users write their metadata through the API, which accepts more metadata than fits into our cookies.
create or replace trigger limit_user_metadata before insert or update of raw_user_meta_data on auth.users
  for each row when (octet_length(new.raw_user_meta_data::text) > 2400)
  execute function private.limit_user_metadata();

-- Anyone can call Supabase Auth directly to sign up with another person's email and with any metadata.
create or replace trigger clear_unproven_metadata before update of email_confirmed_at, raw_user_meta_data on auth.users
  for each row
  when (
    (old.email_confirmed_at is null and new.email_confirmed_at is not null)
    or current_setting('gatehouse.first_confirmation', true) = new.id::text
  )
  execute function private.clear_unproven_metadata();

create or replace trigger start_over after update of email_confirmed_at on auth.users
  for each row when (old.email_confirmed_at is null and new.email_confirmed_at is not null)
  execute function private.start_over();

create or replace trigger keep_own_claims before insert or update of identity_data on auth.identities
  for each row when (new.provider = 'email')
  execute function private.keep_own_claims();

-- Auth writes back the whole metadata column, which may contain an older policy than the stored one.
create or replace trigger preserve_required_mfa_policy before update of raw_app_meta_data on auth.users
  for each row
  when (
    (old.raw_app_meta_data -> 'platform_required_mfa')
      is distinct from (new.raw_app_meta_data -> 'platform_required_mfa')
  )
  execute function private.preserve_required_mfa_policy();

-- Auth links identities during the OAuth callback, before our server sees the browser again.
create or replace trigger record_unconfirmed_identity after insert on auth.identities
  for each row execute function private.record_unconfirmed_identity();

-- Supabase Auth's API can also change passwords and ban or delete accounts, without our server.
create or replace trigger end_app_credentials after update of encrypted_password, banned_until, deleted_at on auth.users
  for each row
  when (
    old.encrypted_password is distinct from new.encrypted_password
    or (old.banned_until is distinct from new.banned_until and new.banned_until > now())
    or (old.deleted_at is null and new.deleted_at is not null)
  )
  execute function private.revoke_user_app_credentials();

-- Passwords can also be changed through Supabase Auth's API, without our server.
create or replace trigger end_password_replacements after update of encrypted_password on auth.users
  for each row when (old.encrypted_password is distinct from new.encrypted_password)
  execute function private.end_password_replacements();

-- Lets Auth send another reset link or sign-in code once the newest one was used. Otherwise, Auth would make the person
-- wait for minutes.
create or replace trigger forget_used_recovery before update of recovery_token on auth.users
  for each row when (old.recovery_token <> '' and new.recovery_token = '')
  execute function private.forget_used_recovery();

-- Every account change is recorded and emailed, even if it was made without our server (activity/account-events.sql).
create or replace trigger record_sign_in after insert on auth.mfa_amr_claims
  for each row execute function private.record_sign_in();

create or replace trigger record_sign_outs after delete on auth.sessions
  referencing old table as ended
  for each statement execute function private.record_sign_outs();

create or replace trigger record_account_change
  after update of encrypted_password, email, email_change, banned_until on auth.users
  for each row execute function private.record_account_change();

-- Updates our search table when Auth changes an email. We can't add an index to Auth's own table.
create or replace trigger index_account after update of email on auth.users
  for each row when (old.email is distinct from new.email) execute function private.index_account();

-- Unlinking the identity that has the account's email makes Auth replace that email with another identity's email.
create or replace trigger guard_email before update of email on auth.users
  for each row when (old.email is distinct from new.email) execute function private.guard_email();

create or replace trigger record_authenticator_added after update of status on auth.mfa_factors
  for each row when (new.status = 'verified' and old.status <> 'verified')
  execute function private.record_authenticator_added();

create or replace trigger record_authenticator_removed before delete on auth.mfa_factors
  for each row execute function private.record_removal();

create or replace trigger record_identity_removed before delete on auth.identities
  for each row execute function private.record_removal();

create or replace trigger record_passkey_added after insert on auth.webauthn_credentials
  for each row execute function private.record_passkey_added();

create or replace trigger record_passkey_renamed after update of friendly_name on auth.webauthn_credentials
  for each row when (old.friendly_name is distinct from new.friendly_name)
  execute function private.record_passkey_renamed();

create or replace trigger record_passkey_removed before delete on auth.webauthn_credentials
  for each row execute function private.record_removal();

-- Deleting a session, a factor or an account also ends logins at apps. These triggers run before the change, while the
-- logins can still be found.
create or replace trigger queue_logouts before delete on auth.sessions
  for each row execute function private.queue_logouts_before_change();

create or replace trigger queue_logouts_of_removed_factor before delete on auth.mfa_factors
  for each row when (old.status = 'verified')
  execute function private.queue_logouts_before_change();

create or replace trigger queue_logouts_of_unverified_factor before update of status on auth.mfa_factors
  for each row when (old.status = 'verified' and new.status <> 'verified')
  execute function private.queue_logouts_before_change();

create or replace trigger queue_logouts_of_deleted_account before delete on auth.users
  for each row execute function private.queue_logouts_before_change();

-- Triggers run in the order of their names, so this one runs after preserve_required_mfa_policy.
create or replace trigger queue_logouts_of_new_policy before update of raw_app_meta_data on auth.users
  for each row
  when (
    (old.raw_app_meta_data -> 'platform_required_mfa' -> 'generation')
      is distinct from (new.raw_app_meta_data -> 'platform_required_mfa' -> 'generation')
  )
  execute function private.queue_logouts_before_change();
