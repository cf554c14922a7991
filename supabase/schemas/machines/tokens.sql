-- Tokens of service accounts (RFC 6749 section 4.4). No refresh tokens are issued (section 4.4.3).

-- Returns the public keys that verify the assertions of a service account that is in force: [{ credentialId, jwk }].
-- The caller has only an unverified client id, so the answer must not depend on anything else.
create or replace function private.service_account_keys(client_id text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(
    jsonb_build_object('credentialId', c.id, 'jwk', c.public_jwk) order by c.created_at desc, c.id
  ), '[]')
  from private.live_service_accounts(private.service_account_of_client(service_account_keys.client_id)) s
  join private.service_account_credentials c on c.service_account_id = s.id
  where c.public_jwk is not null and (c.expires_at is null or c.expires_at > now())
$$;

-- Authenticates a service account with a secret, or with an assertion that the server has verified with one of
-- private.service_account_keys. The request is { clientId, address } and either secretHash (the text of a bytea), or
-- credentialId, jti and assertionExpiresAt, the time after which the server refuses the assertion. refusal is null, or
-- unknown, address or replayed, which is for logs only. Changes of the service account wait until the caller commits, so
-- that they also end the token that the caller stores.
create or replace function private.authenticate_service_account(
  request jsonb,
  out account private.service_accounts,
  out credential private.service_account_credentials,
  out refusal text
)
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account_id constant uuid := private.service_account_of_client(request ->> 'clientId');
begin
  -- Only a credential of the service account takes the lock, because a change waits for it.
  if not exists (
    select
    from private.service_account_credentials c
    where c.service_account_id = account_id
      and case
        when request ? 'jti' then c.public_jwk is not null and c.id = (request ->> 'credentialId')::uuid
        else c.secret_hash = (request ->> 'secretHash')::bytea
      end
  ) then
    refusal := 'unknown';
    return;
  end if;
  -- The lock of private.lock_service_account, for which both wait in turn.
  perform from private.service_accounts s where s.id = account_id for no key update;
  select s.* into account from private.live_service_accounts(account_id) s;
  select c.* into credential
  from private.service_account_credentials c
  where c.service_account_id = account.id
    and (c.expires_at is null or c.expires_at > now())
    and case
      when request ? 'jti' then c.public_jwk is not null and c.id = (request ->> 'credentialId')::uuid
      else c.secret_hash = (request ->> 'secretHash')::bytea
    end;
  if not found then
    refusal := 'unknown';
  elsif not private.is_allowed_address(account, (request ->> 'address')::inet) then
    refusal := 'address';
  elsif request ? 'jti' then
    insert into private.used_assertions (service_account_id, jti, expires_at)
    values (account.id, request ->> 'jti', (request ->> 'assertionExpiresAt')::timestamptz)
    on conflict do nothing;
    if not found then
      refusal := 'replayed';
    end if;
  end if;
end
$$;

-- Stores a token of at most 15 minutes. The request is that of private.authenticate_service_account and tokenHash (the
-- text of a bytea) and scopes, null for all that the service account has. Returns { outcome: issued, id, name,
-- workspaceId, scopes, expiresIn (seconds) }, { outcome: invalid_scope }, or { outcome: invalid_client, reason: unknown
-- | address | replayed }, where the reason is not for the client.
-- Definer: the service role cannot write service accounts.
create or replace function private.issue_service_token(request jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  lifetime constant interval := interval '15 minutes';
  client record;
  account private.service_accounts;
  credential private.service_account_credentials;
  granted text[];
  ends_at timestamptz;
begin
  select a.* into client from private.authenticate_service_account(request) a;
  if client.refusal is not null then
    return jsonb_build_object('outcome', 'invalid_client', 'reason', client.refusal);
  end if;
  account := client.account;
  credential := client.credential;
  granted := account.scopes;
  if request ->> 'scopes' is not null then
    granted := array(
      select distinct e.scope from jsonb_array_elements_text(request -> 'scopes') as e (scope) order by e.scope
    );
  end if;
  if granted = '{}' or not granted <@ account.scopes then
    return jsonb_build_object('outcome', 'invalid_scope');
  end if;
  ends_at := least(now() + lifetime, account.expires_at, credential.expires_at);
  insert into private.service_tokens (token_hash, service_account_id, credential_id, scopes, expires_at)
  values ((request ->> 'tokenHash')::bytea, account.id, credential.id, granted, ends_at);
  perform private.note_service_account_use(account, (request ->> 'address')::inet);
  update private.service_account_credentials c
  set last_used_at = now()
  where c.id = (
    select o.id
    from private.service_account_credentials o
    where o.id = credential.id and coalesce(o.last_used_at < now() - interval '1 minute', true)
    for no key update skip locked
  );
  return jsonb_build_object(
    'outcome', 'issued',
    'id', account.id,
    'name', account.name,
    'workspaceId', account.workspace_id,
    'scopes', to_jsonb(granted),
    'expiresIn', ceil(extract(epoch from ends_at - now()))::integer
  );
end
$$;

-- Revokes a token (RFC 7009). The request is that of private.authenticate_service_account and tokenHash (the text of a
-- bytea). Does nothing for another service account's token. Returns whether the client authenticated.
-- Definer: the functions for credentials of service accounts are not granted to any role.
create or replace function private.revoke_service_token(request jsonb) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
begin
  select (a.account).id, a.refusal into client from private.authenticate_service_account(request) a;
  if client.refusal is not null then
    return false;
  end if;
  delete from private.service_tokens t
  where t.token_hash = (request ->> 'tokenHash')::bytea and t.service_account_id = client.id;
  return true;
end
$$;

-- Returns the service account that a token belongs to, { id, name, workspaceId, scopes }, or null if the token, its
-- credential or the service account is not in force, or may not be used from the address. scopes are those of the token
-- that the service account still has. Records the use at most once a minute.
-- Definer: the service role cannot write service accounts.
create or replace function private.read_service_caller(token_hash bytea, address inet) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account private.service_accounts;
  current_scopes text[];
  token private.service_tokens;
begin
  select t.* into token
  from private.service_tokens t
  join private.service_account_credentials c on c.id = t.credential_id
  where t.token_hash = read_service_caller.token_hash
    and t.expires_at > now()
    and (c.expires_at is null or c.expires_at > now());
  if not found then
    return null;
  end if;
  select s.* into account from private.live_service_accounts(token.service_account_id) s;
  if not found or not private.is_allowed_address(account, read_service_caller.address) then
    return null;
  end if;
  current_scopes := array(select s from unnest(token.scopes) as s where s = any (account.scopes) order by s);
  perform private.note_service_account_use(account, read_service_caller.address);
  return jsonb_build_object(
    'id', account.id, 'name', account.name, 'workspaceId', account.workspace_id, 'scopes', to_jsonb(current_scopes)
  );
end
$$;

-- Returns whether a service account may be used from an address. Without an address, one with an address list is
-- refused.
create or replace function private.is_allowed_address(account private.service_accounts, address inet) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select cardinality((account).allowed_addresses) = 0
    or coalesce(is_allowed_address.address <<= any ((account).allowed_addresses), false)
$$;

-- Records the last use of a service account, at most once a minute. Skips a locked row, so that concurrent requests
-- don't wait for each other.
create or replace function private.note_service_account_use(account private.service_accounts, address inet) returns void
  language sql volatile security invoker set search_path = ''
as $$
  update private.service_accounts s
  set last_used_at = now(), last_used_ip = note_service_account_use.address
  where s.id = (
    select o.id
    from private.service_accounts o
    where o.id = (account).id and coalesce(o.last_used_at < now() - interval '1 minute', true)
    for no key update skip locked
  )
$$;
