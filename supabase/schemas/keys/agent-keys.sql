-- Creates, checks and revokes the keys of connected coding agents.

-- Returns whether the keys of connections work, as an object with the status of each connection's id: good, over,
-- mfa_required or unavailable. over: the connection was revoked, its login or MFA proof is no longer valid, or its
-- member has left or lost the permission. mfa_required and unavailable are described at private.proof_statuses.
create or replace function ai.agent_key_statuses(connection_ids uuid[]) returns jsonb
  language plpgsql stable security invoker
as $$
begin
  return (
    select jsonb_object_agg(i.id, coalesce(s.status, 'over'))
    from unnest(connection_ids) as i (id)
    left join lateral (
      select p.status
      from ai.agent_connections c
      cross join lateral ai.live_agent_logins(c.login_id) as l
      cross join lateral private.proof_statuses(l.proof) as p
      where c.id = i.id
        and c.revoked_at is null
        and exists (select from ai.agent_memberships(c.user_id, c.workspace_id))
      offset 0
    ) as s on true
    where i.id is not null
  );
end
$$;

-- Creates the next key of an agent connection. The key works for at most 8 hours and not longer than the connection's
-- login. The previous key works for at most 15 more minutes. Outcomes: issued (with expiresAt), revoked, not_allowed,
-- not_approved, too_many. too_many: the connection has 20 live keys, or the workspace has 200. Returns { refused } if
-- the login is refused (ai.find_agent_login) or the connection is not_found.
-- Definer: reads memberships and writes keys, but only for the token's user.
create or replace function private.issue_agent_key(
  token_hash bytea, workspace_id uuid, connection_id uuid, lookup text, secret_hash text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller record;
  connection ai.agent_connections;
  issue_permission text;
  previous ai.keys;
  new_key ai.keys;
begin
  select * into caller from ai.find_agent_login(token_hash);
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Locks the workspace before the new key refers to it, because deleting an account locks workspaces before keys.
  perform from public.workspaces w where w.id = issue_agent_key.workspace_id and w.deleted_at is null for key share;
  -- Locks the connection, so that a concurrent revocation either comes first or revokes this key too.
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
  issue_permission := ai.key_issue_permission(caller.user_id, connection.workspace_id, for_agent => true);
  if issue_permission <> 'allowed' then
    return jsonb_build_object('outcome', issue_permission);
  end if;
  select * into previous
  from ai.keys k
  where k.connection_id = connection.id and k.replaced_by is null;
  -- Also counts replaced keys that still work, so that a loop of renewals can't create keys without limit.
  if (select count(*) >= 20 from ai.keys k where k.connection_id = connection.id and k.expires_at > now())
    or (previous.id is null and ai.has_too_many_keys(connection.workspace_id)) then
    return jsonb_build_object('outcome', 'too_many');
  end if;
  new_key := ai.store_key(
    caller.user_id, connection.workspace_id,
    jsonb_build_object(
      'name', ai.agent_name(connection.tool) || ' on ' || connection.host,
      'expiresAt', least(now() + interval '8 hours', caller.ends_at)
    ),
    issue_agent_key.lookup, issue_agent_key.secret_hash, lineage => ai.connection_lineage(connection), connection_id => connection.id
  );
  -- Programs that have already read the old key can use it for another 15 minutes.
  update ai.keys k
  set replaced_by = new_key.id, expires_at = least(k.expires_at, now() + interval '15 minutes')
  where k.id = previous.id;
  return jsonb_build_object('outcome', 'issued', 'expiresAt', new_key.expires_at);
end
$$;

-- Revokes the keys of a connection that is deleted together with its member's account, or that moves to another login,
-- so that a key never outlives the login that it was issued for. Removes the name of the computer from the keys of a
-- deleted connection.
-- Definer: Supabase Auth deletes accounts and has no grant to change keys.
create or replace function ai.revoke_keys_of_connection() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  update ai.keys k
  set
    revoked_at = coalesce(k.revoked_at, now()),
    name = case when tg_op = 'DELETE' then ai.agent_name(old.tool) else k.name end
  where k.connection_id = old.id;
  return case tg_op when 'DELETE' then old else new end;
end
$$;

-- Without this trigger, deleting a connection would turn its keys into ordinary keys.
create or replace trigger revoke_keys_of_connection before delete on ai.agent_connections
  for each row execute function ai.revoke_keys_of_connection();

create or replace trigger revoke_keys_of_login before update of login_id on ai.agent_connections
  for each row when (old.login_id is distinct from new.login_id) execute function ai.revoke_keys_of_connection();
