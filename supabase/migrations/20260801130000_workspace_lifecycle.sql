-- What must be true of every workspace whoever writes it: it starts with its roles and its founder as owner, it keeps
-- an owner, and it ends with the last person in it. New users find a personal one.

-- Definer: founders hold no grant to write roles or memberships.
create function private.found_workspace() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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
comment on function private.found_workspace() is
  'Gives a new workspace its roles and makes its founder the owner, in the same statement.';
revoke execute on function private.found_workspace() from public, anon, authenticated;

create trigger found_workspace after insert on public.workspaces
  for each row execute function private.found_workspace();
comment on trigger found_workspace on public.workspaces is 'A workspace without roles could have no members.';

-- Definer: must count owners, and lock the workspace, whatever the caller may see.
create function private.keep_an_owner() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not (select r.is_owner from public.workspace_roles r where r.id = old.role_id) then
    return null;
  end if;

  -- One departure at a time, or two owners could leave each other behind.
  perform from public.workspaces w where w.id = old.workspace_id and w.deleted_at is null for no key update;
  if not found then
    return null;
  end if;

  -- A person whose account is erased goes in any case.
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
comment on function private.keep_an_owner() is
  'Refuses the last owner''s departure or demotion with PT409, which the Data API answers as 409.';
revoke execute on function private.keep_an_owner() from public, anon, authenticated;

create trigger keep_an_owner after update of role_id or delete on public.workspace_members
  for each row execute function private.keep_an_owner();
comment on trigger keep_an_owner on public.workspace_members is 'Nobody could ever be made owner of an ownerless one.';

-- Definer: the identity backend erases users, and holds no grant on workspaces.
create function private.end_workspaces_of_profile() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- One departure at a time, or the last two would each leave the workspace to the other. Memberships before workspaces,
  -- as who leaves has them locked.
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
        -- A personal one lives on only with who owns it too.
        and (r.is_owner or w.personal_user_id is distinct from old.id)
    );
  return old;
end
$$;
comment on function private.end_workspaces_of_profile() is
  'Closes the workspaces that an erased person leaves empty, so that their keys end too and no name stays behind.';
revoke execute on function private.end_workspaces_of_profile() from public, anon, authenticated;

create trigger end_workspaces before delete on public.profiles
  for each row execute function private.end_workspaces_of_profile();
comment on trigger end_workspaces on public.profiles is 'Before, while the memberships that name them still stand.';

create function private.display_name_of(metadata jsonb, email text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select name
  from (
    values
      (1, metadata ->> 'display_name'),
      (2, metadata ->> 'full_name'),
      (3, metadata ->> 'name'),
      (4, split_part(email, '@', 1)),
      (5, 'New user')
  ) as candidate (rank, raw)
  cross join lateral left(btrim(
    regexp_replace(raw, '[[:cntrl:]\u0080-\u009f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]+', ' ', 'g')
  ), 80) as name
  where name ~ '[^[:space:]\u00a0\u00ad\u115f\u1160\u200c\u200d\u2800\u3164\uffa0]'
  order by rank
  limit 1
$$;
comment on function private.display_name_of(jsonb, text) is
  'A name to show for someone who has chosen none yet. What users send of themselves is text, never trusted further.';
revoke execute on function private.display_name_of(jsonb, text) from public, anon, authenticated;

-- Definer: the identity backend inserts users, and holds no grant on profiles or workspaces.
create function private.welcome_new_user() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  name text := private.display_name_of(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  insert into public.profiles (id, display_name, avatar_url)
  values (new.id, name, case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end);

  insert into public.workspaces (name, personal_user_id, created_by)
  values (left(name, 60) || '''s workspace', new.id, new.id);
  return null;
end
$$;
comment on function private.welcome_new_user() is
  'Profile and personal free workspace, made with the user and undone with it when the sign-up fails.';
revoke execute on function private.welcome_new_user() from public, anon, authenticated;

-- Sign-up, invitation, OAuth and the console all create users here. (Only the table's owner may comment on a trigger.)
create trigger welcome_new_user after insert on auth.users
  for each row execute function private.welcome_new_user();

create function private.end_one_account_at_a_time() returns trigger
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  return null;
end
$$;
comment on function private.end_one_account_at_a_time() is
  'Two accounts may be named in each other''s rows, in workspaces that one of them has left, too: the second''s end waits '
  'for the first''s, before it holds any row that somebody else could wait for.';
revoke execute on function private.end_one_account_at_a_time() from public, anon, authenticated;

-- Users are also deleted by the API and by hand, so their order is enforced on the table.
create trigger end_one_account_at_a_time before delete on auth.users
  for each statement execute function private.end_one_account_at_a_time();
