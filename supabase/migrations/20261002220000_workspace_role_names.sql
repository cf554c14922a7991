-- Roles are told apart by their names alone, where people give and take them.

update public.workspace_roles set name = btrim(name) where name <> btrim(name);

alter table public.workspace_roles
  add constraint trimmed_name check (name = btrim(name));
-- "Owner" beside "owner" would pass for it.
create unique index workspace_roles_name_idx on public.workspace_roles (workspace_id, lower(name));

-- Only what people define: the roles that a workspace is founded with are part of its founding, which is logged.
create trigger audit_definition after insert on public.workspace_roles
  for each row when (pg_trigger_depth() = 0) execute function private.log_workspace_row();
comment on trigger audit_definition on public.workspace_roles is 'Owners read who defined which role, and what it allows.';
