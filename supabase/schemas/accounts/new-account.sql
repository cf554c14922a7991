-- A new account gets a profile and a personal workspace.

-- Creates a profile and a personal workspace on the free plan in the transaction that creates the user. A failed
-- sign-up rolls back all of them.
-- Definer: the identity backend inserts users, but has no grant on profiles or workspaces.
create or replace function private.create_profile_and_workspace() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  name text := private.default_display_name(new.raw_user_meta_data, new.email);
  picture text := new.raw_user_meta_data ->> 'avatar_url';
begin
  insert into public.profiles (id, display_name, avatar_url)
  values (new.id, name, case when picture ~ '^https://' and char_length(picture) <= 2048 then picture end);

  insert into public.workspaces (name, personal_user_id, created_by)
  values (private.personal_workspace_name(name), new.id, new.id);
  return null;
end
$$;

-- Returns the initial name of a personal workspace. Its owner can change the name. For definers; not granted to any
-- role.
create or replace function private.personal_workspace_name(display_name text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select left(display_name, 60) || '''s workspace'
$$;

-- Gives a new account the name that its owner typed at sign-up, and its personal workspace the name that follows.
-- Definer: the service role cannot update profiles.
create or replace function private.name_new_account(subject_id uuid, display_name text) returns void
  language sql volatile security definer set search_path = ''
as $$
  update public.profiles p set display_name = name_new_account.display_name where p.id = subject_id;
  update public.workspaces w
  set name = private.personal_workspace_name(name_new_account.display_name)
  where w.personal_user_id = subject_id;
$$;

-- Returns a display name for a person who has not chosen one. Takes it from the metadata or the email, and replaces
-- control characters with spaces.
create or replace function private.default_display_name(metadata jsonb, email text) returns text
  language sql immutable security invoker set search_path = ''
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
