-- Who may manage service accounts.

-- Returns whether a member may give a workspace's service accounts these scopes, and manage those that have them: with
-- manage_members, and only scopes that the member has too. Otherwise a member could act through a service account that
-- may do more.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function private.may_manage_service_accounts(member_id uuid, workspace uuid, scopes text[])
  returns boolean
  language sql stable security definer set search_path = ''
as $$
  select exists (
    select
    from private.memberships_with_permission(member_id, workspace, 'manage_members') m
    join public.workspace_roles r on r.id = m.role_id
    where r.is_owner or may_manage_service_accounts.scopes <@ r.permissions::text[]
  )
$$;

-- Returns whether a change of service accounts may be made. Only people manage service accounts: those of a workspace
-- its members, and those of the platform an infrastructure admin, or the command line, which names no actor.
create or replace function private.may_change_service_account(change jsonb, scopes text[]) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select case
    when change ->> 'serviceAccount' is not null then false
    when change ->> 'workspace' is not null then private.may_manage_service_accounts(
      (change ->> 'actor')::uuid, (change ->> 'workspace')::uuid, may_change_service_account.scopes
    )
    when change ->> 'actor' is not null then private.is_infrastructure_admin((change ->> 'actor')::uuid)
    else true
  end
$$;

-- Locks and returns the service account that a change names, or nulls if it has been revoked or belongs to another
-- workspace. Locks the actor first, as the end of an account does.
create or replace function private.lock_service_account(change jsonb) returns private.service_accounts
  language sql volatile security invoker set search_path = ''
as $$
  select from auth.users u where u.id = (change ->> 'actor')::uuid for key share;
  select s
  from private.service_accounts s
  where s.id = (change ->> 'account')::uuid
    and s.workspace_id is not distinct from (change ->> 'workspace')::uuid
    and s.revoked_at is null
  for no key update
$$;
