-- Sign-ins in a browser that already has accounts. A sign-in does not change the browser's vault. Its response contains
-- a secret, and the account joins the vault when the browser presents that secret. So no account is lost if a response
-- is lost or arrives late.

-- Stores a sign-in for at most 15 minutes, until the browser presents the sign-in's secret. Takes { deviceId, secret,
-- secretHash (hex), userId, sessionId, sealed, keyId, tag }. Returns { status: kept | unknown (the device is unknown) |
-- full (the device has 10 other accounts) }. Idempotent.
create or replace function private.add_account(addition jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (addition ->> 'userId')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (addition ->> 'deviceId')::uuid for update;
  -- Accepts a spent secret too: another tab may have added an account while this request was in flight.
  if not found or private.device_secret_status(device, addition ->> 'secret') = 'unknown' then
    return jsonb_build_object('status', 'unknown');
  end if;
  if (
    select count(*)
    from (
      select e.user_id from private.account_vault_entries e where e.device_id = device.id
      union
      select a.user_id
      from private.account_additions a
      where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    ) current_secret
    where current_secret.user_id <> subject_id
  ) >= 10 then
    return jsonb_build_object('status', 'full');
  end if;
  insert into private.account_additions (secret_hash, device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    decode(addition ->> 'secretHash', 'hex'), device.id, subject_id, (addition ->> 'sessionId')::uuid,
    addition ->> 'sealed', addition ->> 'keyId', addition ->> 'tag'
  )
  on conflict (secret_hash) do nothing;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;

-- Returns the device secret that applies after an account is added. It is derived from the previous device secret and
-- the sign-in's secret, so an attacker who plants only one of them cannot compute it.
create or replace function private.secret_after_addition(secret text, added text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select translate(encode(sha256(convert_to(secret || ' ' || added, 'UTF8')), 'base64'), '+/=', '-_')
$$;

-- Adds sign-ins to a browser's accounts, given the secrets of the sign-ins. The account of the newest sign-in becomes
-- active. If the browser already had an account, its earlier session ends. Returns { status, secret }: secret is the
-- device secret derived from the presented secrets, and status is that secret's status (private.device_secret_status).
-- Adds accounts only if the status is current. Idempotent: a repeated call returns the same result.
-- Definer: the replaced session is in Supabase Auth's tables, and is ended by deleting its row.
create or replace function private.take_additions(device_id uuid, secret text, added text[]) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  addition record;
  shown text;
  current_secret text := secret;
  secret_status text;
  replaced_id uuid;
  joined uuid[] := '{}';
  newest_session_id uuid;
begin
  perform private.lock_accounts(array(
    select a.user_id
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = take_additions.device_id and a.taken_from is null
  ));
  select d.* into device from private.account_devices d where d.id = take_additions.device_id for update;
  if not found then
    return jsonb_build_object('status', 'unknown');
  end if;

  -- Derives the device secret again for sign-ins that an earlier request has added. The browser may not have received
  -- the response to that request.
  loop
    select s.secret into shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    where a.device_id = device.id and a.taken_from = private.secret_hash(current_secret)
    limit 1;
    exit when not found;
    current_secret := private.secret_after_addition(current_secret, shown);
  end loop;
  secret_status := private.device_secret_status(device, current_secret);
  if secret_status <> 'current' then
    return jsonb_build_object('status', secret_status, 'secret', current_secret);
  end if;

  for addition in
    select a.*, s.secret as shown
    from unnest(added) as s (secret)
    join private.account_additions a on a.secret_hash = private.secret_hash(s.secret)
    join auth.sessions live on live.id = a.session_id and live.user_id = a.user_id
    where a.device_id = device.id and a.taken_from is null and a.expires_at > now()
    order by a.created_at, a.secret_hash
  loop
    select e.session_id into replaced_id
    from private.account_vault_entries e
    where e.device_id = device.id and e.user_id = addition.user_id;
    insert into private.account_vault_entries as e (device_id, user_id, session_id, sealed, key_id, token_tag)
    values (
      device.id, addition.user_id, addition.session_id, addition.sealed, addition.key_id, addition.token_tag
    )
    on conflict on constraint account_vault_entries_pkey do update
      set session_id = excluded.session_id, sealed = excluded.sealed, key_id = excluded.key_id,
          token_tag = excluded.token_tag, last_active_at = now();
    if replaced_id <> addition.session_id then
      perform private.end_account_session(addition.user_id, replaced_id);
    end if;
    -- Keeps the row for as long as the accounts can be used without another sign-in.
    update private.account_additions a
    set taken_from = private.secret_hash(current_secret), user_id = null, sealed = null, key_id = null, token_tag = null,
        expires_at = now() + interval '30 days'
    where a.secret_hash = addition.secret_hash;
    current_secret := private.secret_after_addition(current_secret, addition.shown);
    joined := joined || addition.user_id;
    newest_session_id := addition.session_id;
  end loop;

  if cardinality(joined) > 0 then
    perform private.end_additions(device.id, joined);
    update private.account_devices d
    set secret_hash = private.secret_hash(current_secret),
        -- From now on, the previous secret can only add another account or sign the browser out.
        previous_hash = d.secret_hash,
        previous_for = 'sign_in',
        previous_until = now() + interval '60 seconds',
        rotated_at = now(),
        active_user_id = joined[cardinality(joined)],
        active_session_id = newest_session_id,
        -- Ends the lease of a switch in progress, so that the switch can't replace the new active account.
        lease_id = null,
        lease_expires_at = null,
        last_seen_at = now(),
        expires_at = now() + interval '90 days'
    where d.id = device.id;
  end if;
  return jsonb_build_object('status', 'current', 'secret', current_secret);
end
$$;

-- Ends a browser's pending sign-ins to the given accounts, or to all accounts if user_ids is null. A sign-in is pending
-- until the browser presents its secret. The caller must have locked the accounts. Returns the sessions that were still
-- alive: [{ userId, sessionId }].
-- Definer: ends sessions, which are in Supabase Auth's tables.
create or replace function private.end_additions(device_id uuid, user_ids uuid[]) returns jsonb
  language sql volatile security definer set search_path = ''
as $$
  with deleted as (
    delete from private.account_additions a
    where a.device_id = end_additions.device_id and a.taken_from is null
      and (user_ids is null or a.user_id = any (user_ids))
    returning a.user_id, a.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  from deleted g
  where private.end_account_session(g.user_id, g.session_id)
$$;

-- Replaces an account's session with a new session that needs no other sign-in, for example after a QR handoff. Takes {
-- deviceId, secret, userId, sessionId, sealed, keyId, tag, inPlaceOf }. Returns { status: kept | unknown | over }.
-- unknown means that the device is unknown. over means that the browser has signed out of the session to replace, or
-- already has a different session for the account. The device's secret does not change, so a browser that lost the
-- response still gets the new session from the vault.
-- Definer: ends a replaced session by deleting its row in Supabase Auth's tables.
create or replace function private.continue_account_session(continuation jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  subject_id constant uuid := (continuation ->> 'userId')::uuid;
  made_id constant uuid := (continuation ->> 'sessionId')::uuid;
  replaced_id constant uuid := (continuation ->> 'inPlaceOf')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  select d.* into device from private.account_devices d where d.id = (continuation ->> 'deviceId')::uuid for update;
  if not found or private.device_secret_status(device, continuation ->> 'secret') not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  update private.account_vault_entries e
  set session_id = made_id, sealed = continuation ->> 'sealed', key_id = continuation ->> 'keyId',
      token_tag = continuation ->> 'tag', last_active_at = now()
  where e.device_id = device.id and e.user_id = subject_id
    -- The entry already has the new session if the response to an earlier attempt was lost.
    and e.session_id in (replaced_id, made_id);
  if not found then
    return jsonb_build_object('status', 'over');
  end if;
  perform private.end_account_session(subject_id, replaced_id);
  update private.account_devices d
  set active_session_id = case when d.active_user_id = subject_id then made_id else d.active_session_id end,
      last_seen_at = now(),
      expires_at = now() + interval '90 days'
  where d.id = device.id;
  return jsonb_build_object('status', 'kept');
end
$$;
