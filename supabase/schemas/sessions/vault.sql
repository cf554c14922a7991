-- Reads, adds and replaces the encrypted sessions of a browser's accounts. Each step is a single statement that can be
-- repeated after a crash. Supabase Auth is called between steps, never within one.

-- Returns the result of device_state, with the active account's encrypted session added. Returns null for an unknown
-- device.
create or replace function private.open_account_device(device_id uuid, secret text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select state.device || jsonb_build_object(
    'vault', (
      select private.vault_entry_view(e)
      from private.account_vault_entries e
      where e.device_id = open_account_device.device_id
        and e.user_id = (state.device #>> '{active,userId}')::uuid
        and e.sealed is not null
    )
  )
  from (select private.device_state(open_account_device.device_id, open_account_device.secret)) as state (device)
$$;

-- Returns an entry for our server: { userId, sessionId, sealed, keyId, tag, approvedUntil }. approvedUntil is when the
-- approval that a phone gave this session expires, or null. It lets the server set the approval's cookie again when the
-- session becomes active; private.session_facts still checks that cookie on every request.
-- Definer: authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.vault_entry_view(entry private.account_vault_entries) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'userId', entry.user_id,
    'sessionId', entry.session_id,
    'sealed', entry.sealed,
    'keyId', entry.key_id,
    'tag', entry.token_tag,
    'approvedUntil', (
      select max(c.valid_until)
      from private.login_challenges c
      join auth.mfa_factors f on f.id = c.approver_factor_id and f.user_id = c.user_id
      where c.bound_session_id = entry.session_id
        and c.user_id = entry.user_id
        and c.kind = 'mfa_mobile'
        and c.status = 'bound'
        and c.valid_until > now()
        and f.status = 'verified'
    )
  )
$$;

-- Records that the browser has presented its new secret. The previous secret expires 30 seconds later, so that requests
-- in flight still succeed.
create or replace function private.confirm_device_secret(device_id uuid, secret text) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.account_devices d
  set previous_until = now() + interval '30 seconds'
  where d.id = confirm_device_secret.device_id
    and d.secret_hash = private.secret_hash(confirm_device_secret.secret)
    and d.previous_hash is not null
    and d.previous_until is null
$$;

-- Registers a browser's device with its first account, which becomes active. Takes { deviceId, nextHash (the hex hash of
-- its secret), userId, sessionId, sealed, keyId, tag }. Returns { status: kept }. A known device uses
-- private.add_account.
create or replace function private.sign_in_account(sign_in jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  subject_id constant uuid := (sign_in ->> 'userId')::uuid;
begin
  perform private.lock_accounts(array[subject_id]);
  insert into private.account_devices (id, secret_hash, active_user_id, active_session_id)
  values (
    (sign_in ->> 'deviceId')::uuid, decode(sign_in ->> 'nextHash', 'hex'), subject_id, (sign_in ->> 'sessionId')::uuid
  );
  insert into private.account_vault_entries (device_id, user_id, session_id, sealed, key_id, token_tag)
  values (
    (sign_in ->> 'deviceId')::uuid, subject_id, (sign_in ->> 'sessionId')::uuid,
    sign_in ->> 'sealed', sign_in ->> 'keyId', sign_in ->> 'tag'
  );
  return '{"status": "kept"}';
end
$$;

-- Replaces an account's stored session with its rotated session. Takes { deviceId, userId, sessionId, expectedTag,
-- sealed, keyId, tag, lastRoute }. Without sealed, records only that the session was used. Returns { kept: true }, or {
-- kept: false, current } if another rotation came first. The caller then adopts current.
create or replace function private.store_account_session(entry jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  stored_entry private.account_vault_entries;
begin
  -- Locks the device before its entry, like every function here that locks both.
  perform from private.account_devices d where d.id = (entry ->> 'deviceId')::uuid for update;
  select e.* into stored_entry
  from private.account_vault_entries e
  where e.device_id = (entry ->> 'deviceId')::uuid and e.user_id = (entry ->> 'userId')::uuid
  for update;
  if not found then
    return jsonb_build_object('kept', false, 'current', null);
  end if;
  if stored_entry.session_id <> (entry ->> 'sessionId')::uuid
    or stored_entry.token_tag is distinct from entry ->> 'expectedTag' then
    return jsonb_build_object('kept', false, 'current', private.vault_entry_view(stored_entry));
  end if;
  update private.account_vault_entries e
  set sealed = coalesce(entry ->> 'sealed', e.sealed),
      key_id = coalesce(entry ->> 'keyId', e.key_id),
      token_tag = coalesce(entry ->> 'tag', e.token_tag),
      last_route = coalesce(entry ->> 'lastRoute', e.last_route),
      last_active_at = now()
  where e.device_id = stored_entry.device_id and e.user_id = stored_entry.user_id;
  update private.account_devices d
  set last_seen_at = now(), expires_at = now() + interval '90 days'
  where d.id = stored_entry.device_id;
  return jsonb_build_object('kept', true);
end
$$;

-- Discards an account's session that has ended or cannot be decrypted. If listed is true, the account stays in the list
-- and requires a new sign-in. Returns false if another request rotated the session first.
-- Definer: the session is in Supabase Auth's tables, and is ended by deleting its row.
create or replace function private.discard_account_session(device_id uuid, user_id uuid, expected_tag text, listed boolean)
  returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended_session_id uuid;
begin
  perform private.lock_accounts(array[discard_account_session.user_id]);
  if listed then
    update private.account_vault_entries e
    set sealed = null, key_id = null, token_tag = null
    where e.device_id = discard_account_session.device_id
      and e.user_id = discard_account_session.user_id
      and e.token_tag = expected_tag
    returning e.session_id into ended_session_id;
  else
    delete from private.account_vault_entries e
    where e.device_id = discard_account_session.device_id
      and e.user_id = discard_account_session.user_id
      and e.token_tag is not distinct from expected_tag
    returning e.session_id into ended_session_id;
  end if;
  -- Ends the session, because the vault no longer holds its tokens.
  perform private.end_account_session(discard_account_session.user_id, ended_session_id);
  return ended_session_id is not null;
end
$$;
