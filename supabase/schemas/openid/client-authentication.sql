-- Finds and authenticates OpenID clients, and checks their redirect URIs.

-- Returns the app with an OpenID client id, or null. The id of a client with a metadata document is the document's URL,
-- and any other client's id is its name. Leaves out clients that registered themselves and have expired.
create or replace function private.openid_client_app(client_id text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select a.id
  from private.apps a
  left join private.openid_clients c on c.app_id = a.id
  where a.name = client_id
    and a.kind = 'openid'
    and c.metadata_url is null
    and (c.expires_at is null or c.expires_at > now())
  union all
  select c.app_id from private.openid_clients c where c.metadata_url = client_id and c.expires_at > now()
$$;

-- Returns the enabled OpenID client for a client id and the SHA-256 of its secret. A public client has no secret.
-- Returns no row if the client is unknown or disabled, or if the secret is wrong or expired. For definers; not granted
-- to any role.
create or replace function private.authenticate_openid_client(client_id text, secret_hash bytea)
  returns table (id uuid, name text, scopes text[], is_public boolean)
  language sql stable security invoker set search_path = ''
as $$
  select a.id, a.name, a.scopes, c.is_public
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.id = private.openid_client_app(authenticate_openid_client.client_id)
    and a.enabled
    and case
      when c.is_public then authenticate_openid_client.secret_hash is null
      else exists (
        select
        from private.app_secrets s
        where s.app_id = a.id
          and s.secret_hash = authenticate_openid_client.secret_hash
          and (s.expires_at is null or s.expires_at > now())
      )
    end
$$;

-- Returns whether a redirect URI is exactly one of the client's registered URIs. A public client may use any port on a
-- loopback address (RFC 8252 section 7.3), and a client that registered itself also on localhost, as editors do.
create or replace function private.is_openid_redirect_uri(client private.openid_clients, uri text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select exists (
    select
    from unnest(client.redirect_uris) as r (registered)
    where r.registered = uri
      or (
        client.is_public
        and private.loopback_without_port(r.registered, client.registration <> 'operator')
          = private.loopback_without_port(uri, client.registration <> 'operator')
      )
  )
$$;

-- Returns a loopback redirect URI without its port; null for any other URI. Names localhost only if by_name is true.
create or replace function private.loopback_without_port(uri text, by_name boolean) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case
    when uri ~ '^http://(127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?(/|$)' or by_name and uri ~ '^http://localhost(:[0-9]{1,5})?(/|$)'
      then regexp_replace(uri, '^(http://(127\.0\.0\.1|\[::1\]|localhost))(:[0-9]{1,5})?', '\1')
  end
$$;

-- Returns the id by which a client knows itself: the URL of its metadata document, or its name.
create or replace function private.openid_client_id(app_id uuid) returns text
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(c.metadata_url, a.name)
  from private.apps a
  left join private.openid_clients c on c.app_id = a.id
  where a.id = openid_client_id.app_id
$$;
