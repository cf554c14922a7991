-- What the `gatehouse` command calls to list, connect and disconnect coding agents.

-- Returns a connection's details for its member: { id, tool, host, createdAt, state: connected | revoked, keyExpiresAt,
-- envelope }.
create or replace function ai.describe_connection(connection ai.agent_connections) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', (connection).id,
    'tool', (connection).tool,
    'host', (connection).host,
    'createdAt', (connection).created_at,
    'state', case when (connection).revoked_at is null then 'connected' else 'revoked' end,
    'keyExpiresAt', (
      select max(k.expires_at) from ai.keys k where k.connection_id = (connection).id and k.revoked_at is null
    ),
    'envelope', ai.describe_agent_envelope(
      ai.lineage_envelope(ai.connection_lineage(connection), (connection).workspace_id)
    )
  )
$$;

-- Returns a login's connections in a workspace, and whether the user of the login may create more. Returns { access:
-- approved | open | declined | withdrawn | none, connections } or { refused: … | not_found }.
-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.list_agents(token_hash bytea, workspace_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller record;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  if not exists (select from private.user_workspaces(caller.user_id) w where w.id = list_agents.workspace_id) then
    return jsonb_build_object('refused', 'not_found');
  end if;
  return jsonb_build_object(
    'access', case
      when private.user_has_workspace_permission(caller.user_id, list_agents.workspace_id, 'manage_ai_keys') then 'approved'
      else coalesce(
        (
          select a.state from ai.agent_access a
          where a.workspace_id = list_agents.workspace_id and a.user_id = caller.user_id
        ),
        'none'
      )
    end,
    'connections', coalesce((
      select jsonb_agg(ai.describe_connection(c) order by c.created_at, c.id)
      from ai.agent_connections c
      where c.login_id = caller.login_id and c.workspace_id = list_agents.workspace_id
    ), '[]')
  );
end
$$;

-- Connects a coding agent to a workspace. Returns { state: connected, connection }; a repeated call returns the same
-- connection. If the member needs an approval, opens a request, queues emails to members with manage_ai_keys, and
-- returns { state: requested }. With an envelope, { usd, calls? }, limits the connection, or returns { state:
-- limit_refused, limit } (ai.limit_connection). Refusals are { refused: … | not_found | forbidden }. forbidden: the
-- member lacks use_ai_studio.
-- Definer: reads memberships and writes connections, but only for the token's user.
create or replace function private.connect_agent(
  token_hash bytea, workspace_id uuid, tool text, host text, email jsonb, envelope jsonb default null
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  refused_limit jsonb;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Serializes a member's calls, so that a second call finds the connection of the first.
  perform private.lock_app_credentials(caller.user_id);
  perform
  from private.user_workspaces(caller.user_id) u
  join public.workspaces w on w.id = u.id
  where w.id = connect_agent.workspace_id
  for key share of w;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if not ai.may_connect_agents(caller.user_id, connect_agent.workspace_id) then
    if not private.user_has_workspace_permission(caller.user_id, connect_agent.workspace_id, 'use_ai_studio') then
      return jsonb_build_object('refused', 'forbidden');
    end if;
    return jsonb_build_object('state', ai.request_agent_access(
      caller.user_id, connect_agent.workspace_id, connect_agent.tool, connect_agent.host, connect_agent.email
    ));
  end if;
  -- A new login of the same member, agent and host continues the connection of a login that has ended.
  update ai.agent_connections c
  set login_id = caller.login_id
  where c.id = (
    select o.id
    from ai.agent_connections o
    where o.workspace_id = connect_agent.workspace_id
      and o.user_id = caller.user_id
      and o.tool = connect_agent.tool
      and o.revoked_at is null
      and (o.login_id = caller.login_id or (o.host = connect_agent.host and ai.agent_login_end(o.login_id) is null))
    order by o.login_id is not distinct from caller.login_id desc, o.created_at desc
    limit 1
  )
  returning * into connection;
  if not found then
    insert into ai.agent_connections as c (workspace_id, user_id, login_id, tool, host)
    values (
      connect_agent.workspace_id, caller.user_id, caller.login_id, connect_agent.tool, connect_agent.host
    )
    returning c.* into connection;
    perform private.add_account_event(
      caller.user_id, 'agent_connected',
      details => jsonb_build_object('agent', ai.agent_name(connection.tool) || ' on ' || connection.host)
    );
  end if;
  if envelope is not null then
    refused_limit := ai.limit_connection(connection, envelope);
    if refused_limit is not null then
      return jsonb_build_object('state', 'limit_refused', 'limit', refused_limit);
    end if;
  end if;
  return jsonb_build_object('state', 'connected', 'connection', ai.describe_connection(connection));
end
$$;

-- Revokes a connection that was made with the token's login, and the connection's keys. Returns {}, also if the
-- connection was already revoked, or { refused }. refused is not_found, or comes from ai.find_agent_login.
-- Definer: reads memberships and connections, but only for the token's user.
create or replace function private.disconnect_agent(token_hash bytea, workspace_id uuid, connection_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  perform
  from ai.agent_connections c
  where c.id = disconnect_agent.connection_id
    and c.workspace_id = disconnect_agent.workspace_id
    and c.login_id = caller.login_id;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform ai.end_connection(disconnect_agent.connection_id, caller.user_id);
  return '{}';
end
$$;
