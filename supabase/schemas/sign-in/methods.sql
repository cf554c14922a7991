-- Lists the ways to sign in to an account, and removes one. At least one usable way must remain.

-- Definer: passwords, passkeys and identities are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_sign_in_methods(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
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
comment on function private.list_sign_in_methods(uuid) is
  'Returns the ways to sign in to an account: { password, passkeys, identities: [{ id, provider, email, createdAt, '
  'lastSignInAt, unconfirmed }] }, or null if there is no such account. unconfirmed: added by a direct call; our pages'
  ' accept no sign-in with it. Leaves out identities from one of our links in progress.';

create or replace function private.count_sign_in_methods(
  subject_id uuid,
  usable_providers text[],
  without uuid[],
  without_password boolean default false,
  confirming uuid[] default '{}'
) returns bigint
  language sql
  stable
  security invoker
  set search_path = ''
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
comment on function private.count_sign_in_methods(uuid, text[], uuid[], boolean, uuid[]) is
  'Returns how many usable ways to sign in an account has without these identities and passkeys. Unconfirmed '
  'identities count only if they are being confirmed. For definers; not granted to a role.';

-- Definer: identities are in Supabase Auth's tables. Supabase Auth's own call would refuse if one identity remains with
-- a password or a passkey, would allow it if what remains does not work, and would give the account another identity's
-- address. Another way to sign in could also be removed between our count and its deletion.
create or replace function private.unlink_identity(subject_id uuid, target_id uuid, usable_providers text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target record;
begin
  -- Serialized per account, so that each change sees the result of the one before.
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
comment on function private.unlink_identity(uuid, uuid, text[]) is
  'Removes an identity from an account: { outcome: unlinked, provider, email }, or outcome last_method if no way to '
  'sign in would remain, not_unlinkable for the email and phone of the account itself, not_found.';

create or replace function private.keep_email_identity(account auth.users) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if account.email_confirmed_at is not null and not exists (
    select from auth.identities i where i.user_id = account.id and i.provider = 'email'
  ) then
    perform private.add_email_identity(account);
  end if;
end
$$;
comment on function private.keep_email_identity(auth.users) is
  'Gives an account an identity of its own email before another one is removed. Otherwise Supabase Auth replaces the '
  'email with another identity''s. For definers; not granted to a role.';
