-- Functions for what an app session may read and change. Each function derives the user, app, scopes and MFA state from
-- the token's hash, so callers can't choose the actor. Destructive changes require a full session instead.

-- Returns {workspaces: […]} or {refused}. The list is a page of the workspaces of the session's user, in the format of
-- public.list_workspaces. If page_size is null, the list contains all of them.
-- Definer: safe because it reads only the memberships of the credential's user.
create or replace function private.list_workspaces_by_app_session(
  token_hash bytea, after text[] default null, page_size integer default null
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'workspaces:read');
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  return jsonb_build_object('workspaces', coalesce((
    select jsonb_agg(p.workspace order by p.shared, p.name, p.id)
    from (
      select w.*, k.*
      from private.user_workspaces(caller.user_id) w
      cross join lateral (
        select not (w.workspace ->> 'personal')::boolean as shared, w.workspace ->> 'name' as name
      ) k
      where after is null or (k.shared, k.name, w.id) > (not after[1]::boolean, after[2], after[3]::uuid)
      order by k.shared, k.name, w.id
      limit page_size
    ) p
  ), '[]'));
end
$$;

-- Returns {workspace} or {refused}. refused is not_found if the session's user is not a member of the workspace;
-- otherwise it comes from private.find_app_caller.
-- Definer: see list_workspaces_by_app_session.
create or replace function private.read_workspace_by_app_session(token_hash bytea, workspace_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'workspaces:read');
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  return coalesce(
    (
      select jsonb_build_object('workspace', w.workspace)
      from private.user_workspaces(caller.user_id) w
      where w.id = read_workspace_by_app_session.workspace_id
    ),
    jsonb_build_object('refused', 'not_found')
  );
end
$$;

-- Checks whether private.rename_workspace_by_app_session would be refused, before the new name is known. Returns {} or
-- {refused}.
-- Definer: see list_workspaces_by_app_session.
create or replace function private.can_rename_by_app_session(token_hash bytea, workspace_id uuid) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  caller private.app_caller := private.find_renaming_caller(token_hash, can_rename_by_app_session.workspace_id);
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  return '{}';
end
$$;

-- Renames a workspace if the session's user may manage its settings. Returns {workspace} with the new name, or
-- {refused}. refused is not_found, forbidden, or comes from private.find_app_caller.
-- Definer: see list_workspaces_by_app_session.
create or replace function private.rename_workspace_by_app_session(token_hash bytea, workspace_id uuid, name text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  caller private.app_caller := private.find_renaming_caller(token_hash, rename_workspace_by_app_session.workspace_id);
begin
  if caller.refused is not null then
    return jsonb_build_object('refused', caller.refused);
  end if;
  -- Sets the actor for the workspace's audit log, because auth.uid() does not return the app session's user.
  perform set_config('gatehouse.actor_id', caller.user_id::text, true);
  update public.workspaces w
  set name = rename_workspace_by_app_session.name
  where w.id = rename_workspace_by_app_session.workspace_id and w.deleted_at is null;
  return coalesce(
    (
      select jsonb_build_object('workspace', w.workspace)
      from private.user_workspaces(caller.user_id) w
      where w.id = rename_workspace_by_app_session.workspace_id
    ),
    jsonb_build_object('refused', 'not_found')
  );
end
$$;

-- Returns the caller as private.find_app_caller does, and also checks that the caller may rename the workspace. The
-- field refused may also be not_found or forbidden. For definers; not granted to any role.
create or replace function private.find_renaming_caller(token_hash bytea, workspace_id uuid) returns private.app_caller
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  caller private.app_caller := private.find_app_caller(token_hash, 'workspaces:write');
begin
  if caller.refused is null then
    caller.refused := case
      when not exists (
        select from private.user_workspaces(caller.user_id) w where w.id = find_renaming_caller.workspace_id
      ) then 'not_found'
      when not private.user_has_workspace_permission(
        caller.user_id, find_renaming_caller.workspace_id, 'manage_workspace_settings'
      ) then 'forbidden'
    end;
  end if;
  return caller;
end
$$;

-- Returns the caller that a token identifies. The token is the token of a central session or the access token of an
-- OpenID client. refused is unauthenticated, mfa_required, unavailable, insufficient_scope or null. For definers; not
-- granted to any role.
create or replace function private.find_app_caller(token_hash bytea, needed_scope text) returns private.app_caller
  language plpgsql stable security invoker set search_path = ''
as $$
declare
  credential record;
  caller private.app_caller;
  proof_status text;
begin
  select c.* into credential
  from (
    select s.user_id, s.app_id, s.proof, private.effective_scopes(s) as scopes
    from private.live_app_session(find_app_caller.token_hash) s
    where s.audience = 'central'
    union all
    select (l.login).user_id, (l.login).app_id, (l.login).proof, l.scopes
    from private.live_openid_token(find_app_caller.token_hash) l
  ) as c;
  if not found then
    caller.refused := 'unauthenticated';
    return caller;
  end if;
  proof_status := private.proof_status(credential.proof);
  caller.scopes := credential.scopes;
  caller.refused := case
    when proof_status = 'over' then 'unauthenticated'
    when proof_status <> 'good' then proof_status
    when not needed_scope = any (caller.scopes) then 'insufficient_scope'
  end;
  caller.user_id := credential.user_id;
  caller.app_id := credential.app_id;
  return caller;
end
$$;

-- Returns a user's workspaces. Callers must have derived the user from a credential, because this function does not
-- verify the user id. For the same reason, it is not granted to any role.
create or replace function private.user_workspaces(user_id uuid) returns table (id uuid, workspace jsonb)
  language sql stable security invoker
as $$
  select w.id, jsonb_build_object(
    'id', w.id,
    'name', w.name,
    'planId', w.plan_id,
    'personal', w.personal_user_id is not distinct from user_workspaces.user_id,
    'role', r.name,
    'permissions', case
      when r.is_owner then to_jsonb(enum_range(null::public.workspace_permission))
      else to_jsonb(r.permissions)
    end
  )
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles r on r.id = m.role_id
  where m.user_id = user_workspaces.user_id and w.deleted_at is null
$$;
