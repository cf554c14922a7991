-- The identity backend keeps passkeys and says nothing of their credential ids, which browsers need in order to forget
-- passkeys that no longer work (WebAuthn level 3, section 5.1.10, the Signal API).

-- Definer: the identity backend's tables are not the service role's to read.
create function private.passkeys_of(user_id uuid)
  returns table (id uuid, credential_id text, name text, created_at timestamptz, last_used_at timestamptz)
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select c.id, encode(c.credential_id, 'hex'), c.friendly_name, c.created_at, c.last_used_at
  from auth.webauthn_credentials c
  where c.user_id = passkeys_of.user_id
  order by c.created_at, c.id
$$;
comment on function private.passkeys_of(uuid) is
  'An account''s passkeys, oldest first, each with its credential id in hexadecimal. For our server, which knows the '
  'account from its session.';
revoke execute on function private.passkeys_of(uuid) from public, anon, authenticated;
grant execute on function private.passkeys_of(uuid) to service_role;

-- Definer: the identity backend's tables are not the service role's to read.
create function private.passkey_exists(credential_id text) returns boolean
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select exists (
    select from auth.webauthn_credentials c where c.credential_id = decode(passkey_exists.credential_id, 'hex')
  )
$$;
comment on function private.passkey_exists(text) is
  'Whether any account has this passkey, by its credential id in hexadecimal. The identity backend does not tell an '
  'unknown passkey from a wrong signature, and a browser that is told the wrong one deletes a passkey that works.';
revoke execute on function private.passkey_exists(text) from public, anon, authenticated;
grant execute on function private.passkey_exists(text) to service_role;
