-- Sign-out requested by an OpenID client (OpenID Connect RP-Initiated Logout 1.0).

-- Describes a sign-out that a client requests. Returns {displayName, redirectAllowed, ofSession}, or null for an
-- unknown client. ofSession is true if sid identifies one of the client's logins, and that login began in the given
-- session.
-- Definer: calls functions for logins, which are not granted to any role.
create or replace function private.read_openid_logout(
  client_id text, post_logout_redirect_uri text, sid uuid, session_id uuid
) returns jsonb
  language sql stable security definer set search_path = ''
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
  where a.id = private.openid_client_app(read_openid_logout.client_id)
$$;

-- Ends a person's login at an OpenID client. Returns false if the login has already ended or belongs to another person.
-- Definer: calls functions for logins, which are not granted to any role.
create or replace function private.end_openid_login(user_id uuid, sid uuid) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  perform private.lock_app_credentials(end_openid_login.user_id);
  update private.openid_grants g
  set revoked_at = now()
  where g.id = end_openid_login.sid and g.user_id = end_openid_login.user_id and g.revoked_at is null;
  return found;
end
$$;
