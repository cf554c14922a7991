-- Limits invitations, because each one sends an email to an address that the inviter chooses. The limits apply to our
-- pages and to the Data API.

-- Replaces an open invitation to the same workspace and email with the new one, if the inviter could withdraw the open
-- invitation. If the open invitation is younger than private.mail_pause(), its link stays valid and the new invitation
-- fails with 23505.
-- Definer: the role authenticated has no usage on schema private. Replaces only invitations that the policy
-- delete_with_permission would let the inviter delete.
create or replace function private.replace_invitation() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  delete from public.workspace_invitations v
  where v.workspace_id = new.workspace_id
    and v.email = new.email
    and v.accepted_at is null
    and v.role_id in (select private.my_assignable_role_ids())
    and v.created_at <= now() - private.mail_pause();
  return new;
end
$$;

-- Leaves only the newest invitation link valid for each workspace and email address.
create or replace trigger replace_invitation before insert on public.workspace_invitations
  for each row execute function private.replace_invitation();

-- Limits the invitations that a person sends in all workspaces together. Raises PT429 if there are more than
-- private.attempt_limits() allows; the error's detail is the number of seconds until the next invitation is allowed.
-- Definer: the role authenticated has no usage on schema private, and no role may write rate-limit buckets.
create or replace function private.limit_inviter() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  bucket record;
  longest interval;
  seconds integer;
begin
  for bucket in
    select * from private.attempt_buckets('invitation', 'user:' || new.invited_by, null) b order by b.subject
  loop
    longest := greatest(
      longest, private.consume_attempt(bucket.subject, 'invitation', bucket.scope, bucket.step, bucket.per)
    );
  end loop;
  if longest is not null then
    seconds := ceil(extract(epoch from longest));
    raise exception 'too many invitations by one inviter: try again in % seconds', seconds
      using errcode = 'PT429', detail = seconds;
  end if;
  return null;
end
$$;

-- Limits each person's invitations, to prevent bulk email to strangers.
create or replace trigger limit_inviter after insert on public.workspace_invitations
  for each row when (new.invited_by is not null) execute function private.limit_inviter();

-- Raises PT409 if a workspace has more than 500 invitations that were not accepted.
-- Definer: counts all invitations, including those that the caller may not read.
create or replace function private.limit_workspace_invitations() returns trigger
  language plpgsql volatile security definer set search_path = ''
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

-- Limits the open invitations of a workspace, because pages read all of them at once.
create or replace trigger limit_invitations after insert on public.workspace_invitations
  referencing new table as inserted for each statement execute function private.limit_workspace_invitations();

-- Withdraws the open invitations that their senders may no longer give, because they were removed or demoted, or
-- because a role changed.
-- Definer: a person who changes members or roles may not delete every invitation.
create or replace function private.withdraw_unauthorized_invitations() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  delete from public.workspace_invitations i
  where i.workspace_id = (to_jsonb(old) ->> 'workspace_id')::uuid
    and i.accepted_at is null
    and (tg_table_name = 'workspace_roles' or i.invited_by = (to_jsonb(old) ->> 'user_id')::uuid)
    and not exists (select from private.assignable_roles(i.invited_by) r where r.id = i.role_id);
  return null;
end
$$;

-- Triggers run in the order of their names. Invitations are locked before their workspace, so these run before
-- end_unauthorized_connections and require_workspace_owner, which lock it.
create or replace trigger adjust_invitations after update of role_id or delete on public.workspace_members
  for each row execute function private.withdraw_unauthorized_invitations();
create or replace trigger adjust_invitations after update of permissions on public.workspace_roles
  for each row execute function private.withdraw_unauthorized_invitations();
