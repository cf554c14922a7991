set lock_timeout = '500ms';
-- Where operators have pg_trgm in another schema, its operator class is found there.
set search_path = extensions, public;

create extension if not exists pg_trgm with schema extensions;

-- One index for a workspace's list and for the console, which knows no workspace. Dropping the old one first takes the
-- stronger lock first: calls that wait for a weaker one would deadlock with it.
drop index if exists ai.runs_request_id_idx;
create index if not exists runs_request_id_workspace_id_idx on ai.runs (request_id, workspace_id);

create index if not exists workspaces_name_id_idx on public.workspaces (name, id) where deleted_at is null;
create index if not exists workspaces_name_trgm_idx on public.workspaces using gin (lower(name) gin_trgm_ops)
  -- Searches would read what waits to be indexed, row by row.
  with (fastupdate = off)
  where deleted_at is null;
