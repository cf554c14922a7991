-- Creates, joins, transfers and deletes workspaces. Each operation is a function, because its caller may not write the
-- rows directly.

-- Creates a workspace with the caller as owner and returns its id. Raises PT409 if the caller has created 20 workspaces
-- that are not deleted, or 23514 if the name does not have 1 to 80 characters.
-- Definer: users cannot insert workspaces directly, because they may set only the name.
create or replace function public.create_workspace(name text) returns uuid
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  founder uuid := auth.uid();
  created uuid;
begin
  if founder is null or not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  -- Serialized per person, so that concurrent callers can't exceed the limit.
  perform pg_advisory_xact_lock(hashtextextended('create_workspace ' || founder::text, 0));
  if (
    select count(*) >= 20
    from public.workspaces w
    where w.created_by = founder and w.deleted_at is null
  ) then
    raise exception 'too many workspaces' using errcode = 'PT409';
  end if;
  insert into public.workspaces (name, created_by) values (btrim(create_workspace.name), founder)
  returning id into created;
  return created;
end
$$;

-- Returns the details of the invitation with this token, or null if there is none. token_hash is the token's SHA-256 in
-- hexadecimal. Returns { workspaceId, workspaceName, role, email, invitedBy, expiresAt, state: open | accepted |
-- expired | withdrawn, forYou }.
-- Definer: an invited person is not a member yet, and may see only these details of the workspace.
create or replace function public.workspace_invitation(token_hash text) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  return (
    select jsonb_build_object(
      'workspaceId', w.id,
      'workspaceName', w.name,
      'role', r.name,
      'email', i.email,
      'invitedBy', p.display_name,
      'expiresAt', i.expires_at,
      'state', case
        when w.deleted_at is not null then 'withdrawn'
        when i.accepted_at is not null then 'accepted'
        when not exists (select from private.assignable_roles(i.invited_by) a where a.id = i.role_id) then 'withdrawn'
        when i.expires_at <= now() then 'expired'
        else 'open'
      end,
      'forYou', exists (
        select from auth.users u
        where u.id = auth.uid() and lower(u.email) = i.email and u.email_confirmed_at is not null
      )
    )
    from public.workspace_invitations i
    join public.workspaces w on w.id = i.workspace_id
    join public.workspace_roles r on r.id = i.role_id
    left join public.profiles p on p.id = i.invited_by
    where i.token_hash = case
      when workspace_invitation.token_hash ~ '^[0-9a-f]{64}$' then decode(workspace_invitation.token_hash, 'hex')
    end
  );
end
$$;

-- Accepts the open invitation with this token. The invitation must have been sent to the caller's confirmed email, by a
-- member who may still give its role.
-- Returns the workspace's id. Raises PT404 if the caller has no such invitation.
-- Definer: an invited person has no grant to write memberships.
create or replace function public.accept_workspace_invitation(token_hash text) returns uuid
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  joined public.workspace_invitations;
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  update public.workspace_invitations i
  set accepted_at = now(), accepted_by = auth.uid()
  from auth.users u, public.workspaces w
  where i.token_hash = case
      when accept_workspace_invitation.token_hash ~ '^[0-9a-f]{64}$'
        then decode(accept_workspace_invitation.token_hash, 'hex')
    end
    and i.accepted_at is null
    and i.expires_at > now()
    and u.id = auth.uid()
    and lower(u.email) = i.email
    and u.email_confirmed_at is not null
    and w.id = i.workspace_id
    and w.deleted_at is null
    and exists (select from private.assignable_roles(i.invited_by) r where r.id = i.role_id)
  returning i.* into joined;
  if not found then
    raise exception 'no open invitation of this account' using errcode = 'PT404';
  end if;
  -- An existing member keeps their role.
  insert into public.workspace_members (workspace_id, user_id, role_id)
  values (joined.workspace_id, auth.uid(), joined.role_id)
  on conflict do nothing;
  return joined.workspace_id;
end
$$;

-- Removes a member, or lets the caller leave, and revokes the given keys that the person made, if the caller has
-- manage_ai_keys. A refused removal revokes no key. Raises PT403 without the required MFA, PT404 if the caller may not
-- remove the person, or PT409 if the last owner would leave.
-- Definer: members cannot write keys directly. The condition on the role is that of the policies on memberships.
create or replace function public.remove_workspace_member(workspace_id uuid, user_id uuid, key_ids uuid[] default '{}')
  returns void
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  -- Read first, because somebody who has left has no permission.
  manages_keys constant boolean :=
    remove_workspace_member.workspace_id in (select private.my_workspace_ids_with_permission('manage_ai_keys'));
  revoked_key record;
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  delete from public.workspace_members m
  where m.workspace_id = remove_workspace_member.workspace_id
    and m.user_id = remove_workspace_member.user_id
    and m.workspace_id in (select private.my_workspace_ids())
    and (m.user_id = (select auth.uid()) or m.role_id in (select private.my_assignable_role_ids()));
  if not found then
    raise exception 'no such member' using errcode = 'PT404';
  end if;
  if not manages_keys then
    return;
  end if;
  for revoked_key in
    update ai.keys k set revoked_at = now()
    where k.workspace_id = remove_workspace_member.workspace_id
      and k.created_by = remove_workspace_member.user_id
      and k.id = any (key_ids)
      and k.connection_id is null
      and k.revoked_at is null
    returning k.id, k.name
  loop
    perform private.log_workspace_change(
      remove_workspace_member.workspace_id, 'key.revoked', revoked_key.id, revoked_key.name
    );
  end loop;
end
$$;

-- Makes another member the owner, and gives the caller the role with the most permissions below owner. Raises PT403 if
-- the caller does not own the workspace or has not proved their identity in the last ten minutes, PT404 if the new
-- owner is not a member, or PT409 if the new owner is the caller.
-- Definer: changes two roles together, while the policies would check each change separately.
create or replace function public.transfer_workspace_ownership(workspace_id uuid, new_owner_id uuid) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
#variable_conflict use_column
declare
  owner_role uuid;
  admin_role uuid;
begin
  if not private.account_required_mfa_satisfied()
    or (transfer_workspace_ownership.workspace_id in (select private.my_owned_workspace_ids())) is not true then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if not private.session_is_fresh() then
    raise exception 'prove again who you are' using errcode = 'PT403';
  end if;
  if new_owner_id = auth.uid() then
    raise exception 'they own it already' using errcode = 'PT409';
  end if;
  -- Locks the memberships before their workspace, in the same order as leaving a workspace.
  perform from public.workspace_members m
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id in (auth.uid(), new_owner_id)
  order by m.user_id
  for update;
  perform from public.workspaces w where w.id = transfer_workspace_ownership.workspace_id for no key update;
  -- Checks ownership again under the lock, because a concurrent transfer may have committed first.
  if transfer_workspace_ownership.workspace_id not in (select private.my_owned_workspace_ids()) then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  select r.id into owner_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and r.is_owner;
  -- Chooses the role with the most permissions, except owner roles.
  select r.id into admin_role
  from public.workspace_roles r
  where r.workspace_id = transfer_workspace_ownership.workspace_id and not r.is_owner
  order by cardinality(r.permissions) desc, r.name = 'admin' desc, r.name
  limit 1;

  update public.workspace_members m set role_id = owner_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = new_owner_id;
  if not found then
    raise exception 'the new owner is not a member' using errcode = 'PT404';
  end if;
  update public.workspace_members m set role_id = admin_role
  where m.workspace_id = transfer_workspace_ownership.workspace_id and m.user_id = auth.uid() and admin_role is not null;
end
$$;

-- Closes a workspace for all its members. Its keys stop working and it can no longer be read. Runs, ledger entries and
-- invoices are kept. Raises PT404 if the caller is not a member, or PT403 if the caller lacks manage_workspace_settings
-- or has not proved their identity in the last ten minutes.
-- Definer: members cannot write deleted_at or keys directly.
create or replace function public.delete_workspace(workspace_id uuid) returns void
  language plpgsql volatile security definer set search_path = ''
as $$
#variable_conflict use_column
begin
  if not private.account_required_mfa_satisfied() then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if (delete_workspace.workspace_id in (select private.my_workspace_ids())) is not true then
    raise exception 'no such workspace' using errcode = 'PT404';
  end if;
  if delete_workspace.workspace_id not in (select private.my_workspace_ids_with_permission('manage_workspace_settings')) then
    raise exception 'not allowed' using errcode = 'PT403';
  end if;
  if not private.session_is_fresh() then
    raise exception 'prove again who you are' using errcode = 'PT403';
  end if;
  -- Locks the invitations before the workspace. Accepting an invitation and deleting the sender's account use the same
  -- order.
  delete from public.workspace_invitations i
  where i.workspace_id = delete_workspace.workspace_id and i.accepted_at is null;
  update public.workspaces w set deleted_at = now()
  where w.id = delete_workspace.workspace_id and w.deleted_at is null;
  update ai.keys k set revoked_at = now()
  where k.workspace_id = delete_workspace.workspace_id and k.revoked_at is null;
end
$$;
