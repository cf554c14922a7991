-- Members may connect coding agents if they have manage_ai_keys, or if a member with manage_ai_keys approved their
-- request.

-- Returns whether a member's coding agents may have keys for a workspace.
create or replace function ai.may_connect_agents(member_id uuid, workspace uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (select from ai.agent_memberships(member_id, workspace))
$$;

-- Returns a member's membership in a workspace if the member's coding agents may have keys for it, so that a query can
-- join it. Called when a key is created and on each request with the key.
create or replace function ai.agent_memberships(member_id uuid, workspace uuid) returns setof public.workspace_members
  language sql stable security invoker
as $$
  select m.* from private.memberships_with_permission(member_id, workspace, 'manage_ai_keys') m
  union
  select m.*
  from private.memberships_with_permission(member_id, workspace, 'use_ai_studio') m
  join ai.agent_access a on a.workspace_id = m.workspace_id and a.user_id = m.user_id and a.state = 'approved'
$$;

-- Opens a member's request to connect coding agents, unless a request is already open or approved. Queues one email {
-- subject, text } for each of up to 20 members with manage_ai_keys, but at most once in 24 hours for the same
-- requester.
create or replace function ai.request_agent_access(member_id uuid, workspace uuid, tool text, host text, email jsonb)
  returns text
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  old_access ai.agent_access;
  is_emailed boolean;
begin
  -- The caller has locked the member's account, so the member's other calls wait.
  select * into old_access from ai.agent_access a where a.workspace_id = workspace and a.user_id = member_id;
  if old_access.state in ('open', 'approved') then
    return 'requested';
  end if;
  is_emailed := coalesce(old_access.emailed_at < now() - interval '24 hours', true);
  insert into ai.agent_access as a (workspace_id, user_id, tool, host, emailed_at)
  values (workspace, member_id, request_agent_access.tool, request_agent_access.host, now())
  on conflict (workspace_id, user_id) do update
  set
    state = 'open',
    tool = excluded.tool,
    host = excluded.host,
    requested_at = excluded.requested_at,
    answered_at = null,
    answered_by = null,
    emailed_at = case when is_emailed then excluded.emailed_at else a.emailed_at end;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select u.email, request_agent_access.email ->> 'subject', request_agent_access.email ->> 'text', now()
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id and (r.is_owner or 'manage_ai_keys' = any (r.permissions))
  join auth.users u on u.id = m.user_id
  where m.workspace_id = workspace and is_emailed and ai.can_be_emailed(u)
  order by m.user_id
  limit 20;
  return 'requested';
end
$$;

-- Returns the members of a workspace who have an open or approved request to connect coding agents, open requests
-- first. Requires manage_ai_keys. Returns { outcome: listed, members: [{ userId, name, state: open | approved, tool,
-- host, requestedAt, answeredAt }] } or { outcome: not_allowed }.
-- Definer: the service role cannot read a member's permissions.
create or replace function ai.list_agent_access(member_id uuid, workspace uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object('outcome', 'listed', 'members', coalesce((
    select jsonb_agg(
      jsonb_build_object(
        'userId', a.user_id,
        'name', p.display_name,
        'state', a.state,
        'tool', a.tool,
        'host', a.host,
        'requestedAt', a.requested_at,
        'answeredAt', a.answered_at
      )
      order by a.state <> 'open', a.requested_at, a.user_id
    )
    from ai.agent_access a
    join public.profiles p on p.id = a.user_id
    join public.workspace_members m on m.workspace_id = a.workspace_id and m.user_id = a.user_id
    where a.workspace_id = workspace and a.state in ('open', 'approved')
  ), '[]'));
end
$$;

-- Approves or declines the open request that a member made at requested_at, or withdraws an approval, which revokes the
-- keys of that member's agents. Outcomes: done, answered, not_allowed. answered: another manager answered first, or the
-- member has made a later request.
-- Definer: the service role can't update access requests.
create or replace function ai.answer_agent_access(
  member_id uuid, workspace uuid, requester_id uuid, requested_at timestamptz, answer text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  new_access ai.agent_access;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Locks the workspace first, because deleting an account locks its workspaces before these rows.
  perform from public.workspaces w where w.id = workspace for key share;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.agent_access a
  set
    state = case answer when 'approve' then 'approved' when 'decline' then 'declined' else 'withdrawn' end,
    answered_at = now(),
    answered_by = private.person_or_null(member_id)
  where a.workspace_id = workspace
    and a.user_id = requester_id
    and a.requested_at = answer_agent_access.requested_at
    and a.state = case when answer in ('approve', 'decline') then 'open' else 'approved' end
  returning * into new_access;
  if not found then
    return jsonb_build_object('outcome', 'answered');
  end if;
  perform private.log_workspace_change(
    workspace, 'agent_access.' || new_access.state, requester_id,
    (select p.display_name from public.profiles p where p.id = requester_id)
  );
  return jsonb_build_object('outcome', 'done');
end
$$;

-- Revokes the connections and keys of members who may no longer connect agents, for good: a member who gets the right
-- back connects again.
-- Definer: the roles that change members and their rights can't write connections.
create or replace function ai.end_unauthorized_connections() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace constant uuid := (to_jsonb(old) ->> 'workspace_id')::uuid;
  connection ai.agent_connections;
begin
  for connection in
    select *
    from ai.agent_connections c
    where c.workspace_id = workspace
      and c.revoked_at is null
      and (tg_table_name = 'workspace_roles' or c.user_id = (to_jsonb(old) ->> 'user_id')::uuid)
      and not ai.may_connect_agents(c.user_id, workspace)
    order by c.id
  loop
    perform ai.end_connection(connection.id, private.acting_user_id());
  end loop;
  return null;
end
$$;

create or replace trigger end_unauthorized_connections after update of state or delete on ai.agent_access
  for each row when (old.state = 'approved') execute function ai.end_unauthorized_connections();
create or replace trigger end_unauthorized_connections after update of role_id or delete on public.workspace_members
  for each row execute function ai.end_unauthorized_connections();
create or replace trigger end_unauthorized_connections after update of permissions on public.workspace_roles
  for each row when (not old.permissions <@ new.permissions) execute function ai.end_unauthorized_connections();
