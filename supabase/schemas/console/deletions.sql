-- Deletes accounts after a waiting time, in which they are banned and can be kept.
--
-- Locks are taken in this order: 'end of an account' (only to delete), the account, its scheduled deletion.

-- Bans an account, and schedules its deletion. Emails the owner the reason and the time. Takes { actor or
-- serviceAccount, subject, days (1 to 30, 7 by default), mail: { subject, body }, reason, requestId, ip }. mail is sent
-- once the account is deleted; null without a mail server. Returns {} or { refused: forbidden | not_found | oneself |
-- protected | days }. If the deletion is scheduled already, returns private.account_conflict.
-- Definer: the service role cannot write Supabase Auth's users and sessions, or deletions.
create or replace function private.request_account_deletion(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  days integer := coalesce((change ->> 'days')::integer, 7);
  due timestamptz := now() + days * interval '1 day';
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is null and days not between 1 and 30 then
    refusal := 'days';
  end if;
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  if exists (select from private.account_deletions d where d.user_id = account.id) then
    return private.account_conflict(account);
  end if;
  insert into private.account_deletions (
    user_id, requested_by, service_account_id, reason, request_id, due_at, banned_until_before, mail_subject, mail_body
  )
  values (
    account.id, (change ->> 'actor')::uuid, (change ->> 'serviceAccount')::uuid, change ->> 'reason',
    change ->> 'requestId', due, case when account.banned_until > now() then account.banned_until end,
    change -> 'mail' ->> 'subject', change -> 'mail' ->> 'body'
  );
  perform private.end_account_access(change, account, private.permanent_ban_end());
  perform private.notify_owner(
    account, 'deletion_requested', jsonb_build_object('reason', change ->> 'reason', 'deletion', due)
  );
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.request_deletion',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('deletion', null),
    'after', jsonb_build_object('deletion', due)
  ));
  return '{}';
end
$$;

-- Keeps an account whose deletion is scheduled: lifts its ban, or restores the ban that it had before. Emails the reason
-- to the owner. Takes { actor or serviceAccount, subject, reason, requestId, ip }. Returns {} or { refused: forbidden |
-- not_found | oneself | protected }. If no deletion is scheduled, returns private.account_conflict.
-- Definer: the service role cannot write Supabase Auth's users, or deletions.
create or replace function private.cancel_account_deletion(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  deletion private.account_deletions;
  old_ban timestamptz;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  delete from private.account_deletions d where d.user_id = account.id returning * into deletion;
  if not found then
    return private.account_conflict(account);
  end if;
  old_ban := case when deletion.banned_until_before > now() then deletion.banned_until_before end;
  perform private.write_ban(account.id, old_ban);
  perform private.notify_owner(account, 'deletion_canceled', jsonb_build_object('reason', change ->> 'reason'));
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.cancel_deletion',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('deletion', deletion.due_at),
    'after', jsonb_build_object('deletion', null, 'banned', old_ban is not null)
  ));
  return '{}';
end
$$;

-- Deletes the account whose scheduled deletion has waited longest since its time, or since its last attempt. Returns the
-- number of deleted accounts: 1, or 0 if none is due, if a workspace would be left without an owner, if the deletion
-- failed, if the account has a role in the console, or while another call is running. Deletes only one account, so that
-- its locks are held briefly. Also ends the invitation of its email, so that the account cannot come back by it.
-- Definer: the service role may not delete from the identity backend's tables.
create or replace function private.delete_due_accounts() returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  due_id uuid;
  deletion private.account_deletions;
  account auth.users;
  answer jsonb;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.delete_due_accounts', 0)) then
    return 0;
  end if;
  select d.user_id into due_id
  from private.account_deletions d
  where d.due_at <= now()
  order by coalesce(d.checked_at, d.due_at), d.user_id
  limit 1;
  if not found then
    return 0;
  end if;
  perform pg_advisory_xact_lock(hashtextextended('end of an account', 0));
  select * into account from auth.users u where u.id = due_id for update;
  -- Reads it again, because the account may have been kept meanwhile.
  select * into deletion from private.account_deletions d where d.user_id = due_id and d.due_at <= now() for update;
  if not found then
    return 0;
  end if;
  if private.console_role(due_id) is not null then
    update private.account_deletions d set checked_at = now() where d.user_id = due_id;
    return 0;
  end if;
  begin
    answer := private.end_account(due_id);
  exception when others then
    raise warning 'the account % was not deleted: % %', due_id, sqlstate, sqlerrm;
    answer := jsonb_build_object('deleted', false);
  end;
  if not (answer ->> 'deleted')::boolean then
    update private.account_deletions d
    set checked_at = now(), last_blockers = answer -> 'blockers'
    where d.user_id = due_id;
    return 0;
  end if;
  update private.account_invitations i
  set revoked_at = now()
  where i.email = lower(account.email) and i.revoked_at is null;
  insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
  select account.email, deletion.mail_subject, deletion.mail_body, now()
  where deletion.mail_subject is not null and char_length(account.email) between 3 and 320
    and (account.email_confirmed_at is not null or account.last_sign_in_at is not null);
  perform private.record_admin_action(
    jsonb_build_object(
      'actor', deletion.requested_by,
      'serviceAccount', deletion.service_account_id,
      'reason', deletion.reason,
      'requestId', deletion.request_id
    ),
    jsonb_build_object('action', 'account.delete', 'target', due_id)
  );
  return 1;
end
$$;

-- Returns the accounts whose deletion is due and was refused because a workspace would be left without an owner, or has
-- not been made for an hour. The earliest comes first. Not granted to any role.
create or replace function private.blocked_deletions(max_rows integer)
  returns table (user_id uuid, email text, due_at timestamptz, blockers jsonb)
  language sql stable security invoker set search_path = ''
as $$
  select d.user_id, u.email::text, d.due_at, coalesce(d.last_blockers, '[]')
  from private.account_deletions d
  join auth.users u on u.id = d.user_id
  where d.due_at <= now() and (d.last_blockers is not null or d.due_at <= now() - interval '1 hour')
  order by d.due_at, d.user_id
  limit max_rows
$$;
