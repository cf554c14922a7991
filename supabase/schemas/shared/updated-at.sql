-- Sets `updated_at` in the database, so that its value doesn't depend on the role that writes the row.

-- Sets updated_at on every write, so that callers need no grant on that column.
create or replace function private.set_updated_at() returns trigger
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  new.updated_at := pg_catalog.now();
  return new;
end
$$;

-- The time of a change is the database's, not the caller's.
create or replace trigger set_updated_at before update on public.profiles
  for each row execute function private.set_updated_at();
-- The time of a change is the database's, not the caller's.
create or replace trigger set_updated_at before update on public.workspaces
  for each row execute function private.set_updated_at();
-- The time of a change is the database's, not the caller's.
create or replace trigger set_updated_at before update on private.apps
  for each row execute function private.set_updated_at();
