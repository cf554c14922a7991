-- Several accounts in one browser. The browser holds a device cookie; the sessions are stored here, sealed by the
-- server (AES-256-GCM), and the device's row records which account is active.

-- Definer: emails are in Supabase Auth's tables.
create or replace function private.device_state(device_id uuid, secret text) returns jsonb
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
          and private.is_vault_entry_usable(e)
      ),
      'accounts', coalesce((
        select jsonb_agg(
          jsonb_build_object(
            'id', e.user_id,
            'email', u.email,
            'displayName', p.display_name,
            'avatarUrl', p.avatar_url,
            -- No account may be active, so null is coalesced to false.
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
        cross join lateral private.is_vault_entry_usable(e) as usable
        where e.device_id = d.id
      ), '[]')
    )
    from private.account_devices d
    cross join lateral private.device_secret_status(d, device_state.secret) as standing
    where d.id = device_state.device_id and standing in ('current', 'previous')
  );
end
$$;
comment on function private.device_state(uuid, text) is
  'Returns a browser''s accounts to a caller with its secret: { secret: current | previous, arrived, old, active: { '
  'userId, sessionId, tag } | null, accounts }. Null for an unknown device.';

-- In PL/pgSQL, because it plans only the expressions it reaches, and nearly every request presents the current secret.
create or replace function private.device_secret_status(device private.account_devices, secret text) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
begin
  if device.expires_at <= now() then
    return 'unknown';
  end if;
  if device.secret_hash = private.secret_hash(secret) then
    return 'current';
  end if;
  if device.previous_hash = private.secret_hash(secret)
    and (device.previous_until is null or device.previous_until > now()) then
    return case device.previous_for when 'anything' then 'previous' else 'spent' end;
  end if;
  -- Other accounts may have joined, or the browser may have switched, since this secret was spent.
  if exists (
    select
    from private.account_additions a
    where a.device_id = device.id
      and a.taken_from = private.secret_hash(secret)
      and a.expires_at > now() + interval '30 days' - interval '60 seconds'
  ) then
    return 'spent';
  end if;
  return 'unknown';
end
$$;
comment on function private.device_secret_status(private.account_devices, text) is
  'Returns the status of a secret for a device: current; previous, valid for everything until the current one has '
  'arrived; spent, for a minute, for requests in flight when an account was added: it gives no access, but may add '
  'another account, which the browser then presents with the current secret, and may sign the browser out; or unknown.';

-- Definer: the identity backend's tables show whether a session is alive. In PL/pgSQL, like its callers on every
-- request, because an SQL function would be planned again for each calling statement.
create or replace function private.is_vault_entry_usable(entry private.account_vault_entries) returns boolean
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
comment on function private.is_vault_entry_usable(private.account_vault_entries) is
  'Returns whether an account can be switched to without a new sign-in, as far as the database knows. An entry expires'
  ' after 30 days without use.';

create or replace function private.secret_hash(secret text) returns bytea
  language sql
  immutable
  security invoker
as $$
  select sha256(convert_to(secret, 'UTF8'))
$$;
comment on function private.secret_hash(text) is 'Hashes a secret of 256 random bits, which need no slow hash.';

-- Definer: the service role may not lock the identity backend's tables.
create or replace function private.lock_accounts(user_ids uuid[]) returns void
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- The same lock as in private.lock_app_credentials. "for update" would deadlock: Supabase Auth's sign-out locks a
  -- session, and then its event's foreign key locks the account for key share.
  perform from auth.users u where u.id = any (user_ids) order by u.id for no key update;
end
$$;
comment on function private.lock_accounts(uuid[]) is
  'Locks accounts before their browsers, challenges and sessions, so that changes of one account follow each other.';

-- Definer: locks accounts, whose rows are in Supabase Auth's tables.
create or replace function private.sweep_account_devices() returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  idle record;
  swept integer;
begin
  -- One sweeper at a time; others do nothing.
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_account_devices', 0)) then
    return 0;
  end if;
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.last_active_at <= now() - interval '30 days'
    union
    select a.user_id from private.account_additions a where a.expires_at <= now()
  ));
  for idle in
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.sealed is not null and e.last_active_at <= now() - interval '30 days'
    returning e.user_id, e.session_id
  loop
    perform private.end_account_session(idle.user_id, idle.session_id);
  end loop;
  for idle in
    delete from private.account_additions a where a.expires_at <= now() returning a.user_id, a.session_id, a.taken_from
  loop
    if idle.taken_from is null then
      perform private.end_account_session(idle.user_id, idle.session_id);
    end if;
  end loop;
  delete from private.account_vault_entries e where e.last_active_at <= now() - interval '90 days';
  delete from private.account_devices d
  where d.expires_at <= now()
    or (
      d.last_seen_at < now() - interval '1 day'
      and not exists (select from private.account_vault_entries e where e.device_id = d.id)
    );
  get diagnostics swept = row_count;
  return swept;
end
$$;
comment on function private.sweep_account_devices() is
  'Ends sessions unused in a browser''s vault for 30 days and sign-ins that the browser never presented. Removes '
  'accounts from a vault after 90 days, and deletes devices that have expired or hold no account. Returns the number '
  'of deleted devices.';
