-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

drop function ai.key_issue_permission(uuid, uuid);

-- Definer: no role may call its parts.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens', 'openidLogins', 'openidCodes', 'deviceLogins', 'openidConsents', 'agentConnections', 'agentAccess'
    ]) as p (part)
  )
$$;

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if part = 'sessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      )
      from auth.sessions s
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'place', e.place, 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'approvals' then
    return query
      select jsonb_build_object(
        'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      )
      from private.login_challenges c
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'appHandoffs' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      )
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'appSessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
        'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
      )
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'appTokens' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      )
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'openidLogins' then
    return query
      select jsonb_build_object(
        'id', g.id, 'app', a.name, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
        'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
        'revokedAt', g.revoked_at
      )
      from private.openid_grants g join private.apps a on a.id = g.app_id
      where g.user_id = subject_id and (g.created_at, g.id) > (last_at, last_id)
      order by g.created_at, g.id
      limit page_size;
  elsif part = 'openidCodes' then
    return query
      select jsonb_build_object(
        'id', c.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.created_at, 'redeemedAt', c.redeemed_at,
        'revokedAt', c.revoked_at
      )
      from private.authorization_codes c join private.apps a on a.id = c.app_id
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'deviceLogins' then
    return query
      select jsonb_build_object(
        'id', d.id, 'app', a.name, 'scopes', d.scopes, 'ip', host(d.ip), 'userAgent', d.user_agent, 'place', d.place,
        'createdAt', d.created_at, 'approvedAt', d.approved_at, 'deniedAt', d.denied_at, 'redeemedAt', d.redeemed_at
      )
      from private.device_authorizations d join private.apps a on a.id = d.app_id
      where d.user_id = subject_id and (d.created_at, d.id) > (last_at, last_id)
      order by d.created_at, d.id
      limit page_size;
  elsif part = 'openidConsents' then
    return query
      select jsonb_build_object('id', a.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.granted_at)
      from private.openid_consents c join private.apps a on a.id = c.app_id
      where c.user_id = subject_id and (c.granted_at, a.id) > (last_at, last_id)
      order by c.granted_at, a.id
      limit page_size;
  elsif part = 'agentConnections' then
    return query
      select jsonb_build_object(
        'id', c.id, 'workspaceId', c.workspace_id, 'tool', c.tool, 'host', c.host, 'createdAt', c.created_at,
        'revokedAt', c.revoked_at
      )
      from ai.agent_connections c
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'agentAccess' then
    return query
      select jsonb_build_object(
        'id', a.workspace_id, 'state', a.state, 'tool', a.tool, 'host', a.host, 'createdAt', a.requested_at,
        'answeredAt', a.answered_at
      )
      from ai.agent_access a
      where a.user_id = subject_id and (a.requested_at, a.workspace_id) > (last_at, last_id)
      order by a.requested_at, a.workspace_id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

create or replace function ai.key_caller(secret_hash bytea, address inet) returns ai.caller
  language plpgsql
  stable
  security invoker
as $$
declare
  key ai.keys;
  plan_id text;
  plan ai.plans;
  policy ai.workspace_policies;
  is_member boolean;
  app private.apps;
  scopes text[];
  refused text;
  agent_status text;
begin
  -- One row of one table by its key each: a join of them takes longer to start than all of these to run.
  select k.* into key
  from ai.keys k
  where k.secret_hash = key_caller.secret_hash
    and k.revoked_at is null
    and (k.expires_at is null or k.expires_at > now());
  if not found then
    return null;
  end if;
  select s.plan_id into plan_id from public.workspaces s where s.id = key.workspace_id and s.deleted_at is null;
  if not found then
    return null;
  end if;
  if key.connection_id is not null then
    agent_status := ai.agent_key_status(key.connection_id);
    if agent_status = 'over' then
      return null;
    end if;
    refused := case agent_status when 'mfa_required' then 'MFA_REQUIRED' when 'unavailable' then 'AUTH_UNAVAILABLE' end;
  end if;
  select p.* into plan from ai.plans p where p.id = plan_id;
  select w.* into policy from ai.workspace_policies w where w.workspace_id = key.workspace_id;
  if plan.payer = 'member' then
    perform from public.workspace_members m where m.workspace_id = key.workspace_id and m.user_id = key.created_by;
    is_member := found;
  end if;
  -- Without an address, a key with an address list is refused.
  if key.allowed_addresses is not null and not coalesce(address <<= any (key.allowed_addresses), false) then
    refused := coalesce(refused, 'insufficient_scope');
  end if;
  if key.external_app_id is not null then
    select a.* into app from private.apps a where a.id = key.external_app_id;
    scopes := private.gateway_scopes(app);
    refused := coalesce(refused, private.gateway_refusal(app, key.workspace_id, scopes));
  end if;
  return row(
    'key', refused, key.id, key.lineage_id, key.workspace_id, key.created_by, key.external_app_id, scopes,
    key.allowed_models, key.requests_per_minute, key.tokens_per_minute, key.last_used_at,
    plan.id, plan.payer, plan.markup, plan.initial_credits,
    least(plan.requests_per_minute, policy.requests_per_minute), least(plan.tokens_per_minute, policy.tokens_per_minute),
    policy.allowed_models, policy.denied_models, coalesce(policy.provider_cost_visible, true),
    coalesce(policy.content_capture, false), is_member, null, key.entity_id, key.name, key.is_strict
  )::ai.caller;
end
$$;

create or replace function private.openid_scopes(app_id uuid, requested text[]) returns text[]
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select array(
    select unnest(requested)
    intersect
    select unnest(
      array['openid', 'offline_access']
      || case when 'profile' = any (a.scopes) then array['profile', 'email'] else '{}' end
      || array(select unnest(a.scopes) intersect select unnest(array['workspaces:read', 'workspaces:write', 'studio:read', 'studio:keys']))
    )
    from private.apps a
    where a.id = openid_scopes.app_id
    order by 1
  )
$$;

create or replace function ai.may_connect_agents(member_id uuid, workspace uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    or (
      private.user_has_workspace_permission(member_id, workspace, 'use_ai_studio')
      and exists (
        select from ai.agent_access a
        where a.workspace_id = workspace and a.user_id = member_id and a.state = 'approved'
      )
    )
$$;

create or replace function ai.request_agent_access(member_id uuid, workspace uuid, tool text, host text, email jsonb)
  returns text
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  known ai.agent_access;
  is_emailed boolean;
begin
  -- The caller has locked the member's account, so the member's other calls wait.
  select * into known from ai.agent_access a where a.workspace_id = workspace and a.user_id = member_id;
  if known.state in ('open', 'approved') then
    return 'requested';
  end if;
  is_emailed := coalesce(known.emailed_at < now() - interval '24 hours', true);
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

-- Definer: the service role cannot read a member's permissions.
create or replace function ai.list_agent_access(member_id uuid, workspace uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
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

-- Definer: the service role writes no answers.
create or replace function ai.answer_agent_access(
  member_id uuid, workspace uuid, requester_id uuid, requested_at timestamptz, answer text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  answered ai.agent_access;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Deleting an account locks its workspaces before these rows.
  perform from public.workspaces w where w.id = workspace for key share;
  update ai.agent_access a
  set
    state = case answer when 'approve' then 'approved' when 'decline' then 'declined' else 'withdrawn' end,
    answered_at = now(),
    answered_by = member_id
  where a.workspace_id = workspace
    and a.user_id = requester_id
    and a.requested_at = answer_agent_access.requested_at
    and a.state = case when answer in ('approve', 'decline') then 'open' else 'approved' end
  returning * into answered;
  if not found then
    return jsonb_build_object('outcome', 'answered');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  perform private.log_workspace_change(
    workspace, 'agent_access.' || answered.state, requester_id,
    (select p.display_name from public.profiles p where p.id = requester_id)
  );
  return jsonb_build_object('outcome', 'done');
end
$$;

create or replace function ai.agent_name(tool text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select case tool when 'claude' then 'Claude Code' when 'codex' then 'Codex' else 'opencode' end
$$;

create or replace function ai.find_agent_login(
  token_hash bytea, out refused text, out user_id uuid, out login_id uuid, out ends_at timestamptz
)
  language plpgsql
  stable
  security invoker
  set search_path = ''
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

create or replace function ai.describe_connection(connection ai.agent_connections) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (connection).id,
    'tool', (connection).tool,
    'host', (connection).host,
    'createdAt', (connection).created_at,
    'state', case when (connection).revoked_at is null then 'connected' else 'revoked' end,
    'keyExpiresAt', (
      select max(k.expires_at) from ai.keys k where k.connection_id = (connection).id and k.revoked_at is null
    )
  )
$$;

-- Definer: reads memberships and writes connections for the token's user alone.
create or replace function private.list_agents(token_hash bytea, workspace_id uuid) returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
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

-- Definer: as private.list_agents.
create or replace function private.connect_agent(
  token_hash bytea, workspace_id uuid, tool text, host text, email jsonb
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Serializes a member's calls: of two, the second finds the connection of the first.
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
  -- The next login of the same member, agent and host continues the connection of one that has ended.
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
  end if;
  return jsonb_build_object('state', 'connected', 'connection', ai.describe_connection(connection));
end
$$;

-- Definer: as private.list_agents.
create or replace function private.disconnect_agent(token_hash bytea, workspace_id uuid, connection_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
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

create or replace function ai.agent_login_end(login_id uuid) returns timestamptz
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select g.ends_at
  from private.openid_grants g
  join private.apps a on a.id = g.app_id and a.enabled
  where g.id = login_id
    and g.revoked_at is null
    and g.ends_at > now()
    and 'studio:keys' = any (private.openid_scopes(a.id, g.scopes))
$$;

create or replace function ai.agent_key_status(connection_id uuid) returns text
  language plpgsql
  stable
  security invoker
  set search_path = ''
as $$
declare
  connection ai.agent_connections;
begin
  select * into connection from ai.agent_connections c where c.id = agent_key_status.connection_id and c.revoked_at is null;
  if not found
    or ai.agent_login_end(connection.login_id) is null
    or not ai.may_connect_agents(connection.user_id, connection.workspace_id) then
    return 'over';
  end if;
  return private.proof_status((select g.proof from private.openid_grants g where g.id = connection.login_id));
end
$$;

-- Definer: as private.list_agents.
create or replace function private.issue_agent_key(
  token_hash bytea, workspace_id uuid, connection_id uuid, lookup text, secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  verdict text;
  previous ai.keys;
  made ai.keys;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- The key will refer to the workspace, and an account's deletion locks that before its keys.
  perform from public.workspaces w where w.id = issue_agent_key.workspace_id and w.deleted_at is null for key share;
  -- A revocation waits for this key and revokes it, or is waited for.
  select * into connection
  from ai.agent_connections c
  where c.id = issue_agent_key.connection_id
    and c.workspace_id = issue_agent_key.workspace_id
    and c.login_id = caller.login_id
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if connection.revoked_at is not null then
    return jsonb_build_object('outcome', 'revoked');
  end if;
  verdict := ai.key_issue_permission(caller.user_id, connection.workspace_id, for_agent => true);
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  select * into previous
  from ai.keys k
  where k.connection_id = connection.id and k.replaced_by is null;
  -- Keys that were replaced a moment ago still work, so a loop of renewals stops here.
  if (select count(*) >= 20 from ai.keys k where k.connection_id = connection.id and k.expires_at > now())
    or (previous.id is null and ai.has_too_many_keys(connection.workspace_id)) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  made := ai.store_key(
    caller.user_id, connection.workspace_id,
    jsonb_build_object(
      'name', ai.agent_name(connection.tool) || ' on ' || connection.host,
      'expiresAt', least(now() + interval '8 hours', caller.ends_at)
    ),
    issue_agent_key.lookup, issue_agent_key.secret_hash, lineage => previous.lineage_id, connection_id => connection.id
  );
  -- Programs that read the old key a moment ago finish with it.
  update ai.keys k
  set replaced_by = made.id, expires_at = least(k.expires_at, now() + interval '15 minutes')
  where k.id = previous.id;
  return jsonb_build_object('outcome', 'issued', 'expiresAt', made.expires_at);
end
$$;

create or replace function ai.end_connection(connection_id uuid, actor uuid) returns boolean
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  ended ai.agent_connections;
  key ai.keys;
begin
  -- As in private.issue_agent_key: the workspace, the connection, its keys.
  perform
  from public.workspaces w
  where w.id = (select c.workspace_id from ai.agent_connections c where c.id = end_connection.connection_id)
  for key share;
  update ai.agent_connections c
  set revoked_at = now()
  where c.id = end_connection.connection_id and c.revoked_at is null
  returning * into ended;
  if not found then
    return false;
  end if;
  update ai.keys k set revoked_at = now() where k.connection_id = ended.id and k.revoked_at is null;
  select * into key from ai.keys k where k.connection_id = ended.id and k.replaced_by is null;
  if found then
    perform set_config('gatehouse.actor_id', actor::text, true);
    perform private.log_workspace_change(ended.workspace_id, 'key.revoked', key.id, key.name);
  end if;
  -- A manager's revocation also ends what a request was approved for; members disconnect their own agents freely.
  update ai.agent_access a
  set state = 'withdrawn', answered_at = now(), answered_by = actor
  where a.workspace_id = ended.workspace_id
    and a.user_id = ended.user_id
    and a.state = 'approved'
    and actor <> ended.user_id;
  return true;
end
$$;

-- Definer: the identity backend deletes accounts, and holds no grant here.
create or replace function ai.revoke_keys_of_connection() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  update ai.keys k
  set revoked_at = coalesce(k.revoked_at, now()), name = ai.agent_name(old.tool)
  where k.connection_id = old.id;
  return old;
end
$$;

create or replace trigger revoke_keys_of_connection before delete on ai.agent_connections
  for each row execute function ai.revoke_keys_of_connection();

create or replace function ai.store_key(
  member_id uuid,
  workspace uuid,
  key jsonb,
  lookup text,
  secret_hash text,
  lineage uuid default null,
  connection_id uuid default null
) returns ai.keys
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  made ai.keys;
begin
  insert into ai.keys (
    id, lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id, connection_id
  )
  select
    id, coalesce(lineage, id), workspace, member_id, key ->> 'name', coalesce(key ->> 'environment', 'production'),
    store_key.lookup, decode(store_key.secret_hash, 'hex'), (key ->> 'externalAppId')::uuid,
    ai.text_list(key -> 'allowedModels'), ai.text_list(key -> 'allowedAddresses')::cidr[],
    (key ->> 'requestsPerMinute')::integer, (key ->> 'tokensPerMinute')::bigint, (key ->> 'expiresAt')::timestamptz,
    coalesce((key ->> 'strict')::boolean, false), key ->> 'entityId', store_key.connection_id
  from (select gen_random_uuid() as id) as made_id
  returning * into made;
  if key ->> 'monthlyBudgetUsd' is not null then
    insert into ai.budgets (scope, subject_id, workspace_id, limit_usd)
    values ('key', made.lineage_id, workspace, (key ->> 'monthlyBudgetUsd')::numeric);
  end if;
  if lineage is null then
    perform set_config('gatehouse.actor_id', member_id::text, true);
    perform private.log_workspace_change(workspace, 'key.created', made.id, made.name);
  end if;
  return made;
end
$$;

create or replace function ai.has_too_many_keys(workspace uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*) >= 200
  from ai.keys k
  where k.workspace_id = workspace and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())
$$;

create or replace function ai.key_issue_permission(member_id uuid, workspace uuid, for_agent boolean default false)
  returns text
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys')
    and not (for_agent and ai.may_connect_agents(member_id, workspace)) then
    return 'not_allowed';
  end if;
  -- Held until the key is stored: an approval taken away at the same moment comes before or after it, not between.
  perform from ai.key_approvals a where a.workspace_id = workspace for key share;
  return case when found then 'allowed' else 'not_approved' end;
end
$$;

create or replace function ai.agent_of_key(key ai.keys) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object('tool', c.tool, 'host', c.host, 'endsAt', ai.agent_login_end(c.login_id))
  from ai.agent_connections c
  where c.id = (key).connection_id
$$;

-- Definer: asks what a member may do, which the service role cannot ask by itself.
create or replace function ai.list_keys(member_id uuid, workspace uuid, before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return jsonb_build_object(
    'outcome', 'listed',
    'approval', (
      select jsonb_build_object('approvedAt', a.approved_at) from ai.key_approvals a where a.workspace_id = workspace
    ),
    'keys', ai.key_summaries(workspace, array(
      select k
      from ai.keys k
      where k.workspace_id = workspace
        -- Of a coding agent's keys the latest stands for its connection.
        and (k.connection_id is null or k.replaced_by is null)
        and (k.created_at, k.id) < (
          coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
          coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
        )
      order by k.created_at desc, k.id desc
      limit page_size
    ))
  );
end
$$;

-- Definer: the service role writes no keys, so that none is made past these checks.
create or replace function ai.issue_key(member_id uuid, workspace uuid, key jsonb, lookup text, secret_hash text) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  app uuid := (key ->> 'externalAppId')::uuid;
  unknown text[] := ai.unknown_models(ai.text_list(key -> 'allowedModels'));
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  if unknown is not null then
    return jsonb_build_object('outcome', 'unknown_models', 'param', 'allowedModels', 'models', unknown);
  end if;
  if app is not null and not ai.app_can_act_in_workspace(app, workspace) then
    return jsonb_build_object('outcome', 'app_not_linked');
  end if;
  if ai.has_too_many_keys(workspace) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  made := ai.store_key(member_id, workspace, key, issue_key.lookup, issue_key.secret_hash);
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summary(made, 0));
end
$$;

-- Definer: as ai.issue_key.
create or replace function ai.rotate_key(
  member_id uuid,
  workspace uuid,
  key_id uuid,
  overlap_seconds integer,
  lookup text,
  secret_hash text
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  verdict text := ai.key_issue_permission(member_id, workspace);
  old ai.keys;
  made ai.keys;
begin
  if verdict <> 'allowed' then
    return jsonb_build_object('outcome', verdict);
  end if;
  -- The new key will refer to the workspace, and an account's deletion locks that before its keys.
  perform from public.workspaces w where w.id = workspace for key share;
  -- One rotation of a key at a time; the second finds it replaced.
  select * into old from ai.keys k where k.id = rotate_key.key_id and k.workspace_id = workspace for update;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if old.connection_id is not null then
    return jsonb_build_object('outcome', 'agent_key');
  end if;
  if old.replaced_by is not null or old.revoked_at is not null or old.expires_at <= now() then
    return jsonb_build_object('outcome', 'not_active');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  insert into ai.keys (
    lineage_id, workspace_id, created_by, name, environment, lookup, secret_hash, external_app_id, allowed_models,
    allowed_addresses, requests_per_minute, tokens_per_minute, expires_at, is_strict, entity_id
  )
  values (
    old.lineage_id, workspace,
    -- In a free workspace a key is paid by its creator, and stops once they have left.
    case when private.is_workspace_member(old.created_by, workspace) then old.created_by else member_id end,
    old.name, old.environment, rotate_key.lookup,
    decode(rotate_key.secret_hash, 'hex'), old.external_app_id, old.allowed_models, old.allowed_addresses,
    old.requests_per_minute, old.tokens_per_minute, old.expires_at, old.is_strict, old.entity_id
  )
  returning * into made;
  update ai.keys k
  set
    replaced_by = made.id,
    revoked_at = case when overlap_seconds = 0 then now() end,
    expires_at = case when overlap_seconds = 0 then k.expires_at
      else least(k.expires_at, now() + make_interval(secs => overlap_seconds)) end
  where k.id = old.id;
  perform private.log_workspace_change(
    workspace, 'key.rotated', made.id, made.name, jsonb_build_object('overlapSeconds', overlap_seconds)
  );
  return jsonb_build_object('outcome', 'issued', 'key', ai.key_summaries(workspace, array[made]) -> 0);
end
$$;

-- Definer: as ai.issue_key.
create or replace function ai.revoke_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  ended ai.keys;
  agent uuid;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select k.connection_id into agent from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  if agent is not null then
    perform ai.end_connection(agent, member_id);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.keys k set revoked_at = now()
  where k.id = revoke_key.key_id and k.workspace_id = workspace and k.revoked_at is null
  returning * into ended;
  if found then
    perform private.log_workspace_change(workspace, 'key.revoked', ended.id, ended.name);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  return jsonb_build_object('outcome', case when found then 'revoked' else 'not_found' end);
end
$$;

create or replace function ai.key_summary(key ai.keys, month_usd numeric) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', (key).id,
    'name', (key).name,
    'prefix', 'ttr_ai_' || (key).lookup,
    'environment', (key).environment,
    'createdAt', (key).created_at,
    'createdBy', (select p.display_name from public.profiles p where p.id = (key).created_by),
    'lastUsedAt', (key).last_used_at,
    'expiresAt', (key).expires_at,
    'revokedAt', (key).revoked_at,
    'replacedBy', (key).replaced_by,
    'state', case
      when (key).revoked_at is not null then 'revoked'
      when (key).connection_id is not null
        then case when ai.agent_of_key(key) ->> 'endsAt' is null then 'expired' else 'active' end
      when (key).expires_at <= now() then 'expired'
      when (key).replaced_by is not null then 'replaced'
      else 'active'
    end,
    'allowedModels', to_jsonb((key).allowed_models),
    'allowedAddresses', to_jsonb((key).allowed_addresses),
    'strict', (key).is_strict,
    'entityId', (key).entity_id,
    'requestsPerMinute', (key).requests_per_minute,
    'tokensPerMinute', (key).tokens_per_minute,
    'spentThisMonthUsd', case when ai.cost_visible((key).workspace_id) then trim_scale(coalesce(month_usd, 0))::text end,
    'agent', ai.agent_of_key(key),
    'externalApp', (
      select jsonb_build_object('id', a.id, 'name', a.display_name, 'enabled', a.enabled)
      from private.apps a where a.id = (key).external_app_id
    ),
    'budget', (
      select jsonb_build_object(
        'limitUsd', trim_scale(b.limit_usd)::text,
        'spentUsd', case
          when not ai.cost_visible(b.workspace_id) then null
          when b.period_start = date_trunc('month', now() at time zone 'UTC')::date then trim_scale(b.spent_usd)::text
          else '0'
        end
      )
      from ai.budgets b
      where b.scope = 'key' and b.subject_id = (key).lineage_id and b.workspace_id = (key).workspace_id
        and b.limit_usd is not null
    )
  )
$$;

comment on function ai.key_caller(bytea, inet) is
  'Returns whose key it is by the SHA-256 of its text, and its limits; nulls when it is unknown, revoked, expired, of a '
  'deleted workspace, or of a coding agent whose connection or login has ended. A key that is bound to an app has the gateway scopes of the app''s registration. Nearly every call '
  'asks it.';

comment on function ai.revoke_key(uuid, uuid, uuid) is
  'Revokes a key, or the connection of the coding agent that it is for. Idempotent. Needs manage_ai_keys and no approval. '
  'Outcomes: revoked, not_allowed, not_found.';

comment on function ai.rotate_key(uuid, uuid, uuid, integer, text, text) is
  'Puts a new key in another''s place with every limit, binding and spent amount, which belong to the lineage; the old '
  'one lives on for the overlap. Outcomes: issued (with key), not_allowed, not_approved, not_found, not_active, agent_key '
  '(a coding agent renews it).';

comment on function ai.agent_key_status(uuid) is
  'Whether the keys of a connection work: good; over (revoked, login ended, member left or lost the right); mfa_required or '
  'unavailable as private.proof_status.';

comment on function ai.agent_login_end(uuid) is
  'Returns when a login''s right to keys ends; null if it has ended. Does not check the login''s proof.';

comment on function ai.agent_name(text) is 'Returns the name of a coding agent for people.';

comment on function ai.agent_of_key(ai.keys) is
  'Returns the coding agent that renews a key: { tool, host, endsAt }, where endsAt is when its login ends and null once it '
  'has ended; null for other keys.';

comment on function ai.answer_agent_access(uuid, uuid, uuid, timestamptz, text) is
  'Answers the open request that a member made at a time (approve or decline), or withdraws its approval (withdraw), which '
  'ends the keys of that member''s agents. Outcomes: done, answered (somebody else was faster, or a later request replaced '
  'it), not_allowed.';

comment on function ai.describe_connection(ai.agent_connections) is
  'Returns a connection as its member reads it: { id, tool, host, createdAt, state: connected | revoked, keyExpiresAt }.';

comment on function ai.end_connection(uuid, uuid) is
  'Revokes a connection with its keys. Somebody else than its member also withdraws the member''s approval. False if it was '
  'revoked before.';

comment on function ai.find_agent_login(bytea) is
  'Returns the member and the login behind an access token with the scope studio:keys; refused as private.find_app_caller.';

comment on function ai.has_too_many_keys(uuid) is 'Whether a workspace has 200 live keys, and gets no further one.';

comment on function ai.key_issue_permission(uuid, uuid, boolean) is
  'allowed, not_allowed (no manage_ai_keys, nor for_agent an approved request) or not_approved (no standing approval of a '
  'platform admin).';

comment on function ai.list_agent_access(uuid, uuid) is
  'Returns the members of a workspace who request to connect coding agents or were approved, for a member with '
  'manage_ai_keys: { outcome: listed, members: [{ userId, name, state: open | approved, tool, host, requestedAt, '
  'answeredAt }] } with open requests first, or { outcome: not_allowed }.';

comment on function ai.may_connect_agents(uuid, uuid) is
  'Whether a member''s coding agents get keys for a workspace. Checked when a key is made and at each of its calls.';

comment on function ai.request_agent_access(uuid, uuid, text, text, jsonb) is
  'Opens a member''s request, unless it is open already, and queues one email { subject, text } for each of up to 20 key '
  'managers. A request that is repeated within 24 hours sends none.';

comment on function ai.revoke_keys_of_connection() is
  'Revokes the keys of a connection that is deleted with its member''s account, and takes the computer''s name off them.';

comment on function ai.store_key(uuid, uuid, jsonb, text, text, uuid, uuid) is
  'Stores a new key that ai.key_issue_permission allows, and logs it unless it continues a lineage. connection_id is the '
  'coding agent that it is for.';

comment on function private.connect_agent(bytea, uuid, text, text, jsonb) is
  'Connects a coding agent to a workspace once, { state: connected, connection }, or opens the member''s request for it '
  'with an email to key managers, { state: requested }. Or { refused: … | not_found | forbidden (no use_ai_studio) }.';

comment on function private.disconnect_agent(bytea, uuid, uuid) is
  'Revokes a connection of the token''s login with its keys: {}, or { refused: … | not_found }. Idempotent.';

comment on function private.issue_agent_key(bytea, uuid, uuid, text, text) is
  'Makes the next key of a connection, for 8 hours or until its login ends. The previous key works for 15 more minutes. '
  'Outcomes: issued (with expiresAt), revoked, not_allowed, not_approved, too_many (20 live keys of the connection, or 200 of '
  'the workspace). Or { refused: … | not_found }.';

comment on function private.list_agents(bytea, uuid) is
  'Returns the connections of a login in a workspace, and whether its member may make more: { access: approved | open | '
  'declined | withdrawn | none, connections }, or { refused: … | not_found }.';

comment on trigger revoke_keys_of_connection on ai.agent_connections is
  'Without its connection, a key of an agent would be an ordinary one.';

grant execute on function ai.answer_agent_access(uuid, uuid, uuid, timestamp with time zone, text) to service_role;

grant execute on function ai.list_agent_access(uuid, uuid) to service_role;

grant execute on function private.connect_agent(bytea, uuid, text, text, jsonb) to service_role;

grant execute on function private.disconnect_agent(bytea, uuid, uuid) to service_role;

grant execute on function private.issue_agent_key(bytea, uuid, uuid, text, text) to service_role;

grant execute on function private.list_agents(bytea, uuid) to service_role;
