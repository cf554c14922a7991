-- Deletes an account, unless a workspace would be left without an owner.

-- Deletes an account at its owner's request. Returns what private.end_account returns.
-- Definer: the service role may not delete from the identity backend's tables.
create or replace function private.delete_account(subject_id uuid, request_id text) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  answer jsonb := private.end_account(subject_id);
begin
  insert into private.admin_audit_log (action, target, reason, request_id)
  select 'account.deleted', subject_id::text, 'Deleted by its owner', delete_account.request_id
  where (answer ->> 'deleted')::boolean;
  return answer;
end
$$;

-- Deletes an account with its dependent rows, unless a workspace would be left without an owner. Returns { deleted,
-- blockers: [{ workspaceId, name, members }] }. Runs, ledger entries, costs and invoices remain. They identify the
-- account only by its id. The check and the deletion must share one transaction, which the identity backend's own API
-- can't offer. For definers; not granted to any role.
create or replace function private.end_account(subject_id uuid) returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  blockers jsonb;
begin
  -- Takes this lock before any row lock, as private.serialize_account_deletions does for every deletion.
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  -- Locks the account before its dependent rows. Changes to its sessions or app credentials take these locks in the
  -- same order.
  perform from auth.users u where u.id = subject_id for update;
  -- Locks memberships and invitations before their workspaces, in the same order as leaving a workspace, changing a
  -- role and accepting an invitation.
  perform from public.workspace_members m where m.user_id = subject_id order by m.workspace_id for update;
  perform
  from public.workspace_invitations i
  where subject_id in (i.invited_by, i.accepted_by)
  order by i.id
  for update;
  -- Prevents joining and leaving these workspaces between the check and the deletion.
  perform
  from public.workspaces w
  where w.id in (select m.workspace_id from public.workspace_members m where m.user_id = subject_id)
  order by w.id
  for update;

  select jsonb_agg(jsonb_build_object('workspaceId', b.workspace_id, 'name', b.name, 'members', b.members))
  into blockers
  from private.list_account_deletion_blockers(subject_id) b;
  if blockers is not null then
    return jsonb_build_object('deleted', false, 'blockers', blockers);
  end if;

  if not private.delete_auth_user(subject_id) then
    return jsonb_build_object('deleted', false, 'blockers', '[]'::jsonb);
  end if;
  return jsonb_build_object('deleted', true, 'blockers', '[]'::jsonb);
end
$$;

-- Returns the workspaces that have other members but no other owner than this account. Each workspace needs another
-- owner before the account may be deleted.
create or replace function private.list_account_deletion_blockers(subject_id uuid)
  returns table (workspace_id uuid, name text, members integer)
  language sql stable security invoker set search_path = ''
as $$
  select w.id, w.name, (select count(*)::integer from public.workspace_members m where m.workspace_id = w.id)
  from public.workspace_members membership
  join public.workspace_roles r on r.id = membership.role_id and r.is_owner
  join public.workspaces w on w.id = membership.workspace_id and w.deleted_at is null
  where membership.user_id = subject_id
    and exists (
      select from public.workspace_members other
      where other.workspace_id = w.id and other.user_id <> subject_id
    )
    and not exists (
      select
      from public.workspace_members other
      join public.workspace_roles other_role on other_role.id = other.role_id
      where other.workspace_id = w.id and other.user_id <> subject_id and other_role.is_owner
    )
  order by w.name, w.id
$$;
