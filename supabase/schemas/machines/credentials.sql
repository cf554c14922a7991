-- The secrets and public keys of service accounts. A service account has at most five that work. The change of each
-- function is { actor, workspace (null for the platform), account, reason, requestId, ip } and what the function
-- names.

-- Adds the credential of a change, which has either secretHash (the text of a bytea) or publicJwk, and returns its id.
-- A public key has a kid. If the service account has no responsible person, the actor becomes it. Raises
-- check_violation or unique_violation.
create or replace function private.add_service_credential(account_id uuid, change jsonb) returns uuid
  language sql volatile security invoker set search_path = ''
as $$
  update private.service_accounts s
  set created_by = (change ->> 'actor')::uuid
  where s.id = account_id and s.created_by is null;
  insert into private.service_account_credentials (service_account_id, secret_hash, public_jwk, kid, created_by)
  values (
    account_id, (change ->> 'secretHash')::bytea, nullif(change -> 'publicJwk', 'null'), change -> 'publicJwk' ->> 'kid',
    (change ->> 'actor')::uuid
  )
  returning id
$$;

-- Returns a credential for the log, without the secret.
create or replace function private.service_credential_facts(credential private.service_account_credentials)
  returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_strip_nulls(jsonb_build_object(
    'kind', case when (credential).public_jwk is null then 'secret' else 'key' end, 'kid', (credential).kid
  ))
$$;

-- Gives a service account a new secret. The change also has secretHash and overlapSeconds, 0 to 86400: the earlier
-- secrets work that much longer, but not longer than before. Without an overlap, tokens of the earlier secrets end at
-- once. Returns { endsAt }, when the earlier secrets end, null if there were none, or { refused: forbidden | not_found
-- | invalid | too_many }.
-- Definer: the service role cannot write credentials, so every change passes these checks.
create or replace function private.rotate_service_secret(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
  overlap interval := make_interval(secs => (change ->> 'overlapSeconds')::integer);
  replaced integer;
begin
  if not private.may_change_service_account(change, coalesce(account.scopes, '{}')) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if account.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if overlap is null or overlap not between interval '0' and interval '24 hours' or change ->> 'secretHash' is null then
    return jsonb_build_object('refused', 'invalid');
  end if;
  if private.live_credential_count(account.id, with_secrets => overlap > interval '0') >= 5 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  begin
    delete from private.service_account_credentials c where c.service_account_id = account.id and c.expires_at <= now();
    if overlap = interval '0' then
      delete from private.service_account_credentials c
      where c.service_account_id = account.id and c.secret_hash is not null;
    else
      update private.service_account_credentials c
      set expires_at = least(c.expires_at, now() + overlap)
      where c.service_account_id = account.id and c.secret_hash is not null;
    end if;
    get diagnostics replaced = row_count;
    perform private.add_service_credential(account.id, change - 'publicJwk');
  exception
    when check_violation or unique_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'rotate_secret', 'after', jsonb_build_object('overlapSeconds', extract(epoch from overlap)::integer)
  ));
  return jsonb_build_object('endsAt', case when replaced > 0 then now() + overlap end);
end
$$;

-- Adds a public key to a service account. The change also has publicJwk. Keys have no overlap: add the new key, then
-- remove the old one. Returns { credential }, its id, or { refused: forbidden | not_found | invalid | taken (the kid)
-- | too_many }.
-- Definer: the service role cannot write credentials, so every change passes these checks.
create or replace function private.add_service_key(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
  credential_id uuid;
begin
  if not private.may_change_service_account(change, coalesce(account.scopes, '{}')) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if account.id is null then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if private.live_credential_count(account.id, with_secrets => true) >= 5 then
    return jsonb_build_object('refused', 'too_many');
  end if;
  begin
    credential_id := private.add_service_credential(account.id, change - 'secretHash');
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'add_key', 'after', jsonb_build_object('kind', 'key', 'kid', change -> 'publicJwk' -> 'kid')
  ));
  return jsonb_build_object('credential', credential_id);
end
$$;

-- Removes a secret or key, and with it the tokens that it obtained. The change also has credential, an id. Members
-- with manage_members may remove all of the workspace, because removing gives no rights. Returns {} or { refused:
-- forbidden | not_found }.
-- Definer: the service role cannot write credentials, so every change passes these checks.
create or replace function private.remove_service_credential(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts := private.lock_service_account(change);
  removed private.service_account_credentials;
begin
  if not private.may_change_service_account(change, '{}') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  delete from private.service_account_credentials c
  where c.id = (change ->> 'credential')::uuid and c.service_account_id = account.id
  returning * into removed;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform private.record_service_account_change(change, account, jsonb_build_object(
    'action', 'remove_credential', 'before', private.service_credential_facts(removed)
  ));
  return '{}';
end
$$;

-- Returns how many credentials of a service account work, with or without its secrets.
create or replace function private.live_credential_count(account_id uuid, with_secrets boolean) returns bigint
  language sql stable security invoker set search_path = ''
as $$
  select count(*)
  from private.service_account_credentials c
  where c.service_account_id = account_id
    and (c.expires_at is null or c.expires_at > now())
    and (with_secrets or c.public_jwk is not null)
$$;
