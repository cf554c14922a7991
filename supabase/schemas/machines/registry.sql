-- Creates, edits and revokes service accounts.

-- Creates or edits a service account. The change is { actor, workspace (null for the platform), account (null to
-- create), name, scopes, allowedAddresses, expiresAt (within 366 days), enabled, reason, requestId, ip } and, to
-- create, either secretHash (the text of a bytea) or publicJwk, or, to edit, version (from
-- private.read_service_account). Disabling ends the tokens. If the service account has no responsible person, the
-- actor becomes it. Returns { id, clientId } or { refused: forbidden | not_found | conflict (the version is outdated;
-- last is private.last_admin_action for the platform) | taken (the name) | invalid | too_many (the platform or the
-- workspace has 100) }.
-- Definer: the service role cannot write service accounts, so every change passes these checks.
create or replace function private.save_service_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  is_new constant boolean := change ->> 'account' is null;
  owner constant uuid := (change ->> 'workspace')::uuid;
  new_scopes constant text[] := array(
    select distinct e.scope from jsonb_array_elements_text(change -> 'scopes') as e (scope) order by e.scope
  );
  end_time constant timestamptz := (change ->> 'expiresAt')::timestamptz;
  old private.service_accounts;
  saved private.service_accounts;
begin
  if not is_new then
    old := private.lock_service_account(change);
  end if;
  -- The scopes that it has count too: otherwise a member could edit a service account that may do more than the member.
  if not private.may_change_service_account(change, new_scopes || coalesce(old.scopes, '{}')) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if not is_new and old.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not is_new and private.service_account_version(old) is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', case
      when owner is null then private.last_admin_action('service account ' || old.id)
    end);
  end if;
  if end_time is null
    or end_time is distinct from old.expires_at and (end_time <= now() or end_time > now() + interval '366 days') then
    return jsonb_build_object('refused', 'invalid');
  end if;
  begin
    if is_new then
      -- Serializes creations, so that the maximum holds.
      perform pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'private.save_service_account', owner), 0));
      if private.service_account_count(owner) >= 100 then
        return jsonb_build_object('refused', 'too_many');
      end if;
      insert into private.service_accounts (
        workspace_id, name, scopes, allowed_addresses, enabled, expires_at, created_by
      )
      values (
        owner, change ->> 'name', new_scopes, private.address_list(change -> 'allowedAddresses'),
        (change ->> 'enabled')::boolean, end_time, (change ->> 'actor')::uuid
      )
      returning * into saved;
      perform private.add_service_credential(saved.id, change);
    else
      update private.service_accounts s
      set
        name = change ->> 'name',
        scopes = new_scopes,
        allowed_addresses = private.address_list(change -> 'allowedAddresses'),
        enabled = (change ->> 'enabled')::boolean,
        expires_at = end_time,
        created_by = coalesce(s.created_by, (change ->> 'actor')::uuid)
      where s.id = old.id
      returning * into saved;
    end if;
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation or not_null_violation or invalid_text_representation then
      return jsonb_build_object('refused', 'invalid');
  end;
  if not saved.enabled then
    delete from private.service_tokens t where t.service_account_id = saved.id;
  end if;
  if private.service_account_version(saved) is distinct from private.service_account_version(old) then
    perform private.record_service_account_change(change, saved, jsonb_build_object(
      'action', case
        when is_new then 'add'
        when old.enabled and not saved.enabled then 'disable'
        when saved.enabled and not old.enabled then 'enable'
        else 'edit'
      end,
      'after', private.service_account_settings(saved)
    ) || case
      when is_new then '{}' else jsonb_build_object('before', private.service_account_settings(old))
    end);
  end if;
  return jsonb_build_object('id', saved.id, 'clientId', private.service_account_client_id(saved.id));
end
$$;

-- Revokes a service account for good, with its credentials and tokens. The change is { actor, workspace (null for the
-- platform), account, reason, requestId, ip }. A member with manage_members may revoke any of the workspace. Returns
-- {} or { refused: forbidden | not_found }.
-- Definer: the service role cannot write service accounts, so every change passes these checks.
create or replace function private.revoke_service_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
begin
  if not private.may_change_service_account(change, '{}') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if account.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  update private.service_accounts s set revoked_at = now() where s.id = account.id;
  -- Their tokens go with them.
  delete from private.service_account_credentials c where c.service_account_id = account.id;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'revoke', 'before', private.service_account_settings(account)
  ));
  return '{}';
end
$$;

-- Returns how many service accounts of a workspace, or of the platform if it is null, are not revoked.
create or replace function private.service_account_count(workspace uuid) returns bigint
  language sql stable security invoker set search_path = ''
as $$
  select count(*)
  from private.service_accounts s
  where s.workspace_id is not distinct from workspace and s.revoked_at is null
$$;

-- Returns a JSON array of addresses and networks. Raises invalid_text_representation if one is neither.
create or replace function private.address_list(addresses jsonb) returns cidr[]
  language sql immutable security invoker set search_path = ''
as $$
  select array(select e.address::cidr from jsonb_array_elements_text(addresses) as e (address))
$$;
