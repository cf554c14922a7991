-- Writes to the tables of Supabase Auth, each with the reason why its API does not do. Definers call these; nobody is
-- granted them.

-- The API cannot check for remaining workspaces and delete the user in one transaction.
create function private.delete_auth_user(subject_id uuid) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with deleted as (
    delete from auth.users u where u.id = subject_id returning u.id
  )
  select exists (select from deleted)
$$;
comment on function private.delete_auth_user(uuid) is
  'Deletes a user. False if there is none.';
revoke execute on function private.delete_auth_user(uuid) from public, anon, authenticated;

-- Auth creates the user before our server can refuse the sign-up, and the API cannot delete only an unused user.
create function private.delete_unused_auth_user(subject_id uuid, created_since timestamptz) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with deleted as (
    delete from auth.users u
    where u.id = subject_id and u.created_at >= created_since and u.last_sign_in_at is null
    returning u.id
  )
  select exists (select from deleted)
$$;
comment on function private.delete_unused_auth_user(uuid, timestamptz) is
  'Deletes a user created at or after a time that has never signed in. False if there is none.';
revoke execute on function private.delete_unused_auth_user(uuid, timestamptz) from public, anon, authenticated;

-- The API has no call to cancel a PKCE flow whose code was issued.
create function private.delete_auth_flow(flow_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from auth.flow_state f where f.id = flow_id
$$;
comment on function private.delete_auth_flow(uuid) is
  'Deletes a PKCE flow, so that its code cannot be exchanged.';
revoke execute on function private.delete_auth_flow(uuid) from public, anon, authenticated;

-- The API signs a user out by an access token of that user, which our server does not have here.
create function private.delete_auth_sessions(subject_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from auth.sessions s where s.user_id = subject_id
$$;
comment on function private.delete_auth_sessions(uuid) is
  'Ends every session of a user. Refresh tokens and AMR claims are deleted with the rows.';
revoke execute on function private.delete_auth_sessions(uuid) from public, anon, authenticated;

-- The API has no call to add an email identity to an existing user.
create function private.add_email_identity(account auth.users) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
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
comment on function private.add_email_identity(auth.users) is
  'Gives a user the email identity that Auth creates at a sign-up by email.';
revoke execute on function private.add_email_identity(auth.users) from public, anon, authenticated;

-- The API does not check that another way to sign in remains, and cannot in the same transaction.
create function private.delete_auth_passkey(passkey_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from auth.webauthn_credentials c where c.id = passkey_id
$$;
comment on function private.delete_auth_passkey(uuid) is
  'Deletes a passkey.';
revoke execute on function private.delete_auth_passkey(uuid) from public, anon, authenticated;

-- The API does not check whether the account requires MFA, and cannot in the same transaction.
create function private.delete_auth_factor(subject_id uuid, target_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  -- As Auth does: sessions that were raised by the factor go back to AAL1.
  delete from auth.mfa_amr_claims a
  where a.authentication_method = 'totp'
    and a.session_id in (select s.id from auth.sessions s where s.user_id = subject_id and s.factor_id = target_id);
  update auth.sessions s set aal = 'aal1', factor_id = null, updated_at = now()
  where s.user_id = subject_id and s.factor_id = target_id;
  delete from auth.mfa_factors f where f.id = target_id
$$;
comment on function private.delete_auth_factor(uuid, uuid) is
  'Deletes a TOTP factor.';
revoke execute on function private.delete_auth_factor(uuid, uuid) from public, anon, authenticated;

-- The API always dates a minted session now.
create function private.set_session_sign_in_time(target_id uuid, signed_in_at timestamptz) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update auth.mfa_amr_claims a set created_at = signed_in_at, updated_at = signed_in_at where a.session_id = target_id;
  -- Auth reads the session row, not its AMR claims, before it accepts a new password.
  update auth.sessions s set created_at = least(s.created_at, signed_in_at) where s.id = target_id
$$;
comment on function private.set_session_sign_in_time(uuid, timestamptz) is
  'Dates a minted session by the sign-in it was derived from. Tokens issued for it from now on carry that time.';
revoke execute on function private.set_session_sign_in_time(uuid, timestamptz) from public, anon, authenticated;

-- Auth notes a link that the admin API generates as a mail that was sent, and the API cannot undo that.
create function private.clear_recovery_sent_at(subject_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update auth.users u set recovery_sent_at = null where u.id = subject_id and u.recovery_token = ''
$$;
comment on function private.clear_recovery_sent_at(uuid) is
  'Forgets when the last recovery link was generated, once it is used, so that it does not delay the next reset mail.';
revoke execute on function private.clear_recovery_sent_at(uuid) from public, anon, authenticated;
