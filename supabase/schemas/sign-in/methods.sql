-- The ways to sign in to an account, and removing one. At least one that works must remain.

-- Definer: passwords, passkeys and identities are the identity backend's, which the service role cannot read.
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
        'lastSignInAt', i.last_sign_in_at
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
  'How an account can be signed in to: { password, passkeys, identities: [{ id, provider, email, createdAt, '
  'lastSignInAt }] }, or null where there is no such account. Identities that nobody has confirmed are left out.';

-- Definer: identities are in Supabase Auth's tables. Its own call would refuse where one identity is left beside a
-- password or a passkey, allow where what is left does not work, and give the account another identity's address; and
-- between a count of ours and its deletion another one could be taken away.
create or replace function private.unlink_identity(subject_id uuid, target_id uuid, usable_providers text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target record;
  methods jsonb;
  remaining bigint;
begin
  -- One at a time for each account: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id for update;
  methods := private.list_sign_in_methods(subject_id);
  select m.id, m.provider, m.email
  into target
  from jsonb_to_recordset(methods -> 'identities') as m (id uuid, provider text, email text)
  where m.id = target_id;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if target.provider in ('email', 'phone') then
    return jsonb_build_object('outcome', 'not_unlinkable');
  end if;

  select (methods -> 'password' = 'true'::jsonb)::integer + (methods ->> 'passkeys')::bigint + count(*)
  into remaining
  from jsonb_to_recordset(methods -> 'identities') as m (id uuid, provider text)
  where m.id <> target.id and m.provider = any (usable_providers);
  if remaining = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;

  -- Else the backend gives the account another identity's address some day, or none.
  if account.email_confirmed_at is not null and not exists (
    select from auth.identities i where i.user_id = subject_id and i.provider = 'email'
  ) then
    perform private.add_email_identity(account);
  end if;
  perform private.remove_identity(target.id);
  return jsonb_build_object('outcome', 'unlinked', 'provider', target.provider, 'email', target.email);
end
$$;
comment on function private.unlink_identity(uuid, uuid, text[]) is
  'Takes an identity off an account: { outcome: unlinked, provider, email }, or outcome last_method where no way to '
  'sign in would be left, not_unlinkable for the email and phone of the account itself, not_found.';
