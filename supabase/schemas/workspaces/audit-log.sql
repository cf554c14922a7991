-- A workspace's audit log. Triggers write the log, and the workspace's owners can read it.

-- Logs a change to a row that belongs to a workspace.
-- Definer, like the triggers below: the roles that change these rows have no grant to write the log.
create or replace function private.log_workspace_row() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  row_before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  row_after jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  subject_row jsonb := coalesce(row_after, row_before);
  verb text := case tg_op when 'INSERT' then 'created' when 'UPDATE' then 'changed' else 'deleted' end;
begin
  if tg_table_name = 'workspaces' then
    if tg_op = 'INSERT' then
      perform private.log_workspace_change(new.id, 'workspace.created', new.id, new.name);
    elsif old.deleted_at is null and new.deleted_at is not null then
      perform private.log_workspace_change(new.id, 'workspace.deleted', new.id, old.name);
    elsif new.name is distinct from old.name or new.plan_id is distinct from old.plan_id then
      perform private.log_workspace_change(new.id, 'workspace.changed', new.id, new.name, jsonb_build_object(
        'before', jsonb_build_object('name', old.name, 'plan', old.plan_id),
        'after', jsonb_build_object('name', new.name, 'plan', new.plan_id)
      ));
    end if;
  elsif tg_table_name = 'workspace_members' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'member.' || case tg_op when 'INSERT' then 'joined' when 'UPDATE' then 'role_changed' else 'left' end,
      (subject_row ->> 'user_id')::uuid,
      (select p.display_name from public.profiles p where p.id = (subject_row ->> 'user_id')::uuid),
      jsonb_strip_nulls(jsonb_build_object(
        'before', (select r.name from public.workspace_roles r where r.id = (row_before ->> 'role_id')::uuid),
        'after', (select r.name from public.workspace_roles r where r.id = (row_after ->> 'role_id')::uuid)
      ))
    );
  elsif tg_table_name = 'workspace_roles' then
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid, 'role.' || verb, (subject_row ->> 'id')::uuid, subject_row ->> 'name',
      jsonb_strip_nulls(jsonb_build_object('before', row_before -> 'permissions', 'after', row_after -> 'permissions'))
        || case
          when row_before ->> 'member_budget_usd' is distinct from row_after ->> 'member_budget_usd' then jsonb_build_object(
            'budgetBefore', row_before ->> 'member_budget_usd', 'budgetAfter', row_after ->> 'member_budget_usd'
          )
          else '{}'
        end
    );
  elsif tg_table_name = 'workspace_invitations' then
    if tg_op = 'UPDATE' and new.accepted_at is null then
      return null;
    end if;
    perform private.log_workspace_change(
      (subject_row ->> 'workspace_id')::uuid,
      'invitation.' || case tg_op when 'INSERT' then 'sent' when 'UPDATE' then 'accepted' else 'withdrawn' end,
      (subject_row ->> 'id')::uuid, subject_row ->> 'email'
    );
  end if;
  return null;
end
$$;

-- Logs when a workspace is created, deleted, renamed or given another plan.
create or replace trigger audit_change after insert or update on public.workspaces
  for each row execute function private.log_workspace_row();
-- Shows the workspace's owners which members joined, left or changed roles.
create or replace trigger audit_change after insert or update of role_id or delete on public.workspace_members
  for each row execute function private.log_workspace_row();
-- Shows the workspace's owners which roles were changed or deleted, and how their permissions changed.
create or replace trigger audit_change after update or delete on public.workspace_roles
  for each row execute function private.log_workspace_row();
-- Shows the workspace's owners which invitations were sent, accepted or withdrawn.
create or replace trigger audit_change after insert or update of accepted_at or delete on public.workspace_invitations
  for each row execute function private.log_workspace_row();
-- Shows owners which roles were created, who created them, and what each role allows.
-- Logs only roles that people create. A workspace's initial roles belong to its creation, which is logged separately.
create or replace trigger audit_definition after insert on public.workspace_roles
  for each row when (pg_trigger_depth() = 0) execute function private.log_workspace_row();

-- Adds an entry to a workspace's audit log.
create or replace function private.log_workspace_change(
  workspace_id uuid,
  action text,
  subject_id uuid default null,
  subject text default null,
  details jsonb default '{}'
) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into public.workspace_audit_log (workspace_id, actor_id, action, subject_id, subject, details)
  values (workspace_id, private.acting_user_id(), action, subject_id, left(subject, 320), details)
$$;

-- Returns the user who makes the changes in this transaction: the token's user or, if a function derived the user from
-- another credential, the user in the setting gatehouse.actor_id.
create or replace function private.acting_user_id() returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(auth.uid(), private.uuid_or_null(nullif(current_setting('gatehouse.actor_id', true), '')))
$$;
