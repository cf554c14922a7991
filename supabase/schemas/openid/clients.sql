-- The registry of OpenID clients. An OpenID client is a kind of app that has no origins, workspaces or gateway scopes.
-- The console and the command line share these functions. A change without an actor comes from the command line.

-- Returns an OpenID client for display, with its valid secrets but without their hashes.
create or replace function private.describe_openid_client(app_id uuid) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', a.id,
    'name', a.name,
    'displayName', a.display_name,
    'enabled', a.enabled,
    'isPublic', c.is_public,
    'registration', c.registration,
    'metadataUrl', c.metadata_url,
    'scopes', a.scopes,
    'redirectUris', c.redirect_uris,
    'postLogoutRedirectUris', c.post_logout_redirect_uris,
    'logoutUrl', a.backchannel_logout_uri,
    'allowsDeviceGrant', c.allows_device_grant,
    'requiresPkce', c.requires_pkce,
    'claimsInIdToken', c.claims_in_id_token,
    'groupsWorkspaceId', c.groups_workspace_id,
    'secrets', coalesce((
      select jsonb_agg(
        jsonb_build_object('createdAt', s.created_at, 'expiresAt', s.expires_at) order by s.created_at desc, s.id
      )
      from private.app_secrets s
      where s.app_id = a.id and (s.expires_at is null or s.expires_at > now())
    ), '[]'),
    'createdAt', a.created_at
  )
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.id = describe_openid_client.app_id and a.kind = 'openid'
$$;

-- Returns an OpenID client with its version, or null. A request to change the client must name the version that was
-- read, so that a concurrent change is detected.
create or replace function private.read_openid_client(client_id text) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select private.describe_openid_client(a.id) || jsonb_build_object('version', private.app_version(a.name))
  from private.apps a
  where a.name = client_id and a.kind = 'openid'
$$;

-- Returns a page of OpenID clients, sorted by name. term filters by a part of the name or display name. after is the
-- last name on the previous page. Without page_size, returns all clients.
create or replace function private.list_openid_clients(
  term text default '', after text default null, page_size integer default null
) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(private.describe_openid_client(p.id) order by p.name), '[]')
  from (
    select a.id, a.name
    from private.apps a
    where a.kind = 'openid'
      and (strpos(a.name, lower(term)) > 0 or strpos(lower(a.display_name), lower(term)) > 0)
      and (after is null or a.name > after)
    order by a.name
    limit page_size
  ) as p
$$;

-- Registers an OpenID client. Takes { actor, name, displayName, isPublic, scopes, redirectUris, postLogoutRedirectUris,
-- logoutUrl, allowsDeviceGrant, requiresPkce, claimsInIdToken, groupsWorkspaceId, secretHash, reason, requestId, ip }.
-- secretHash is the text of a bytea, or null for a client without a secret, such as a public client. Returns {} or {
-- refused: forbidden | taken | invalid }.
create or replace function private.add_openid_client(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  is_public boolean := (change ->> 'isPublic')::boolean;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if is_public and change ->> 'secretHash' is not null then
    raise exception 'a public client has no secret' using errcode = 'check_violation';
  end if;
  begin
    insert into private.apps (name, display_name, kind, scopes, backchannel_logout_uri)
    values (
      change ->> 'name', change ->> 'displayName', 'openid',
      array(select jsonb_array_elements_text(change -> 'scopes')), change ->> 'logoutUrl'
    )
    returning * into app;
    insert into private.openid_clients (
      app_id, is_public, redirect_uris, post_logout_redirect_uris, allows_device_grant, requires_pkce,
      claims_in_id_token, groups_workspace_id
    )
    values (
      app.id, is_public, array(select jsonb_array_elements_text(change -> 'redirectUris')),
      array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris')),
      (change ->> 'allowsDeviceGrant')::boolean,
      coalesce((change ->> 'requiresPkce')::boolean, true),
      coalesce((change ->> 'claimsInIdToken')::boolean, false),
      (change ->> 'groupsWorkspaceId')::uuid
    );
  exception
    when unique_violation then
      return jsonb_build_object('refused', 'taken');
    when check_violation or foreign_key_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  insert into private.app_secrets (app_id, secret_hash)
  select app.id, (change ->> 'secretHash')::bytea where change ->> 'secretHash' is not null;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.register', 'target', 'app ' || app.name, 'targetName', app.display_name,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

-- Changes the given fields of an OpenID client. Takes { actor, name, version, displayName, scopes, redirectUris,
-- postLogoutRedirectUris, logoutUrl, allowsDeviceGrant, requiresPkce, claimsInIdToken, groupsWorkspaceId, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | conflict | invalid }. If version is given and the client has changed since that version, refuses with
-- conflict and returns the last change as last.
create or replace function private.change_openid_client(change jsonb) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
  old_client jsonb;
begin
  if not private.may_change_apps(change) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into app from private.apps a where a.name = change ->> 'name' and a.kind = 'openid' for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if change ? 'version' and private.app_version(app.name)::text is distinct from change ->> 'version' then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action('app ' || app.name));
  end if;
  old_client := private.describe_openid_client(app.id);
  begin
    update private.apps a
    set
      display_name = coalesce(change ->> 'displayName', a.display_name),
      scopes = case
        when change ? 'scopes' then array(select jsonb_array_elements_text(change -> 'scopes')) else a.scopes
      end,
      backchannel_logout_uri = case
        when change ? 'logoutUrl' then change ->> 'logoutUrl' else a.backchannel_logout_uri
      end
    where a.id = app.id;
    update private.openid_clients c
    set
      redirect_uris = case
        when change ? 'redirectUris' then array(select jsonb_array_elements_text(change -> 'redirectUris'))
        else c.redirect_uris
      end,
      post_logout_redirect_uris = case
        when change ? 'postLogoutRedirectUris'
          then array(select jsonb_array_elements_text(change -> 'postLogoutRedirectUris'))
        else c.post_logout_redirect_uris
      end,
      allows_device_grant = coalesce((change ->> 'allowsDeviceGrant')::boolean, c.allows_device_grant),
      requires_pkce = coalesce((change ->> 'requiresPkce')::boolean, c.requires_pkce),
      claims_in_id_token = coalesce((change ->> 'claimsInIdToken')::boolean, c.claims_in_id_token),
      groups_workspace_id = case
        when change ? 'groupsWorkspaceId' then (change ->> 'groupsWorkspaceId')::uuid else c.groups_workspace_id
      end
    where c.app_id = app.id;
  exception
    when check_violation or foreign_key_violation then
      return jsonb_build_object('refused', 'invalid');
  end;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'app.edit', 'target', 'app ' || app.name, 'targetName', app.display_name, 'before', old_client,
    'after', private.describe_openid_client(app.id)
  ));
  return '{}';
end
$$;

-- Registers a client at its own request, or updates it from its metadata document. Takes { name, displayName,
-- redirectUris, metadataUrl, freshSeconds }. metadataUrl is null for dynamic registration. Without a login within a day,
-- the client is deleted. Of each kind, the newest 1,000 clients may wait for a login. A changed name or redirect URI
-- withdraws the consents, because people agreed to what the document said before; logins stay.
-- Definer: writes tables that the service role can only read.
create or replace function private.save_self_registered_client(client jsonb) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  url text := client ->> 'metadataUrl';
  method text := case when url is null then 'dynamic' else 'document' end;
  uris text[] := array(select jsonb_array_elements_text(client -> 'redirectUris'));
  fresh_until timestamptz := now() + make_interval(secs => (client ->> 'freshSeconds')::integer);
  app private.apps;
  old_client private.openid_clients;
begin
  -- Serializes registrations, so that the maximum below holds.
  perform pg_advisory_xact_lock(hashtextextended('private.save_self_registered_client', 0));
  select * into old_client from private.openid_clients c where c.metadata_url = url;
  if found then
    select * into app from private.apps a where a.id = old_client.app_id for no key update;
    if app.display_name <> client ->> 'displayName' or not (old_client.redirect_uris @> uris and old_client.redirect_uris <@ uris) then
      delete from private.openid_consents c where c.app_id = app.id;
      update private.apps a set display_name = client ->> 'displayName' where a.id = app.id;
    end if;
    update private.openid_clients c
    set
      redirect_uris = uris,
      metadata_expires_at = fresh_until,
      expires_at = greatest(c.expires_at, now() + interval '1 day')
    where c.app_id = app.id;
    return;
  end if;
  -- The oldest make room: if new clients were refused instead, a flood would keep everybody else out.
  delete from private.apps a
  where a.id in (
    select c.app_id
    from private.openid_clients c
    join private.apps o on o.id = c.app_id and o.enabled
    where c.registration = method and c.expires_at > now() and c.expires_at <= now() + interval '1 day'
    order by c.expires_at desc, c.app_id
    offset 999
  );
  insert into private.apps (name, display_name, kind)
  values (client ->> 'name', client ->> 'displayName', 'openid')
  returning * into app;
  insert into private.openid_clients (
    app_id, is_public, redirect_uris, registration, metadata_url, metadata_expires_at, expires_at
  )
  values (
    app.id, true, uris, method, url, case when url is not null then fresh_until end, now() + interval '1 day'
  );
end
$$;

-- Sets the URL of an app at which clients call it with tokens of their own, or null. Logins for the former URL end
-- (private.revoke_resource_credentials). Returns false if no internal app has this name.
create or replace function private.set_app_resource_url(
  app_name text, resource_url text, reason text, actor uuid default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  update private.apps a
  set resource_url = set_app_resource_url.resource_url
  where a.name = app_name and a.kind = 'internal'
  returning * into app;
  if not found then
    return false;
  end if;
  perform private.record_app_change(app, 'app.edit', reason, actor);
  return true;
end
$$;

-- Sets the URL that is called when a login at an app has ended. Works for every kind of app. Null turns these calls
-- off. Returns false for an unknown app.
create or replace function private.set_app_logout_url(
  app_name text, logout_url text, reason text, actor uuid default null
) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  app private.apps;
begin
  update private.apps a set backchannel_logout_uri = logout_url where a.name = app_name returning * into app;
  if not found then
    return false;
  end if;
  perform private.record_app_change(app, 'app.edit', reason, actor);
  return true;
end
$$;

-- Returns whether a change of apps may be made. A change that names neither an actor nor a service account comes from the
-- command line. All others must be allowed in the console.
create or replace function private.may_change_apps(change jsonb) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select num_nonnulls(change ->> 'actor', change ->> 'serviceAccount') = 0
    or private.may_change_console(change, 'admin:apps:write')
$$;

-- Returns the version of an app, which is the id of its last entry in the audit log.
create or replace function private.app_version(app_name text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select l.id
  from private.admin_audit_log l
  where l.target = 'app ' || app_name
  order by l.created_at desc, l.id desc
  limit 1
$$;
