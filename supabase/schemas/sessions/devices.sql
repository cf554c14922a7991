-- One browser can hold several accounts. The browser has a device cookie. The sessions are stored here, encrypted by
-- the server (AES-256-GCM). The device's row records which account is active.

-- Returns the accounts of a browser that presents a valid device secret: { secret: current | previous, arrived, old,
-- active: { userId, sessionId, tag } | null, accounts }. arrived is true if the browser has presented its current
-- secret. old is true if the secret was rotated more than 30 days ago. Returns null for an unknown device.
-- Definer: reads emails from Supabase Auth's tables, which the service role cannot read.
create or replace function private.device_state(device_id uuid, secret text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return (
    select jsonb_build_object(
      'secret', secret_status,
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
            -- The comparison is null if the browser has no active account.
            'active', coalesce(usable and e.user_id = d.active_user_id and e.session_id = d.active_session_id, false),
            'requiresReauth', not usable,
            'endReason', case when not usable then private.session_end_reason(e) end,
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
    cross join lateral private.device_secret_status(d, device_state.secret) as secret_status
    where d.id = device_state.device_id and secret_status in ('current', 'previous')
  );
end
$$;

-- Returns why an entry's session has ended: the kind of the first event since the browser last used it that ended every
-- other session or this one. Without such an event, session_revoked if a session of the account was revoked, which may
-- have been this one, or idle after 30 days without use. Returns null if the reason is unknown. Only for a browser that
-- presented its device's secret.
create or replace function private.session_end_reason(entry private.account_vault_entries) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(
    (
      select v.kind
      from public.security_events v
      where v.user_id = entry.user_id
        and v.created_at >= entry.last_active_at
        and case v.kind
          when 'sign_out' then v.session_id = entry.session_id
          -- The session in which a change was made stays signed in.
          when 'all_sessions_revoked' then true
          else v.session_id is distinct from entry.session_id
            and v.kind in (
              'session_revoked', 'other_sessions_revoked', 'signed_out_by_admin', 'authenticators_reset',
              'account_banned', 'deletion_requested', 'password_changed', 'password_added', 'recovery_code_used',
              'account_recovered'
            )
        end
      order by v.kind = 'session_revoked', v.created_at, v.id
      limit 1
    ),
    case when entry.last_active_at <= now() - interval '30 days' then 'idle' end
  )
$$;

-- Returns the status of a device secret: current, previous, spent or unknown. A previous secret stays valid for
-- everything until 30 seconds after the browser first presents the current one. After a sign-in replaces a secret, the
-- old secret is spent for one minute. A spent secret gives no access, but requests in flight may use it to add another
-- account or to sign the browser out.
-- Uses PL/pgSQL, which plans only the expressions that it reaches. Nearly every request presents the current secret, so
-- the function usually returns at the second check.
create or replace function private.device_secret_status(device private.account_devices, secret text) returns text
  language plpgsql stable security invoker set search_path = ''
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
  -- A secret that an added account replaced stays spent for 60 seconds, even if the device secret has been replaced
  -- again since then.
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

-- Returns whether a browser can switch to an account without a new sign-in, as far as the database knows. An entry
-- expires after 30 days without use.
-- Definer: only Supabase Auth's tables show whether a session is alive. Written in PL/pgSQL, because an SQL function
-- would be planned again for each statement that calls it.
create or replace function private.is_vault_entry_usable(entry private.account_vault_entries) returns boolean
  language plpgsql stable security definer set search_path = ''
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

-- Returns the SHA-256 of a secret. Secrets have 256 random bits, so no slow hash is needed.
create or replace function private.secret_hash(secret text) returns bytea
  language sql immutable security invoker
as $$
  select sha256(convert_to(secret, 'UTF8'))
$$;

-- Locks accounts, so that changes to the same account run one after another. Lock accounts before their browsers,
-- challenges and sessions.
-- Definer: the service role cannot lock rows of Supabase Auth's tables.
create or replace function private.lock_accounts(user_ids uuid[]) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- Takes the same lock as private.lock_app_credentials. "for update" would deadlock with a sign-out at Supabase Auth.
  -- The sign-out locks the session first. It then records an event, whose foreign key locks the account for key share.
  perform from auth.users u where u.id = any (user_ids) order by u.id for no key update;
end
$$;

-- Ends sessions that a browser has not used for 30 days, and sessions of sign-ins that the browser never used. Removes
-- accounts from a vault after 90 days. Deletes devices that have expired or hold no account. Returns the number of
-- deleted devices.
-- Definer: locks accounts, whose rows are in Supabase Auth's tables.
create or replace function private.sweep_account_devices() returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  idle record;
  deleted_count integer;
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
  get diagnostics deleted_count = row_count;
  return deleted_count;
end
$$;
