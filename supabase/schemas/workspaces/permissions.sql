-- Permissions in a workspace. Policies call these functions, which bypass row-level security because a policy on
-- memberships would otherwise call itself. The functions return only the caller's data. They use plpgsql because it
-- caches plans.

-- Returns the ids of the caller's workspaces, except deleted ones.
-- Definer: bypasses the policy on memberships, but reads only the caller's memberships.
create or replace function private.my_workspace_ids() returns setof uuid
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    where m.user_id = (select auth.uid()) and w.deleted_at is null;
end
$$;

-- Returns the ids of the workspaces in which the caller's role has the given permission.
-- Definer: bypasses the policy on memberships, but reads only the caller's memberships.
create or replace function private.my_workspace_ids_with_permission(permission public.workspace_permission) returns setof uuid
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = (select auth.uid())
      and w.deleted_at is null
      and (r.is_owner or my_workspace_ids_with_permission.permission = any (r.permissions));
end
$$;

-- Returns the ids of the workspaces that the caller owns.
-- Definer: bypasses the policy on memberships, but reads only the caller's memberships.
create or replace function private.my_owned_workspace_ids() returns setof uuid
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = (select auth.uid()) and w.deleted_at is null and r.is_owner;
end
$$;

-- Returns the ids of the people who share a workspace with the caller.
-- Definer: bypasses the policy on memberships, but reads only workspaces of the caller.
create or replace function private.my_coworker_ids() returns setof uuid
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select m.user_id
    from public.workspace_members m
    where m.workspace_id in (select private.my_workspace_ids());
end
$$;

-- Returns the roles that a person may assign to members and withdraw from them. Excludes roles with permissions that the
-- person's own role lacks, to prevent self-promotion. Not granted to any role, because it does not check that the id is
-- the caller's.
create or replace function private.assignable_roles(user_id uuid) returns setof public.workspace_roles
  language sql stable security invoker set search_path = ''
as $$
  select other.*
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles own_role on own_role.id = m.role_id
  join public.workspace_roles other on other.workspace_id = m.workspace_id
  where m.user_id = assignable_roles.user_id
    and w.deleted_at is null
    and (
      own_role.is_owner
      or (
        'manage_members'::public.workspace_permission = any (own_role.permissions)
        and not other.is_owner
        and other.permissions <@ own_role.permissions
      )
    )
$$;

-- Returns the ids of the roles that the caller may assign to members and withdraw from them. Includes the owner role
-- only if the caller is an owner who proved their identity in the last ten minutes.
-- Definer: bypasses the policy on memberships, but reads only the caller's memberships.
create or replace function private.my_assignable_role_ids() returns setof uuid
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select r.id
    from private.assignable_roles((select auth.uid())) r
    where not r.is_owner or private.session_is_fresh();
end
$$;

-- Returns the caller's permissions in each workspace.
-- Definer: bypasses the policy on memberships, but reads only the caller's memberships.
create or replace function private.my_workspace_permissions() returns table (
  workspace_id uuid,
  permissions public.workspace_permission[]
)
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select m.workspace_id, case when r.is_owner then enum_range(null::public.workspace_permission) else r.permissions end
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = (select auth.uid()) and w.deleted_at is null;
end
$$;

-- Returns whether a user or a service account of the workspace has a permission in it. For definers that have derived the
-- id from a credential. Not granted to any role, because it does not check that the id is the caller's. The functions
-- below are only for people: sessions, apps and coding agents act for members.
create or replace function private.user_has_workspace_permission(
  user_id uuid,
  workspace_id uuid,
  permission public.workspace_permission
) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select from private.memberships_with_permission(
      user_has_workspace_permission.user_id, user_has_workspace_permission.workspace_id, permission
    )
  ) or private.service_account_has_permission(
    user_has_workspace_permission.user_id, user_has_workspace_permission.workspace_id, permission
  )
$$;

-- Returns a user's membership in a workspace if it has the permission, as at most one row, so that a query can join it.
-- Not granted to any role, like private.user_has_workspace_permission.
create or replace function private.memberships_with_permission(
  user_id uuid, workspace_id uuid, permission public.workspace_permission
) returns setof public.workspace_members
  language sql stable security invoker
as $$
  select m.*
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles r on r.id = m.role_id
  where m.user_id = memberships_with_permission.user_id
    and m.workspace_id = memberships_with_permission.workspace_id
    and w.deleted_at is null
    and (r.is_owner or permission = any (r.permissions))
$$;

-- Returns whether a user is a member of a workspace. Not granted to any role, because it does not check that the user
-- is the caller. Security definer functions call it after they derive the user from a credential.
create or replace function private.is_workspace_member(user_id uuid, workspace_id uuid) returns boolean
  language plpgsql stable security invoker
as $$
begin
  return exists (
    select
    from public.workspace_members m
    where m.user_id = is_workspace_member.user_id and m.workspace_id = is_workspace_member.workspace_id
  );
end
$$;

-- Returns a user's membership in a workspace if it has lasted without a break since the given time, as at most one row,
-- so that a query can join it. A credential of an earlier membership stays refused when the person is invited again. Not
-- granted to any role, like private.is_workspace_member.
create or replace function private.memberships_since(user_id uuid, workspace_id uuid, since timestamptz)
  returns setof public.workspace_members
  language sql stable security invoker
as $$
  select m.*
  from public.workspace_members m
  where m.user_id = memberships_since.user_id
    and m.workspace_id = memberships_since.workspace_id
    and m.created_at <= since
$$;

-- Returns whether a list of permissions is one-dimensional and contains neither duplicates nor nulls.
create or replace function private.has_unique_items(permissions public.workspace_permission[]) returns boolean
  language sql immutable security invoker
as $$
  select coalesce(array_ndims(permissions), 1) = 1
    and not exists (
      select from unnest(permissions) as permission group by permission having permission is null or count(*) > 1
    )
$$;
