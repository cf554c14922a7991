-- Authorization requests that the server keeps while a person signs in, or that a client pushed (RFC 9126). Both are read
-- by a handle and deleted when they are answered.

-- Stores an authorization request for ten minutes. parameters are in form encoding. The web server has checked them.
-- A client that is known by a URL may register with its metadata document later, once the person has signed in. Returns
-- {expiresInSeconds} or {refused: client | limited (with retryAfterSeconds)}.
-- Definer: calls functions for limits, which are not granted to any role.
create or replace function private.store_authorization_request(
  client_id text, parameters text, handle_hash bytea, address inet
) returns jsonb
  language sql volatile security definer set search_path = ''
as $$
  select private.add_authorization_request(
    private.openid_client_app(store_authorization_request.client_id),
    case when store_authorization_request.client_id ~ '^https?://' then store_authorization_request.client_id end,
    store_authorization_request.parameters,
    store_authorization_request.handle_hash,
    null,
    private.address_network(store_authorization_request.address)
  )
$$;

-- Stores a request that a client pushed, which must authenticate. Returns the same result as
-- private.store_authorization_request, or {refused: unauthenticated | redirect_uri (not registered) | pkce (required)}. Limits a client with a secret by client, because all
-- of its people share the address of its server.
-- Definer: calls private.authenticate_openid_client, which is not granted to any role.
create or replace function private.push_authorization_request(
  client_id text,
  secret_hash bytea,
  redirect_uri text,
  uses_pkce boolean,
  parameters text,
  handle_hash bytea,
  address inet
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  client record;
  registration private.openid_clients;
begin
  select a.id, a.name, a.is_public into client
  from private.authenticate_openid_client(push_authorization_request.client_id, push_authorization_request.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  select * into registration from private.openid_clients c where c.app_id = client.id;
  if not private.is_openid_redirect_uri(registration, push_authorization_request.redirect_uri) then
    return jsonb_build_object('refused', 'redirect_uri');
  end if;
  if registration.requires_pkce and not uses_pkce then
    return jsonb_build_object('refused', 'pkce');
  end if;
  return private.add_authorization_request(
    client.id,
    null,
    push_authorization_request.parameters,
    push_authorization_request.handle_hash,
    case when not client.is_public then client.name end,
    case when client.is_public then private.address_network(push_authorization_request.address) end
  );
end
$$;

-- Stores a request, and counts it for a client or for a network. See private.store_authorization_request.
create or replace function private.add_authorization_request(
  app_id uuid, client_url text, parameters text, handle_hash bytea, client_name text, network cidr
) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  bucket record;
  wait interval;
begin
  if add_authorization_request.app_id is null and client_url is null then
    return jsonb_build_object('refused', 'client');
  end if;
  select b.* into strict bucket from private.attempt_buckets('authorization_request', client_name, network) b;
  wait := private.consume_attempt(bucket.subject, 'authorization_request', bucket.scope, bucket.step, bucket.per);
  if wait is not null then
    return jsonb_build_object('refused', 'limited', 'retryAfterSeconds', ceil(extract(epoch from wait))::integer);
  end if;
  insert into private.authorization_requests (app_id, client_url, parameters, handle_hash, expires_at)
  values (
    add_authorization_request.app_id,
    case when add_authorization_request.app_id is null then add_authorization_request.client_url end,
    add_authorization_request.parameters,
    add_authorization_request.handle_hash,
    now() + interval '10 minutes'
  );
  return jsonb_build_object('expiresInSeconds', 600);
end
$$;

-- Returns {clientId, parameters} of a kept request, or null if there is none, it has expired or it was answered.
create or replace function private.read_authorization_request(handle_hash bytea) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'clientId', coalesce(r.client_url, private.openid_client_id(r.app_id)), 'parameters', r.parameters
  )
  from private.authorization_requests r
  where r.handle_hash = read_authorization_request.handle_hash and r.expires_at > now()
$$;

-- Ends a kept request, because it is being answered. Returns whether it was still open: of concurrent callers, only one
-- gets true.
create or replace function private.end_authorization_request(handle_hash bytea) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  delete from private.authorization_requests r
  where r.handle_hash = end_authorization_request.handle_hash and r.expires_at > now();
  return found;
end
$$;
