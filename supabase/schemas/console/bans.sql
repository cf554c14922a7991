-- Bans accounts and lifts bans.

-- Locks the account that a change is about, and returns it. Its id is null if the account doesn't exist. Locks its
-- recovery overrides first, as a recovery does. For definers; not granted to any role.
create or replace function private.lock_account(subject_id uuid) returns auth.users
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account auth.users;
begin
  perform
  from private.recovery_overrides o
  where o.email = (select lower(u.email) from auth.users u where u.id = subject_id) and o.revoked_at is null
  order by o.id
  for no key update;
  select * into account from auth.users u where u.id = subject_id and u.deleted_at is null for no key update;
  return account;
end
$$;

-- Bans an account and ends everything that acts for it. Revokes its recovery overrides, which would lift the ban: an
-- admin who wants to let the person back in creates a new one. For definers; not granted to any role.
create or replace function private.end_account_access(change jsonb, account auth.users, until timestamptz) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.write_ban(account.id, until);
  perform private.end_all_access(account.id);
  update private.recovery_overrides o
  set revoked_at = now(), revoked_by = (change ->> 'actor')::uuid
  where o.email = lower(account.email) and o.revoked_at is null and o.expires_at > now();
end
$$;

-- Returns why a change may not end the access of an account, or null: not_found, oneself (a person who is responsible
-- for the change), or protected (a service account changes no account with a role in the console). For definers; not
-- granted to any role.
create or replace function private.account_refusal(change jsonb, account auth.users) returns text
  language sql stable security invoker set search_path = ''
as $$
  select case
    when private.is_responsible(change, (change ->> 'subject')::uuid) then 'oneself'
    when account.id is null then 'not_found'
    when change ->> 'serviceAccount' is not null and private.console_role(account.id) is not null then 'protected'
  end
$$;

-- Returns how the audit log names an account: its email, or its id if it has none. Not granted to any role.
create or replace function private.account_target(account auth.users) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select coalesce(nullif(account.email, ''), account.id::text)
$$;

-- Returns the refusal of a change that was made meanwhile. last is private.last_admin_action. Not granted to any role.
create or replace function private.account_conflict(account auth.users) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object('refused', 'conflict', 'last', private.last_admin_action(private.account_target(account)))
$$;

-- Adds an event about an admin's act with the act's reason, which queues the email to the owner. Adds nothing for an
-- account that was never in use, because it has no owner yet. For definers; not granted to any role.
create or replace function private.notify_owner(account auth.users, kind text, details jsonb) returns void
  language sql volatile security invoker set search_path = ''
as $$
  select private.add_account_event(account.id, notify_owner.kind, details => jsonb_strip_nulls(notify_owner.details))
  where account.email_confirmed_at is not null or account.last_sign_in_at is not null
$$;

-- The end of a ban without an end: Supabase Auth compares times, and has no other way. Not granted to any role.
create or replace function private.permanent_ban_end() returns timestamptz
  language sql stable security invoker set search_path = ''
as $$
  select now() + interval '100 years'
$$;

-- Bans an account until a time or, if until is null, until an admin lifts the ban. Ends every session and app, and emails
-- the reason to the owner. Takes { actor or serviceAccount, subject, until, reason, requestId, ip }. Returns {} or
-- { refused: forbidden | not_found | oneself | protected | until (in the past, or more than a year away) }. If the account is
-- banned already, returns private.account_conflict. If its deletion is scheduled, the ban lasts until then, and beyond
-- until the given time if the account is kept.
-- Definer: the service role cannot write Supabase Auth's users and sessions.
create or replace function private.ban_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
  ends_at timestamptz := (change ->> 'until')::timestamptz;
  sessions bigint;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is null and (ends_at <= now() or ends_at > now() + interval '366 days') then
    refusal := 'until';
  end if;
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  if account.banned_until > now() then
    return private.account_conflict(account);
  end if;
  sessions := private.count_account_sessions(account.id);
  update private.account_deletions d
  set banned_until_before = coalesce(ends_at, private.permanent_ban_end())
  where d.user_id = account.id;
  perform private.end_account_access(
    change, account, case when found then private.permanent_ban_end() else coalesce(ends_at, private.permanent_ban_end()) end
  );
  perform private.notify_owner(
    account, 'account_banned', jsonb_build_object('reason', change ->> 'reason', 'until', ends_at)
  );
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.ban',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('banned', false, 'sessions', sessions),
    'after', jsonb_build_object('banned', true, 'bannedUntil', ends_at, 'sessions', 0)
  ));
  return '{}';
end
$$;

-- Lifts the ban of an account, and emails the reason to the owner. Sessions and apps stay ended. Takes { actor or
-- serviceAccount, subject, reason, requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself | protected
-- | deletion (the account will be deleted: keep it instead) }. If it is not banned, returns private.account_conflict.
-- Definer: the service role cannot write Supabase Auth's users.
create or replace function private.unban_account(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  refusal text;
begin
  if not private.may_change_console(change, 'admin:accounts:write') then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  account := private.lock_account((change ->> 'subject')::uuid);
  refusal := private.account_refusal(change, account);
  if refusal is null and exists (select from private.account_deletions d where d.user_id = account.id) then
    refusal := 'deletion';
  end if;
  if refusal is not null then
    return jsonb_build_object('refused', refusal);
  end if;
  if (account.banned_until > now()) is not true then
    return private.account_conflict(account);
  end if;
  perform private.write_ban(account.id, null);
  perform private.notify_owner(account, 'account_unbanned', jsonb_build_object('reason', change ->> 'reason'));
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.unban',
    'targetUserId', account.id,
    'target', private.account_target(account),
    'before', jsonb_build_object('banned', true, 'bannedUntil', account.banned_until),
    'after', jsonb_build_object('banned', false)
  ));
  return '{}';
end
$$;
