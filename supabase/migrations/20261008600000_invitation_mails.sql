-- An invitation is a mail to an address of the inviter's choice. These hold wherever it is made: on our pages and
-- through the Data API.

-- Definer: authenticated has no usage of the schema private. Whose invitations it replaces is what the policy
-- delete_with_permission says.
create function private.replace_invitation() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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
comment on function private.replace_invitation() is
  'Lets a new invitation take the place of an open one of the same workspace and email that the inviter could withdraw. '
  'The link in one that is younger than private.mail_pause() stays good: then the new one fails with 23505.';
revoke execute on function private.replace_invitation() from public, anon, authenticated;
create trigger replace_invitation before insert on public.workspace_invitations
  for each row execute function private.replace_invitation();
comment on trigger replace_invitation on public.workspace_invitations is 'Only the newest mail works.';

-- Definer: as above, and nobody takes from buckets.
create function private.limit_inviter() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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
      longest, private.take_attempt(bucket.subject, 'invitation', bucket.scope, bucket.step, bucket.per)
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
comment on function private.limit_inviter() is
  'Counts invitations by their inviter in all workspaces together, and refuses more than private.attempt_limits() allows '
  'with PT429, whose detail is the seconds until the next one.';
revoke execute on function private.limit_inviter() from public, anon, authenticated;
create trigger limit_inviter after insert on public.workspace_invitations
  for each row when (new.invited_by is not null) execute function private.limit_inviter();
comment on trigger limit_inviter on public.workspace_invitations is 'Strangers are not to be mailed in bulk.';
