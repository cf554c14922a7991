-- Rules for every workspace: it is created with roles and an owner, always has an owner, and closes when its last
-- member's account is deleted.

-- Creates the roles of a new workspace and makes its founder the owner, in the same statement that creates the
-- workspace.
-- Definer: the role authenticated may not insert owner roles or memberships.
create or replace function private.create_workspace_defaults() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  owner_role_id uuid;
begin
  insert into public.workspace_roles (workspace_id, name, permissions, is_owner)
  values (new.id, 'owner', enum_range(null::public.workspace_permission), true)
  returning id into owner_role_id;

  insert into public.workspace_roles (workspace_id, name, permissions)
  values
    (new.id, 'admin', enum_range(null::public.workspace_permission)),
    (new.id, 'member', array['use_ai_studio']::public.workspace_permission[]),
    (new.id, 'viewer', '{}');

  if new.created_by is not null then
    insert into public.workspace_members (workspace_id, user_id, role_id)
    values (new.id, new.created_by, owner_role_id);
  end if;
  return null;
end
$$;

-- Gives every new workspace its roles, because each member needs a role.
create or replace trigger create_workspace_defaults after insert on public.workspaces
  for each row execute function private.create_workspace_defaults();

-- Raises PT409 if the last owner leaves or loses the owner role. The Data API returns this error as 409.
-- Definer: counts all owners and locks the workspace, even if the caller may not see them.
create or replace function private.require_workspace_owner() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if not (select r.is_owner from public.workspace_roles r where r.id = old.role_id) then
    return null;
  end if;

  -- Serialized, since otherwise two owners could leave concurrently and leave no owner.
  perform from public.workspaces w where w.id = old.workspace_id and w.deleted_at is null for no key update;
  if not found then
    return null;
  end if;

  -- Deleting a person's account ends the membership, even if the workspace then has no owner.
  if not exists (select from public.profiles p where p.id = old.user_id) then
    return null;
  end if;

  if not exists (
    select
    from public.workspace_members m
    join public.workspace_roles r on r.id = m.role_id
    where m.workspace_id = old.workspace_id and r.is_owner
  ) then
    raise exception 'a workspace needs an owner' using errcode = 'PT409';
  end if;
  return null;
end
$$;

-- An ownerless workspace could never get an owner again.
create or replace trigger require_workspace_owner after update of role_id or delete on public.workspace_members
  for each row execute function private.require_workspace_owner();

-- Closes workspaces when a member's account is deleted, so that the workspaces' keys stop working. The person's
-- personal workspace stays open if it has another owner. Any other workspace stays open if it has another member. A
-- closed personal workspace is renamed to "Deleted workspace".
-- Definer: Supabase Auth deletes users and has no grant on workspaces.
create or replace function private.close_orphaned_workspaces() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  -- These locks make concurrent deletions wait. Otherwise the last two members could each assume that the other stays.
  -- Memberships are locked before workspaces, as they are when a member leaves.
  perform from public.workspace_members m where m.user_id = old.id order by m.workspace_id for update;
  perform
  from public.workspaces w
  where w.deleted_at is null
    and w.id in (select m.workspace_id from public.workspace_members m where m.user_id = old.id)
  order by w.id
  for no key update;
  update public.workspaces w
  set
    deleted_at = pg_catalog.now(),
    name = case when w.personal_user_id = old.id then 'Deleted workspace' else w.name end
  where w.deleted_at is null
    and w.id in (select m.workspace_id from public.workspace_members m where m.user_id = old.id)
    and not exists (
      select
      from public.workspace_members m
      join public.workspace_roles r on r.id = m.role_id
      where m.workspace_id = w.id
        and m.user_id <> old.id
        -- Keeps a personal workspace open only if another owner remains.
        and (r.is_owner or w.personal_user_id is distinct from old.id)
    );
  return old;
end
$$;

-- Runs before a profile is deleted, while the person's memberships still exist.
create or replace trigger close_orphaned_workspaces before delete on public.profiles
  for each row execute function private.close_orphaned_workspaces();

-- Raises PT409 if a workspace has more than 100 roles.
-- Definer: counts all roles, including those that the caller may not read.
create or replace function private.limit_workspace_roles() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if exists (
    select from public.workspace_roles r
    where r.workspace_id in (select i.workspace_id from inserted i)
    group by r.workspace_id having count(*) > 100
  ) then
    raise exception 'too many roles' using errcode = 'PT409';
  end if;
  return null;
end
$$;

-- Limits the number of roles, because pages read all roles of a workspace at once.
create or replace trigger limit_roles after insert on public.workspace_roles
  referencing new table as inserted for each statement execute function private.limit_workspace_roles();
