-- Roles and invitations are written by members themselves, through the Data API too, and read as whole lists. These
-- bounds are beyond what a team needs; statements of one moment may pass them by what the others have not committed.

-- Definer: all of them count, whatever the writer may read.
create function private.limit_workspace_roles() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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
comment on function private.limit_workspace_roles() is 'Refuses more than 100 roles of one workspace with PT409.';
revoke execute on function private.limit_workspace_roles() from public, anon, authenticated;
create trigger limit_roles after insert on public.workspace_roles
  referencing new table as inserted for each statement execute function private.limit_workspace_roles();
comment on trigger limit_roles on public.workspace_roles is 'Pages read all roles of a workspace at once.';

-- Definer: all of them count, whatever the writer may read.
create function private.limit_workspace_invitations() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if exists (
    select from public.workspace_invitations v
    where v.workspace_id in (select i.workspace_id from inserted i) and v.accepted_at is null
    group by v.workspace_id having count(*) > 500
  ) then
    raise exception 'too many invitations' using errcode = 'PT409';
  end if;
  return null;
end
$$;
comment on function private.limit_workspace_invitations() is
  'Refuses more than 500 invitations of one workspace that nobody has accepted, with PT409.';
revoke execute on function private.limit_workspace_invitations() from public, anon, authenticated;
create trigger limit_invitations after insert on public.workspace_invitations
  referencing new table as inserted for each statement execute function private.limit_workspace_invitations();
comment on trigger limit_invitations on public.workspace_invitations is 'Pages read all open invitations of a workspace at once.';
