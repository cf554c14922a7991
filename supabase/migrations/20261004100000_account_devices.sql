-- Several accounts in one browser. The browser holds a device cookie and nothing else of it: the sessions lie here,
-- sealed by the server (AES-256-GCM), and the device's row says which of them is the active one.

create table private.account_devices (
  id uuid primary key,
  secret_hash bytea not null check (octet_length(secret_hash) = 32),
  previous_hash bytea check (octet_length(previous_hash) = 32),
  previous_for text check (previous_for in ('anything', 'sign_in')),
  previous_until timestamptz,
  rotated_at timestamptz not null default now(),
  active_user_id uuid references auth.users (id) on delete set null,
  active_session_id uuid,
  lease_id uuid,
  lease_expires_at timestamptz,
  created_at timestamptz not null default now(),
  last_seen_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '90 days',
  constraint previous_is_whole check ((previous_hash is null) = (previous_for is null)),
  constraint lease_is_whole check ((lease_id is null) = (lease_expires_at is null)),
  constraint lifetime check (expires_at <= last_seen_at + interval '90 days')
);
comment on table private.account_devices is
  'Browsers that hold accounts, by the hash of their secret, and who is active in each: the authority on that, whatever '
  'auth cookie a request brings.';
comment on column private.account_devices.previous_hash is
  'The secret before this one. After a switch it stays good for anything until the new one has arrived, lest a lost '
  'answer lose a browser; after a sign-in it is good for the same sign-in sent twice, and for nothing else.';
comment on column private.account_devices.previous_until is 'Null while the secret in its place has yet to arrive.';
comment on column private.account_devices.active_session_id is
  'No foreign key: sessions come and go in the identity backend''s own schema.';
comment on column private.account_devices.lease_id is 'The switch under way. One at a time; a dead one''s lease runs out.';
create index account_devices_active_user_id_idx on private.account_devices (active_user_id);
create index account_devices_expires_at_idx on private.account_devices (expires_at);
select private.protect_table('private.account_devices');

create table private.account_vault_entries (
  device_id uuid not null references private.account_devices (id) on delete cascade,
  user_id uuid not null references auth.users (id) on delete cascade,
  session_id uuid not null,
  sealed text check (char_length(sealed) between 40 and 16384),
  key_id text check (char_length(key_id) between 1 and 64),
  token_tag text check (char_length(token_tag) between 16 and 64),
  last_route text,
  added_at timestamptz not null default now(),
  last_active_at timestamptz not null default now(),
  primary key (device_id, user_id),
  constraint seal_is_whole check (
    (sealed is null) = (key_id is null) and (sealed is null) = (token_tag is null)
  ),
  constraint last_route_leads_somewhere check (
    char_length(last_route) <= 2048
    and last_route ~ '^/([^/]|$)'
    and last_route !~* '^/(login|add-account|logout|auth|api)([/?#]|$)'
  )
);
comment on table private.account_vault_entries is
  'The accounts of a browser. Tokens are sealed with device, user and key as associated data, so that a row opens in '
  'its own place alone.';
comment on column private.account_vault_entries.sealed is
  'Null once the session is known to be over: the account stays listed, to be signed in to again.';
comment on column private.account_vault_entries.token_tag is
  'Keyed hash of the refresh token within, by which a cookie''s is known to be this one or an older one, and by which '
  'a write finds out that another came first.';
create index account_vault_entries_user_id_idx on private.account_vault_entries (user_id);
create index account_vault_entries_session_id_idx on private.account_vault_entries (session_id);
create index account_vault_entries_last_active_at_idx on private.account_vault_entries (last_active_at);
select private.protect_table('private.account_vault_entries');

create function private.secret_hash(secret text) returns bytea
  language sql
  immutable
  security invoker
as $$
  select sha256(convert_to(secret, 'UTF8'))
$$;
comment on function private.secret_hash(text) is 'Of 256 random bits, which need no slow hash.';
revoke execute on function private.secret_hash(text) from public, anon, authenticated;
grant execute on function private.secret_hash(text) to service_role;

create function private.device_standing(device private.account_devices, secret text) returns text
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select case
    when device.expires_at <= now() then 'unknown'
    when device.secret_hash = private.secret_hash(secret) then 'current'
    when device.previous_hash = private.secret_hash(secret)
      and (device.previous_until is null or device.previous_until > now())
      then case device.previous_for when 'anything' then 'previous' else 'spent' end
    else 'unknown'
  end
$$;
comment on function private.device_standing(private.account_devices, text) is
  'What a secret is to a device: current; previous, good for anything until the current one has arrived; spent, good '
  'for the same sign-in sent twice alone; or unknown.';
revoke execute on function private.device_standing(private.account_devices, text) from public, anon, authenticated;
grant execute on function private.device_standing(private.account_devices, text) to service_role;

-- Definer: whether a session lives is for the identity backend's tables to say. In PL/pgSQL, as what asks it on every
-- request: a function in SQL is planned anew by each statement that calls it.
create function private.vault_entry_usable(entry private.account_vault_entries) returns boolean
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return entry.sealed is not null
    and entry.last_active_at > now() - interval '30 days'
    and exists (
      select
      from auth.sessions s
      join auth.users u on u.id = s.user_id
      where s.id = entry.session_id
        and s.user_id = entry.user_id
        and (s.not_after is null or s.not_after > now())
        and u.deleted_at is null
        and coalesce(u.banned_until <= now(), true)
    );
end
$$;
comment on function private.vault_entry_usable(private.account_vault_entries) is
  'Whether an account can be switched to without a new sign-in, as far as the database knows. 30 days without use end it.';
revoke execute on function private.vault_entry_usable(private.account_vault_entries) from public, anon, authenticated;
grant execute on function private.vault_entry_usable(private.account_vault_entries) to service_role;

-- Definer: emails are the identity backend's.
create function private.device_state(device_id uuid, secret text) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return (
    select jsonb_build_object(
      'secret', standing,
      'arrived', d.previous_hash is null or d.previous_until is not null,
      'old', d.rotated_at < now() - interval '30 days',
      'active', (
        select jsonb_build_object('userId', e.user_id, 'sessionId', e.session_id, 'tag', e.token_tag)
        from private.account_vault_entries e
        where e.device_id = d.id and e.user_id = d.active_user_id and e.session_id = d.active_session_id
          and private.vault_entry_usable(e)
      ),
      'accounts', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', e.user_id,
            'email', u.email,
            'displayName', p.display_name,
            'avatarUrl', p.avatar_url,
            -- Nobody may be active: a null here would be neither.
            'active', coalesce(usable and e.user_id = d.active_user_id and e.session_id = d.active_session_id, false),
            'requiresReauth', not usable,
            'lastRoute', e.last_route,
            'lastActiveAt', e.last_active_at,
            'addedAt', e.added_at
          )
          order by (usable and e.user_id = d.active_user_id) desc nulls last, e.last_active_at desc, e.user_id
        )
        from private.account_vault_entries e
        join auth.users u on u.id = e.user_id
        left join public.profiles p on p.id = e.user_id
        cross join lateral private.vault_entry_usable(e) as usable
        where e.device_id = d.id
      ), '[]')
    )
    from private.account_devices d
    cross join lateral private.device_standing(d, device_state.secret) as standing
    where d.id = device_state.device_id and standing in ('current', 'previous')
  );
end
$$;
comment on function private.device_state(uuid, text) is
  'What a browser holds, to who shows its secret: { secret: current | previous, arrived, old, active: { userId, sessionId, '
  'tag } | null, accounts }. Null for an unknown device.';
revoke execute on function private.device_state(uuid, text) from public, anon, authenticated;
grant execute on function private.device_state(uuid, text) to service_role;

-- Definer: as session_state, and the device is server-owned. It answers about the caller's own token, and about the
-- device whose 256-bit secret the caller shows.
create function public.device_session_state(device_id uuid, device_secret text) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return public.session_state() || jsonb_build_object(
    'device', private.device_state(device_session_state.device_id, device_session_state.device_secret)
  );
end
$$;
comment on function public.device_session_state(uuid, text) is
  'session_state, and what the browser''s device says of who is active in it: all that must be fresh on a request, in '
  'one statement.';
revoke execute on function public.device_session_state(uuid, text) from public, anon, authenticated;
grant execute on function public.device_session_state(uuid, text) to authenticated;
