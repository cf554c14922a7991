-- Contains all our writes to the tables of Supabase Auth's schema `auth`, and the trigger functions that check or change
-- its own writes. A new Supabase Auth release can break them; docs/operating.md lists what to check.
--
-- Auth owns these tables, and its API is the normal way to change them. Each write says why it is needed.

-- Refuses metadata that would make the user's tokens too large for a browser's cookies.
-- Every access token carries its user's metadata, which users write themselves, even before they confirm an email
-- address. If the metadata is larger than the limit, a token no longer fits our cookies (6 KiB), and most servers
-- refuse requests with such a token.
create or replace function private.limit_user_metadata() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  raise exception 'user metadata is larger than 2400 bytes' using errcode = 'check_violation';
end
$$;

-- Makes account deletions wait for each other before they lock any row. Otherwise two deletions could deadlock, because
-- the rows of each account may refer to the other account, even in workspaces that one of them has left.
create or replace function private.serialize_account_deletions() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  return null;
end
$$;

-- Preserves the stored MFA policy when the identity backend writes back metadata. The backend reads the metadata
-- without a lock, so a sign-in could otherwise undo a policy change. Only private.write_required_mfa_policy may change
-- the policy; it sets gatehouse.required_mfa_writer in its transaction.
create or replace function private.preserve_required_mfa_policy() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if current_setting('gatehouse.required_mfa_writer', true) = 'on' then
    return new;
  end if;
  if jsonb_typeof(new.raw_app_meta_data) is distinct from 'object' then
    new.raw_app_meta_data := '{}';
  end if;
  new.raw_app_meta_data := new.raw_app_meta_data - 'platform_required_mfa';
  if old.raw_app_meta_data ? 'platform_required_mfa' then
    new.raw_app_meta_data := new.raw_app_meta_data
      || jsonb_build_object('platform_required_mfa', old.raw_app_meta_data -> 'platform_required_mfa');
  end if;
  return new;
end
$$;

-- Writes an account's MFA policy and returns it. Applies changes (required, recovery, signInAgain), increments the
-- generation, and moves the boundary forward to the current second, so that earlier proofs no longer count. signInAgain
-- also moves the boundary of primary methods. The caller must hold the account's row for update. Not granted to any
-- role.
create or replace function private.write_required_mfa_policy(account auth.users, changes jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  old_policy jsonb := account.raw_app_meta_data -> 'platform_required_mfa';
  readable boolean := private.required_mfa_state(account.raw_app_meta_data) <> 'malformed';
  -- Uses the clock rather than the transaction's start, since this transaction may have waited for an earlier one.
  second bigint := floor(extract(epoch from clock_timestamp()));
  new_policy jsonb;
begin
  new_policy := jsonb_build_object(
    'version', 1,
    -- An unreadable policy may have required MFA, so it is treated as one that did.
    'required', case when readable then coalesce(old_policy -> 'required', 'false') else 'true' end,
    'boundary', greatest(
      case when private.is_integer(old_policy -> 'boundary') then (old_policy -> 'boundary')::bigint end,
      second
    ),
    'primaryBoundary', case
      when private.is_integer(old_policy -> 'primaryBoundary') then old_policy -> 'primaryBoundary'
      else 'null'
    end,
    'recovery', case when readable then coalesce(old_policy -> 'recovery', '"none"') else '"none"' end,
    'generation', coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) + 1
  );
  if changes ? 'signInAgain' then
    new_policy := new_policy || jsonb_build_object(
      'primaryBoundary', greatest((new_policy ->> 'primaryBoundary')::bigint, second)
    );
  end if;
  new_policy := new_policy || (changes - 'signInAgain');

  perform set_config('gatehouse.required_mfa_writer', 'on', true);
  update auth.users u
  set raw_app_meta_data =
    coalesce(u.raw_app_meta_data, '{}') || jsonb_build_object('platform_required_mfa', new_policy)
  where u.id = account.id;
  perform set_config('gatehouse.required_mfa_writer', 'off', true);
  return new_policy;
end
$$;

-- Returns true if a stored hash was replaced because a new password was set, and false if the same hash was only
-- encrypted.
-- With database encryption, Auth may encrypt a stored hash at a sign-in. This changes the column although the password
-- stays the same. Only the statement that sets a new password mentions recovery_token.
create or replace function private.is_new_password(stored text, hash text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select hash is distinct from stored and not (coalesce(hash, '') like '{%' and current_query() not like '%recovery_token%')
$$;

-- Bans an account until a time, or lifts its ban if the time is null. Skips the event that every other change of a ban
-- adds (private.record_account_change), because the caller adds one with the reason. The caller must hold the account's
-- row for update.
-- The API cannot change a ban and write the audit log in one transaction.
create or replace function private.write_ban(subject_id uuid, until timestamptz) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform set_config('gatehouse.ban_writer', 'on', true);
  update auth.users u set banned_until = write_ban.until, updated_at = now() where u.id = subject_id;
  perform set_config('gatehouse.ban_writer', 'off', true);
end
$$;

-- Deletes a user. Returns false if the user doesn't exist.
-- The API cannot check for remaining workspaces and delete the user in one transaction.
create or replace function private.delete_auth_user(subject_id uuid) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with deleted as (
    delete from auth.users u where u.id = subject_id returning u.id
  )
  select exists (select from deleted)
$$;

-- Deletes a user who has never signed in and was created at created_since or later. Returns false if no such user
-- exists.
-- Auth creates the user before our server can refuse the sign-up. Auth's API cannot restrict a deletion to users who
-- have never signed in.
create or replace function private.delete_unused_auth_user(subject_id uuid, created_since timestamptz) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with deleted as (
    delete from auth.users u
    where u.id = subject_id and u.created_at >= created_since and u.last_sign_in_at is null
    returning u.id
  )
  select exists (select from deleted)
$$;

-- Deletes a PKCE flow, so that its code cannot be exchanged.
-- The API has no call to cancel a PKCE flow after its code was issued.
create or replace function private.delete_auth_flow(flow_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from auth.flow_state f where f.id = flow_id
$$;

-- Ends one session of an account. Returns true for the one caller that ended it. Returns false if the session had
-- already ended or belongs to another account.
-- Definer: the API can sign a user out only with that user's access token. Refresh tokens and AMR claims are deleted
-- with the session's row.
create or replace function private.end_account_session(subject_id uuid, target_id uuid) returns boolean
  language sql volatile security definer set search_path = ''
as $$
  with ended as (
    delete from auth.sessions s where s.id = target_id and s.user_id = subject_id returning s.id
  )
  select exists (select from ended)
$$;

-- Ends every session of a user. Refresh tokens and AMR claims are deleted with the rows.
-- The API can sign a user out only with that user's access token, which our server does not have at this point.
create or replace function private.delete_auth_sessions(subject_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from auth.sessions s where s.user_id = subject_id
$$;

-- Sets the sign-in time of a session that our server created from an earlier sign-in. Tokens that are issued for the
-- session afterwards carry this time.
-- The API always sets the time of a new session to the current time.
create or replace function private.set_session_sign_in_time(target_id uuid, signed_in_at timestamptz) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update auth.mfa_amr_claims a set created_at = signed_in_at, updated_at = signed_in_at where a.session_id = target_id;
  -- Auth reads the session row, not its AMR claims, before it accepts a new password.
  update auth.sessions s set created_at = least(s.created_at, signed_in_at) where s.id = target_id
$$;

-- Lets Auth send the next reset link or sign-in code as soon as the previous one was used or voided, even if our server
-- generated and used the previous link itself.
create or replace function private.forget_used_recovery() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  new.recovery_sent_at := null;
  return new;
end
$$;

-- Gives a user the same email identity that Auth creates at a sign-up by email.
-- The API has no call to add an email identity to an existing user.
create or replace function private.add_email_identity(account auth.users) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into auth.identities (provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
  values (
    account.id::text,
    account.id,
    jsonb_build_object('sub', account.id, 'email', account.email, 'email_verified', true, 'phone_verified', false),
    'email',
    now(),
    now(),
    now()
  )
$$;

-- Removes an identity from its account, and its provider from the account's application metadata. For definers of this
-- schema only.
create or replace function private.remove_identity(target_id uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  owner_id uuid;
begin
  delete from auth.identities i where i.id = target_id returning i.user_id into owner_id;
  update auth.users u
  set raw_app_meta_data = coalesce(u.raw_app_meta_data, '{}') || (
        select jsonb_strip_nulls(jsonb_build_object(
          'provider', (array_agg(p.provider order by p.since))[1],
          'providers', coalesce(jsonb_agg(p.provider order by p.since), '[]')
        ))
        from (
          select i.provider, min(i.created_at) as since
          from auth.identities i where i.user_id = owner_id group by i.provider
        ) p
      ),
      updated_at = now()
  where u.id = owner_id;
end
$$;

-- Removes a user's password. Supabase Auth itself stores an empty hash for a user without a password.
-- Supabase Auth's API can change a password, but can't remove it.
create or replace function private.remove_password(subject_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update auth.users u set encrypted_password = '', updated_at = now() where u.id = subject_id
$$;

-- Deletes a passkey.
-- Deletes in SQL, because the API can't check in the same transaction whether another way to sign in remains.
create or replace function private.delete_auth_passkey(passkey_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from auth.webauthn_credentials c where c.id = passkey_id
$$;

-- Deletes a TOTP factor.
-- The API can't check in the same transaction whether the account requires MFA.
create or replace function private.delete_auth_factor(subject_id uuid, target_id uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  -- Lowers the sessions that used the factor to AAL1, as Supabase Auth does.
  delete from auth.mfa_amr_claims a
  where a.authentication_method = 'totp'
    and a.session_id in (select s.id from auth.sessions s where s.user_id = subject_id and s.factor_id = target_id);
  update auth.sessions s set aal = 'aal1', factor_id = null, updated_at = now()
  where s.user_id = subject_id and s.factor_id = target_id;
  delete from auth.mfa_factors f where f.id = target_id
$$;

-- Cancels a pending email change, so that the links in both emails stop working. Returns true for the one caller that
-- cancelled it.
-- Definer: the API has no call to cancel a change of email. Clears the same columns that Supabase Auth clears when a
-- change is complete.
create or replace function private.cancel_email_change(subject_id uuid) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  update auth.users u
  set email_change = '',
      email_change_token_current = '',
      email_change_token_new = '',
      email_change_confirm_status = 0,
      updated_at = now()
  where u.id = subject_id and coalesce(u.email_change, '') <> '';
  if not found then
    return false;
  end if;
  delete from auth.one_time_tokens t
  where t.user_id = subject_id
    and t.token_type::text in ('email_change_token_current', 'email_change_token_new');
  return true;
end
$$;
