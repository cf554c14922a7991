-- Generated from supabase/schemas by npm run db:migration.

-- Definer: asks the identity backend's tables and the rule of required MFA, which the service role may not.
create or replace function private.open_openid_authorization(
  client_id text, redirect_uri text, scopes text[], claims jsonb default null
) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  granted text[];
begin
  select * into app from private.apps a where a.name = open_openid_authorization.client_id and a.kind = 'openid';
  if not found then
    return null;
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  granted := private.openid_scopes(app.id, open_openid_authorization.scopes);
  -- Claims of nobody name no session.
  select * into proved from private.session_proof(coalesce(open_openid_authorization.claims, '{}'));
  return jsonb_build_object(
    'client', jsonb_build_object('name', app.name, 'displayName', app.display_name, 'enabled', app.enabled),
    'redirectAllowed', private.is_openid_redirect_uri(client, open_openid_authorization.redirect_uri),
    'scopes', to_jsonb(granted),
    'session', case when proved.refused is null then jsonb_build_object(
      'authTime', floor(extract(epoch from (
        private.openid_authentication_of(open_openid_authorization.claims, proved.proof, proved.valid_until is not null)
      ).auth_time))::bigint,
      'consented', private.has_openid_consent(
        (proved.proof).user_id, client, granted, open_openid_authorization.redirect_uri
      )
    ) end
  );
end
$$;

-- Definer: as open_openid_authorization.
create or replace function private.issue_authorization_code(
  claims jsonb,
  client_id text,
  redirect_uri text,
  scopes text[],
  nonce text,
  code_challenge text,
  code_hash bytea,
  consents boolean,
  authenticated_since bigint default null
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  client private.openid_clients;
  proved record;
  authentication private.openid_authentication;
  granted text[];
begin
  -- Held, so that turning the app off waits for this code and revokes it, or is waited for. Apps are locked before
  -- accounts.
  select * into app
  from private.apps a
  where a.name = issue_authorization_code.client_id and a.kind = 'openid' and a.enabled
  for share;
  if not found then
    return jsonb_build_object('refused', 'client');
  end if;
  select * into client from private.openid_clients c where c.app_id = app.id;
  if not private.is_openid_redirect_uri(client, issue_authorization_code.redirect_uri) then
    return jsonb_build_object('refused', 'client');
  end if;
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(issue_authorization_code.claims);
  if proved.refused is not null then
    return jsonb_build_object('refused', proved.refused);
  end if;
  -- A session that may only replace its password gets nothing else.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  authentication := private.openid_authentication_of(
    issue_authorization_code.claims, proved.proof, proved.valid_until is not null
  );
  if authenticated_since is not null
    and (extract(epoch from authentication.auth_time) >= authenticated_since) is not true then
    return jsonb_build_object('refused', 'login_required');
  end if;
  granted := private.openid_scopes(app.id, issue_authorization_code.scopes);
  if cardinality(granted) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;
  if consents then
    insert into private.openid_consents as c (user_id, app_id, scopes)
    values ((proved.proof).user_id, app.id, granted)
    on conflict (user_id, app_id) do update
    set
      scopes = array(select unnest(c.scopes) union select unnest(excluded.scopes) order by 1),
      granted_at = now();
  elsif not private.has_openid_consent(
    (proved.proof).user_id, client, granted, issue_authorization_code.redirect_uri
  ) then
    return jsonb_build_object('refused', 'consent_required');
  end if;
  insert into private.authorization_codes (
    code_hash, app_id, user_id, proof, valid_until, authentication, redirect_uri, scopes, nonce, code_challenge, expires_at
  )
  values (
    issue_authorization_code.code_hash, app.id, (proved.proof).user_id, proved.proof, proved.valid_until, authentication,
    issue_authorization_code.redirect_uri, granted, issue_authorization_code.nonce,
    issue_authorization_code.code_challenge, now() + interval '60 seconds'
  );
  return jsonb_build_object('scopes', to_jsonb(granted));
end
$$;

create or replace function private.is_openid_redirect_uri(client private.openid_clients, uri text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from unnest(client.redirect_uris) as r (registered)
    where r.registered = uri
      or (client.is_public and private.loopback_without_port(r.registered) = private.loopback_without_port(uri))
  )
$$;

-- Definer: logins are granted to nobody.
create or replace function private.read_openid_logout(
  client_id text, post_logout_redirect_uri text, sid uuid, session_id uuid
) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'displayName', a.display_name,
    'redirectAllowed', a.enabled and exists (
      select
      from unnest(c.post_logout_redirect_uris) as r (uri)
      where r.uri = read_openid_logout.post_logout_redirect_uri
    ),
    'ofSession', exists (
      select
      from private.openid_grants g
      where g.id = read_openid_logout.sid
        and g.app_id = a.id
        and (g.proof).session_id = read_openid_logout.session_id
    )
  )
  from private.apps a
  join private.openid_clients c on c.app_id = a.id
  where a.name = read_openid_logout.client_id and a.kind = 'openid'
$$;

-- Definer: as read_openid_logout.
create or replace function private.end_openid_login(user_id uuid, sid uuid) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  perform private.lock_app_credentials(end_openid_login.user_id);
  update private.openid_grants g
  set revoked_at = now()
  where g.id = end_openid_login.sid and g.user_id = end_openid_login.user_id and g.revoked_at is null;
  return found;
end
$$;

comment on function private.end_openid_login(uuid, uuid) is
  'Ends a person''s login at an OpenID client. False if it has ended before, or is not theirs.';

comment on function private.read_openid_logout(text, text, uuid, uuid) is
  'What a sign-out at a client''s wish meets: {displayName, redirectAllowed, ofSession}, or null for an unknown client. '
  'ofSession: the login of the ID token came of this very session.';

grant execute on function private.end_openid_login(uuid, uuid) to service_role;

grant execute on function private.read_openid_logout(text, text, uuid, uuid) to service_role;
