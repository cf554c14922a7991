-- Authenticator apps and their codes. Supabase Auth does not record which TOTP codes were used (RFC 6238 section 5.2),
-- so our server claims each code before verification. Only an HMAC of the code is stored.

-- Returns the authenticator apps of an account, most recently used first: [{ id, name, verified, createdAt, lastUsedAt
-- }]. Includes apps with unfinished enrollment. Contains no secrets.
-- Definer: authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_authenticators(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', f.id,
    'name', f.friendly_name,
    'verified', f.status = 'verified',
    'createdAt', f.created_at,
    'lastUsedAt', f.last_challenged_at
  ) order by f.last_challenged_at desc nulls last, f.created_at, f.id), '[]')
  from auth.mfa_factors f
  where f.user_id = subject_id and f.factor_type = 'totp'
$$;

-- Removes an authenticator app from an account and notifies the owner (private.record_security_event). If no
-- authenticator is left, also deletes the account's recovery codes. Returns { outcome: deleted | last_of_required (the
-- account must keep one) | insufficient_aal (the session is not at AAL2) | not_found }.
-- Definer: factors and sessions are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.delete_authenticator(
  subject_id uuid, actor_session_id uuid, target_id uuid, event jsonb
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  target auth.mfa_factors;
  last boolean;
begin
  -- Locks the account, as every change of its MFA policy does, so that concurrent changes run one after another.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- Like the identity backend, requires a session in which an authenticator of the account was used.
  if not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;
  last := not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.id <> target_id and f.status = 'verified'
  );
  if last and private.required_mfa_state(account.raw_app_meta_data) <> 'optional' then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  perform private.delete_auth_factor(subject_id, target_id);
  if last then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  perform private.record_security_event(event);
  return '{"outcome": "deleted"}';
end
$$;

-- Claims a code for one verification. The code is given as the hex of its HMAC. Returns true to only one caller.
create or replace function private.claim_mfa_code(code_hash text, session_id uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  delete from private.used_mfa_codes u
  where u.code_hash in (
    select e.code_hash from private.used_mfa_codes e where e.expires_at <= now() limit 100 for update skip locked
  );
  insert into private.used_mfa_codes as u (code_hash, session_id)
  values (decode(claim_mfa_code.code_hash, 'hex'), claim_mfa_code.session_id)
  on conflict on constraint used_mfa_codes_pkey do update
  set session_id = excluded.session_id, retry_allowed = false, expires_at = excluded.expires_at
  where u.expires_at <= now() or (u.retry_allowed and u.session_id = excluded.session_id);
  return found;
end
$$;

-- Releases the claim on a code that was not successfully verified. verified is false if the code was wrong. Any session
-- can then claim the code again. verified is null if Supabase Auth did not respond. Only the same session can then
-- claim the code again.
create or replace function private.release_mfa_code(code_hash text, session_id uuid, verified boolean) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if verified is null then
    update private.used_mfa_codes u
    set retry_allowed = true
    where u.code_hash = decode(release_mfa_code.code_hash, 'hex') and u.session_id = release_mfa_code.session_id;
  elsif not verified then
    -- Deletes the claim on a wrong code, because the same code may be correct half a minute later.
    delete from private.used_mfa_codes u
    where u.code_hash = decode(release_mfa_code.code_hash, 'hex') and u.session_id = release_mfa_code.session_id;
  end if;
end
$$;
