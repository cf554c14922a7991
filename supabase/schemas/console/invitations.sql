-- Invites people to create an account.

-- Invites an email for 14 days, and queues the email with the link. Takes { actor or serviceAccount, id, email, mail:
-- { subject, body }, reason, requestId, ip }. id is a new id, which the email links to. mail is null without a mail
-- server. Returns {} or { refused: forbidden | has_account | invited (there is an open invitation) }.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read, and it cannot write invitations.
create or replace function private.invite_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  invited text := lower(change ->> 'email');
  invitation private.account_invitations;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if private.confirmed_account(invited) is not null then
    return jsonb_build_object('refused', 'has_account');
  end if;
  perform private.end_expired_invitation(invited);
  delete from private.account_invitations i where i.email = invited and i.imported;
  insert into private.account_invitations (id, email, invited_by, service_account_id, reason)
  values (
    (change ->> 'id')::uuid, invited, (change ->> 'actor')::uuid, (change ->> 'serviceAccount')::uuid,
    change ->> 'reason'
  )
  on conflict (email) where revoked_at is null do nothing
  returning * into invitation;
  if not found then
    return jsonb_build_object('refused', 'invited');
  end if;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select invited, change -> 'mail' ->> 'subject', change -> 'mail' ->> 'body', now()
  where change -> 'mail' ->> 'subject' is not null;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account_invitation.add',
    'target', invited,
    'after', jsonb_build_object('expiresAt', invitation.expires_at)
  ));
  return '{}';
end
$$;

-- Revokes an open invitation. Takes { actor or serviceAccount, invitation, reason, requestId, ip }. Returns {} or
-- { refused: forbidden | not_found | expired }, or { refused: conflict, last } if it was revoked already. An account that
-- was created by it stays.
-- Definer: the service role cannot write invitations.
create or replace function private.revoke_account_invitation(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  invitation private.account_invitations;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  select * into invitation
  from private.account_invitations i
  where i.id = (change ->> 'invitation')::uuid and not i.imported
  for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  if invitation.expires_at <= now() then
    return jsonb_build_object('refused', 'expired');
  end if;
  if invitation.revoked_at is not null then
    return jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(invitation.email));
  end if;
  update private.account_invitations i set revoked_at = now() where i.id = invitation.id;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account_invitation.revoke',
    'target', invitation.email,
    'before', jsonb_build_object('expiresAt', invitation.expires_at),
    'after', jsonb_build_object('expiresAt', null)
  ));
  return '{}';
end
$$;

-- Returns the account that has confirmed an email, or null. Single sign-on accounts are not considered, because they do
-- not sign up. For definers; not granted to any role.
create or replace function private.confirmed_account(of_email text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select u.id
  from auth.users u
  where u.email = of_email and not u.is_sso_user and u.deleted_at is null and u.email_confirmed_at is not null
  limit 1
$$;

-- Returns a page of the console's invitations, newest first, in the format of private.describe_invitation. before is {
-- createdAt, id } of the last invitation on the previous page.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.list_account_invitations(before jsonb default null, page_size integer default 50)
  returns jsonb
  language plpgsql stable security definer set search_path = ''
  -- A generic plan would read all invitations.
  set plan_cache_mode = force_custom_plan
as $$
declare
  last_at timestamptz := coalesce((before ->> 'createdAt')::timestamptz, 'infinity');
  last_id uuid := coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
begin
  return (
    select coalesce(jsonb_agg(private.describe_invitation(l) order by l.created_at desc, l.id desc), '[]')
    from (
      select *
      from private.account_invitations i
      where not i.imported and (i.created_at, i.id) < (last_at, last_id)
      order by i.created_at desc, i.id desc
      limit page_size
    ) l
  );
end
$$;

-- Returns an invitation in the format of private.describe_invitation; null if it doesn't exist.
-- Definer: see private.list_account_invitations.
create or replace function private.read_account_invitation(invitation_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.describe_invitation(i)
  from private.account_invitations i
  where i.id = invitation_id and not i.imported
$$;

-- Returns an invitation for the console: { id, email, reason, invitedBy, createdAt, expiresAt, state: open | accepted |
-- revoked | expired, userId }. It is accepted once an account has confirmed the email; userId is that account.
create or replace function private.describe_invitation(invitation private.account_invitations) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', invitation.id,
    'email', invitation.email,
    'reason', invitation.reason,
    'invitedBy', coalesce(
      (select u.email::text from auth.users u where u.id = invitation.invited_by),
      (select private.service_account_label(s.name) from private.service_accounts s where s.id = invitation.service_account_id)
    ),
    'createdAt', invitation.created_at,
    'expiresAt', invitation.expires_at,
    'state', case
      when invitation.revoked_at < invitation.expires_at then 'revoked'
      when a.id is not null then 'accepted'
      when invitation.expires_at <= now() then 'expired'
      else 'open'
    end,
    'userId', a.id
  )
  from (select private.confirmed_account(invitation.email)) as a (id)
$$;
