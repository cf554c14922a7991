-- Lists, checks and removes passkeys. Supabase Auth does not return credential ids, which browsers need to remove
-- passkeys that no longer work (WebAuthn level 3, section 5.1.10, Signal API).

-- Returns an account's passkeys, oldest first. Each has its credential id in hexadecimal, its provider's AAGUID and, if
-- known, the browser and system from which it was added. Only for our server, which takes the account from the session.
-- Definer: the service role cannot read Supabase Auth's tables.
create or replace function private.list_passkeys(user_id uuid)
  returns table (
    id uuid,
    credential_id text,
    name text,
    aaguid uuid,
    device text,
    created_at timestamptz,
    last_used_at timestamptz
  )
  language sql stable security definer set search_path = ''
as $$
  select c.id, encode(c.credential_id, 'hex'), c.friendly_name, c.aaguid, e.device, c.created_at, c.last_used_at
  from auth.webauthn_credentials c
  left join public.security_events e on e.id = private.addition_event(c.user_id, c.id, 'passkey_added')
  where c.user_id = list_passkeys.user_id
  order by c.created_at, c.id
$$;

-- Returns whether any account has a passkey with this credential id (hexadecimal). Supabase Auth does not distinguish
-- an unknown passkey from a wrong signature. Our server must, because a browser deletes a passkey that our server
-- reports as unknown.
-- Definer: the service role cannot read Supabase Auth's tables.
create or replace function private.passkey_exists(credential_id text) returns boolean
  language sql stable security definer set search_path = ''
as $$
  select exists (
    select from auth.webauthn_credentials c where c.credential_id = decode(passkey_exists.credential_id, 'hex')
  )
$$;

-- Removes a passkey from an account. Returns deleted, last_method, insufficient_aal or not_found. last_method: no way
-- to sign in would remain. insufficient_aal: the account has an authenticator that the session has not used yet.
-- Definer: passkeys are in Supabase Auth's tables, which the service role cannot read. Supabase Auth's own endpoint
-- would delete an account's last way to sign in. Counting the other ways before a call to the endpoint is not enough,
-- because one of them could be removed before the endpoint deletes the passkey.
create or replace function private.delete_passkey(subject_id uuid, actor_session_id uuid, target_id uuid, usable_providers text[])
  returns text
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Serialized per account, like private.unlink_identity, so that each change sees the result of the one before.
  perform from auth.users u where u.id = subject_id for update;
  if not exists (
    select from auth.webauthn_credentials c where c.id = target_id and c.user_id = subject_id
  ) then
    return 'not_found';
  end if;
  -- The backend has the same rule: an account's authenticator must have been used in this session.
  if exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) and not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return 'insufficient_aal';
  end if;

  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target_id]) = 0 then
    return 'last_method';
  end if;
  perform private.delete_auth_passkey(target_id);
  return 'deleted';
end
$$;
