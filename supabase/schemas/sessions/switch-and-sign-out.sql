-- Switches between the accounts of a browser, and signs out of one or all of them.

-- Begins a switch to another account and takes the device's lease for 10 s. Returns status: unknown (the device is
-- unknown), no_account, active (the account is already active), busy (another switch holds the lease) or begun.
create or replace function private.begin_account_switch(device_id uuid, secret text, target_id uuid, lease uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  device private.account_devices;
  target private.account_vault_entries;
  usable boolean;
begin
  select d.* into device from private.account_devices d where d.id = begin_account_switch.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  select e.* into target
  from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  usable := private.is_vault_entry_usable(target);
  if usable and device.active_user_id = target.user_id and device.active_session_id = target.session_id then
    return jsonb_build_object('status', 'active', 'lastRoute', target.last_route);
  end if;
  if device.lease_id is not null and device.lease_id <> lease and device.lease_expires_at > now() then
    return jsonb_build_object('status', 'busy');
  end if;
  update private.account_devices d
  set lease_id = lease, lease_expires_at = now() + interval '10 seconds'
  where d.id = device.id;
  return jsonb_build_object(
    'status', 'begun',
    'usable', usable,
    'lastRoute', target.last_route,
    'target', private.vault_entry_view(target)
  );
end
$$;

-- Completes a switch in one transaction: stores the account's rotated session with store_account_session and makes the
-- account active. Takes { leaseId, secret, nextHash (hex) } and the fields that store_account_session takes. Returns {
-- status: activated, rotated }, { status: changed, current } if another rotation came first, or { status: lost } if the
-- switch no longer holds the lease. rotated is true if the given secret is now the device's previous secret and still
-- accepted.
create or replace function private.activate_account(switch jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  device private.account_devices;
  stored jsonb;
  secret_status text;
  rotates boolean;
begin
  perform private.lock_accounts(array[(switch ->> 'userId')::uuid]);
  select d.* into device from private.account_devices d where d.id = (switch ->> 'deviceId')::uuid for update;
  if not found or device.lease_id is distinct from (switch ->> 'leaseId')::uuid then
    return jsonb_build_object('status', 'lost');
  end if;
  stored := private.store_account_session(switch);
  if not (stored ->> 'kept')::boolean then
    return jsonb_build_object('status', 'changed', 'current', stored -> 'current');
  end if;
  secret_status := private.device_secret_status(device, switch ->> 'secret');
  -- Does not rotate again while the previous secret is still valid. Otherwise, a late response could leave the browser
  -- with a secret that is no longer valid.
  rotates := secret_status = 'current' and (
    device.previous_hash is null
    or device.previous_for = 'sign_in'
    or coalesce(device.previous_until <= now(), false)
  );
  update private.account_devices d
  set active_user_id = (switch ->> 'userId')::uuid,
      active_session_id = (switch ->> 'sessionId')::uuid,
      secret_hash = case when rotates then decode(switch ->> 'nextHash', 'hex') else d.secret_hash end,
      previous_hash = case when rotates then d.secret_hash else d.previous_hash end,
      previous_for = case when rotates then 'anything' else d.previous_for end,
      previous_until = case when rotates then null else d.previous_until end,
      rotated_at = case when rotates then now() else d.rotated_at end,
      lease_id = null,
      lease_expires_at = null
  where d.id = device.id;
  return jsonb_build_object('status', 'activated', 'rotated', rotates or secret_status = 'previous');
end
$$;

-- Releases the device's lease after a switch that was not completed.
create or replace function private.end_account_switch(device_id uuid, lease uuid) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.account_devices d
  set lease_id = null, lease_expires_at = null
  where d.id = end_account_switch.device_id and d.lease_id = lease
$$;

-- Signs one account out of a browser and ends its session there. The result's next lists the accounts that can become
-- active, last used first.
-- Definer: ends a session by deleting its row in Supabase Auth's table. The same transaction deletes the vault entry,
-- and Supabase Auth doesn't need to be reachable.
create or replace function private.sign_out_account(device_id uuid, secret text, target_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  ended_session_id uuid;
begin
  perform private.lock_accounts(array[target_id]);
  select d.* into device from private.account_devices d where d.id = sign_out_account.device_id for update;
  if not found or private.device_secret_status(device, secret) not in ('current', 'previous') then
    return jsonb_build_object('status', 'unknown');
  end if;
  delete from private.account_vault_entries e
  where e.device_id = device.id and e.user_id = target_id
  returning e.session_id into ended_session_id;
  if not found then
    return jsonb_build_object('status', 'no_account');
  end if;
  perform private.end_account_session(target_id, ended_session_id);
  perform private.end_additions(device.id, array[target_id]);
  update private.account_devices d
  set active_user_id = null, active_session_id = null
  where d.id = device.id and d.active_user_id = target_id;
  return jsonb_build_object(
    'status', 'signed_out',
    'sessionId', ended_session_id,
    'wasActive', device.active_user_id is not distinct from target_id,
    'next', coalesce((
      select jsonb_agg(e.user_id order by e.last_active_at desc, e.user_id)
      from private.account_vault_entries e
      where e.device_id = device.id and private.is_vault_entry_usable(e)
    ), '[]')
  );
end
$$;

-- Signs a browser out of all its accounts: ends all their sessions and deletes the device. Returns the sessions that
-- were still alive: [{ userId, sessionId }]. Returns null for an unknown device.
-- Definer: ends the browser's sessions in the transaction that deletes its vault entries. Supabase Auth has no call
-- that does this.
create or replace function private.sign_out_device(device_id uuid, secret text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  device private.account_devices;
  ended_sessions jsonb;
begin
  perform private.lock_accounts(array(
    select e.user_id from private.account_vault_entries e where e.device_id = sign_out_device.device_id
    union
    select a.user_id from private.account_additions a where a.device_id = sign_out_device.device_id
  ));
  select d.* into device from private.account_devices d where d.id = sign_out_device.device_id for update;
  -- Accepts a spent secret too, because a sign-in may have replaced the secret while this request was in flight.
  if not found or private.device_secret_status(device, secret) = 'unknown' then
    return null;
  end if;
  with deleted as (
    delete from private.account_vault_entries e where e.device_id = device.id returning e.user_id, e.session_id
  )
  select coalesce(jsonb_agg(jsonb_build_object('userId', g.user_id, 'sessionId', g.session_id)), '[]')
  into ended_sessions
  from deleted g
  where private.end_account_session(g.user_id, g.session_id);
  ended_sessions := ended_sessions || private.end_additions(device.id, null);
  delete from private.account_devices d where d.id = device.id;
  return ended_sessions;
end
$$;
