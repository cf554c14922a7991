-- The policies of workspaces ask about memberships, and so does the policy of memberships. These functions read past
-- row-level security, or a policy would ask itself. They answer for the caller alone, and sit in private: without
-- usage there nobody can call them, yet a policy may. Policies take them as a sub-select, once a statement; and plpgsql
-- keeps their plans between statements, which language sql does not.

-- Definer: reads memberships past their own policy, for the caller only.
create function private.my_workspace_ids() returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    where m.user_id = (select auth.uid()) and w.deleted_at is null;
end
$$;
comment on function private.my_workspace_ids() is
  'Workspaces that the caller belongs to; deleted ones are gone at once.';
revoke execute on function private.my_workspace_ids() from public, anon, authenticated;
grant execute on function private.my_workspace_ids() to authenticated;

-- Definer: reads memberships past their own policy, for the caller only.
create function private.my_workspace_ids_with(permission public.workspace_permission) returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.workspace_id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = (select auth.uid())
      and w.deleted_at is null
      and (r.is_owner or my_workspace_ids_with.permission = any (r.permissions));
end
$$;
comment on function private.my_workspace_ids_with(public.workspace_permission) is
  'Workspaces in which the caller''s role carries the permission.';
revoke execute on function private.my_workspace_ids_with(public.workspace_permission)
  from public, anon, authenticated;
grant execute on function private.my_workspace_ids_with(public.workspace_permission) to authenticated;

-- Definer: reads memberships past their own policy, for the caller only.
create function private.my_fellow_ids() returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select m.user_id
    from public.workspace_members m
    where m.workspace_id in (select private.my_workspace_ids());
end
$$;
comment on function private.my_fellow_ids() is 'People who share a workspace with the caller.';
revoke execute on function private.my_fellow_ids() from public, anon, authenticated;
grant execute on function private.my_fellow_ids() to authenticated;

-- Definer: reads memberships past their own policy, for the caller only.
create function private.my_assignable_role_ids() returns setof uuid
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
begin
  return query
    select other.id
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles mine on mine.id = m.role_id
    join public.workspace_roles other on other.workspace_id = m.workspace_id
    where m.user_id = (select auth.uid())
      and w.deleted_at is null
      and (
        (mine.is_owner and (not other.is_owner or private.session_is_fresh()))
        or (
          'manage_members'::public.workspace_permission = any (mine.permissions)
          and not other.is_owner
          and other.permissions <@ mine.permissions
        )
      );
end
$$;
comment on function private.my_assignable_role_ids() is
  'Roles that the caller may give and take: none that allows more than their own, so that nobody promotes themselves; '
  'and an owner''s by an owner who has proved within ten minutes who they are.';
revoke execute on function private.my_assignable_role_ids() from public, anon, authenticated;
grant execute on function private.my_assignable_role_ids() to authenticated;

create function private.user_has_workspace_permission(
  user_id uuid,
  workspace_id uuid,
  permission public.workspace_permission
) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from public.workspace_members m
    join public.workspaces w on w.id = m.workspace_id
    join public.workspace_roles r on r.id = m.role_id
    where m.user_id = user_has_workspace_permission.user_id
      and m.workspace_id = user_has_workspace_permission.workspace_id
      and w.deleted_at is null
      and (r.is_owner or user_has_workspace_permission.permission = any (r.permissions))
  )
$$;
comment on function private.user_has_workspace_permission(uuid, uuid, public.workspace_permission) is
  'For definers that have derived the user from a credential. Granted to nobody: it trusts the id it is given.';
revoke execute on function private.user_has_workspace_permission(uuid, uuid, public.workspace_permission)
  from public, anon, authenticated;

alter table public.workspaces enable row level security;

create policy select_as_member on public.workspaces
  for select to authenticated using (id in (select private.my_workspace_ids()));
create policy update_with_permission on public.workspaces
  for update to authenticated
  using (id in (select private.my_workspace_ids_with('manage_workspace_settings')))
  with check (id in (select private.my_workspace_ids_with('manage_workspace_settings')));

grant select on public.workspaces to authenticated;
grant update (name) on public.workspaces to authenticated;

alter table public.workspace_roles enable row level security;

create policy select_as_member on public.workspace_roles
  for select to authenticated using (workspace_id in (select private.my_workspace_ids()));

grant select on public.workspace_roles to authenticated;

alter table public.workspace_members enable row level security;

create policy select_as_member on public.workspace_members
  for select to authenticated using (workspace_id in (select private.my_workspace_ids()));
create policy update_with_permission on public.workspace_members
  for update to authenticated
  using (role_id in (select private.my_assignable_role_ids()))
  with check (role_id in (select private.my_assignable_role_ids()));
create policy delete_with_permission on public.workspace_members
  for delete to authenticated using (role_id in (select private.my_assignable_role_ids()));
create policy delete_own on public.workspace_members
  for delete to authenticated using (user_id = (select auth.uid()));

grant select, delete on public.workspace_members to authenticated;
grant update (role_id) on public.workspace_members to authenticated;

-- Its name sorts after select_own, which is cheaper and so is asked first.
create policy select_shared_workspace on public.profiles
  for select to authenticated using (id in (select private.my_fellow_ids()));
