-- Lists an account's ways to sign in, and removes one of them. At least one usable way must remain.

-- Returns an account's ways to sign in: { password, passkeys, identities: [{ id, provider, email, createdAt,
-- lastSignInAt, unconfirmed }] }, or null if the account does not exist. unconfirmed: the identity was added by a
-- direct call to Supabase Auth, so our pages don't accept it for sign-in. Excludes identities that our pages are still
-- linking.
-- Definer: passwords, passkeys and identities are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_sign_in_methods(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'password', coalesce(u.encrypted_password, '') <> '' and u.email_confirmed_at is not null,
    'passkeys', (select count(*) from auth.webauthn_credentials c where c.user_id = u.id),
    'identities', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', i.id,
        'provider', i.provider,
        'email', i.email,
        'createdAt', i.created_at,
        'lastSignInAt', i.last_sign_in_at,
        'unconfirmed', exists (select from private.unconfirmed_additions a where a.target_id = i.id)
      ) order by i.created_at, i.id), '[]')
      from auth.identities i
      where i.user_id = u.id
        and not exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

-- Returns the number of usable sign-in methods that an account would have without the given identities, passkeys and
-- password. Counts an unconfirmed identity only if its id is in confirming. Called only by security definer functions.
-- Not granted to any role.
create or replace function private.count_sign_in_methods(
  subject_id uuid,
  usable_providers text[],
  without uuid[],
  without_password boolean default false,
  confirming uuid[] default '{}'
) returns bigint
  language sql stable security invoker set search_path = ''
as $$
  select (methods -> 'password' = 'true'::jsonb and not without_password)::integer
    + (select count(*) from auth.webauthn_credentials c where c.user_id = subject_id and c.id <> all (without))
    + (
      select count(*)
      from jsonb_to_recordset(methods -> 'identities') as i (id uuid, provider text, unconfirmed boolean)
      where i.provider = any (usable_providers)
        and i.id <> all (without)
        and (not i.unconfirmed or i.id = any (confirming))
    )
  from private.list_sign_in_methods(subject_id) as methods
$$;

-- Removes an identity from an account. Returns { outcome: unlinked, provider, email } or { outcome: last_method |
-- not_unlinkable | not_found }. last_method: no way to sign in would remain. not_unlinkable: the identity is the
-- account's own email or phone.
-- Definer: identities are in Supabase Auth's tables. Supabase Auth's own endpoint is not used. It refuses to remove the
-- last identity even if a password or a passkey remains, does not check whether the remaining identity is usable, and
-- replaces the account's email with another identity's. Another way to sign in could also be removed between our count
-- and the endpoint's deletion.
create or replace function private.unlink_identity(subject_id uuid, target_id uuid, usable_providers text[]) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  target record;
begin
  -- Locks the account, so that concurrent changes to its sign-in methods run one after the other.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select m.id, m.provider, m.email
  into target
  from jsonb_to_recordset(private.list_sign_in_methods(subject_id) -> 'identities') as m (
    id uuid, provider text, email text
  )
  where m.id = target_id;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if target.provider in ('email', 'phone') then
    return jsonb_build_object('outcome', 'not_unlinkable');
  end if;
  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target.id]) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;

  perform private.keep_email_identity(account);
  perform private.remove_identity(target.id);
  return jsonb_build_object('outcome', 'unlinked', 'provider', target.provider, 'email', target.email);
end
$$;

-- Adds an identity for the account's own confirmed email if the account has no email identity. Called before another
-- identity is removed, because Supabase Auth would otherwise replace the account's email with that of a remaining
-- identity. Called only by definer functions, so it is not granted to any role.
create or replace function private.keep_email_identity(account auth.users) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if account.email_confirmed_at is not null and not exists (
    select from auth.identities i where i.user_id = account.id and i.provider = 'email'
  ) then
    perform private.add_email_identity(account);
  end if;
end
$$;
