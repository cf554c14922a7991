-- Connections of coding agents, which the `gatehouse` command creates (connect-agent.sql). A connection belongs to one
-- member's login and one workspace, and has short-lived keys.

-- Returns a coding agent's display name.
create or replace function ai.agent_name(tool text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case tool when 'claude' then 'Claude Code' when 'codex' then 'Codex' else 'opencode' end
$$;

-- Returns the member and the login to which an access token with the scope studio:keys belongs, or the reason for which
-- private.find_app_caller refuses the token.
create or replace function ai.find_agent_login(
  token_hash bytea, out refused text, out user_id uuid, out login_id uuid, out ends_at timestamptz
)
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'studio:keys');
begin
  refused := caller.refused;
  user_id := caller.user_id;
  select (l.login).id, (l.login).ends_at
  into login_id, ends_at
  from private.live_openid_token(find_agent_login.token_hash) l;
end
$$;

-- Returns the time at which a login ends, or null if the login has ended or may no longer have keys. Does not check the
-- login's MFA proof.
create or replace function ai.agent_login_end(login_id uuid) returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select l.ends_at from ai.live_agent_logins(login_id) l
$$;

-- Returns a login that has not ended and may have keys, as at most one row, so that a query can join it. Does not check
-- the login's MFA proof.
create or replace function ai.live_agent_logins(login_id uuid) returns setof private.openid_grants
  language sql stable security invoker
as $$
  select g.*
  from private.openid_grants g
  join private.apps a on a.id = g.app_id and a.enabled
  cross join lateral private.allowed_openid_scopes(a.id, g.scopes, null) as s
  where g.id = login_id
    and g.revoked_at is null
    and g.ends_at > now()
    and 'studio:keys' = any (s.scopes)
$$;

-- Revokes a connection and its keys, and ends its envelope. Returns false if the connection does not exist or was already revoked.
create or replace function ai.end_connection(connection_id uuid, actor uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  ended_connection ai.agent_connections;
  key ai.keys;
begin
  -- Locks in the same order as private.issue_agent_key: the workspace, the connection, its keys. The envelope comes last.
  perform
  from public.workspaces w
  where w.id = (select c.workspace_id from ai.agent_connections c where c.id = end_connection.connection_id)
  for key share;
  update ai.agent_connections c
  set revoked_at = now()
  where c.id = end_connection.connection_id and c.revoked_at is null
  returning * into ended_connection;
  if not found then
    return false;
  end if;
  update ai.keys k set revoked_at = now() where k.connection_id = ended_connection.id and k.revoked_at is null;
  perform ai.end_connection_envelope(ended_connection, actor);
  select * into key from ai.keys k where k.connection_id = ended_connection.id and k.replaced_by is null;
  if found then
    perform set_config('gatehouse.actor_id', coalesce(actor::text, ''), true);
    perform private.log_workspace_change(ended_connection.workspace_id, 'key.revoked', key.id, key.name);
  end if;
  return true;
end
$$;
