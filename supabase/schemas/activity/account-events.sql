-- Records account changes at the identity backend, whether our pages, a phone, the admin API or SQL made them. The
-- triggers of auth-schema.sql call these functions, which write an event and queue an email to the owner.
--
-- A trigger must not break the backend, so functions that record events turn their errors into warnings. Only
-- private.guard_addition and private.guard_email raise an error, to refuse a change.

-- Returns whether the owner is emailed about events of this kind. Excludes sign-ins, which are emailed only if they
-- come from a new location.
create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql immutable security invoker set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'deletion_canceled', 'deletion_requested',
    'device_approved', 'email_changed', 'identity_linked', 'identity_unlinked', 'mfa_made_optional', 'mfa_required',
    'other_sessions_revoked', 'passkey_added', 'passkey_removed', 'password_added', 'password_changed',
    'password_removed', 'recovery_code_sign_in', 'recovery_code_used', 'recovery_codes_created', 'session_revoked',
    'signed_out_by_admin', 'workspace_handed_over'
  )
$$;

-- Queues the email to an account's owner about an event. Does nothing if the owner has no email address.
create or replace function private.queue_event_mail(event public.security_events, recipient text) returns void
  language sql volatile security invoker set search_path = ''
as $$
  insert into private.outgoing_mails (recipient, event_id, next_attempt_at)
  -- The 15 seconds let our server add its details to the event before the email is sent
  -- (private.record_security_event).
  select queue_event_mail.recipient, (event).id, now() + interval '15 seconds'
  where char_length(queue_event_mail.recipient) between 3 and 320
$$;

-- Adds an event to an account's activity, queues the email about the event, and returns the event's id. Returns null if
-- the account doesn't exist. For definers that change an account in the same transaction.
create or replace function private.add_account_event(
  subject_id uuid,
  kind text,
  target_id uuid default null,
  session_id uuid default null,
  details jsonb default '{}'
) returns uuid
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account record;
  added public.security_events;
begin
  select u.email into account from auth.users u where u.id = subject_id and u.deleted_at is null;
  if not found then
    return null;
  end if;
  insert into public.security_events (user_id, kind, session_id, target_id, details)
  values (subject_id, add_account_event.kind, add_account_event.session_id, add_account_event.target_id, details)
  returning * into added;
  if private.is_told_by_mail(added.kind) then
    perform private.queue_event_mail(added, account.email);
  end if;
  return added.id;
end
$$;

-- Returns whether a sign-in is the account's first from this network with this program. Returns false for the very
-- first sign-in of an account.
create or replace function private.is_new_place(event public.security_events) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select count(*) > 0 and not coalesce(bool_or(
    private.truncate_address(s.ip) is not distinct from private.truncate_address((event).ip)
    -- Ignores version numbers, so that a sign-in after a browser update does not count as a new location.
    and regexp_replace(coalesce(s.user_agent, ''), '[0-9._]+', '', 'g')
      = regexp_replace(coalesce((event).user_agent, ''), '[0-9._]+', '', 'g')
  ), false)
  from public.security_events s
  where s.user_id = (event).user_id and s.kind = 'sign_in' and s.id <> (event).id
$$;

-- For each sign-in, the backend adds a session and then the method that was used. A method that is added to a session
-- later is a second factor.

-- Records a new session as a sign-in. Queues an email to the owner if the sign-in comes from a new location.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_sign_in() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  session record;
  added public.security_events;
begin
  if exists (
    select from auth.mfa_amr_claims a where a.session_id = new.session_id and a.id <> new.id
  ) or exists (
    select from public.security_events e where e.session_id = new.session_id and e.kind = 'sign_in'
  ) then
    return null;
  end if;
  select s.user_id, s.ip, s.user_agent, u.email
  into session
  from auth.sessions s
  join auth.users u on u.id = s.user_id and u.deleted_at is null
  where s.id = new.session_id;
  if not found then
    return null;
  end if;
  insert into public.security_events (user_id, kind, method, session_id, ip, user_agent)
  values (
    session.user_id, 'sign_in', left(new.authentication_method, 64), new.session_id, session.ip,
    left(session.user_agent, 512)
  )
  returning * into added;
  if private.is_new_place(added) then
    perform private.queue_event_mail(added, session.email);
  end if;
  return null;
exception when others then
  raise warning 'a sign-in was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Returns the scope of a sign-out (local, others or global), derived from the statement with which Supabase Auth ends
-- sessions. Returns null for every other statement, such as a cleanup or one that ends sessions below an assurance
-- level.
create or replace function private.sign_out_scope(statement text) returns text
  language sql immutable security invoker set search_path = ''
as $$
  select case regexp_replace(
      regexp_replace(lower(statement), '\$[0-9]+|''[^'']*''', '?', 'g'),
      '"|auth\.|;|\s', '', 'g'
    )
    when 'deletefromsessionswhereid=?' then 'local'
    when 'deletefromsessionswhereid!=?anduser_id=?' then 'others'
    when 'deletefromsessionswhereuser_id=?' then 'global'
  end
$$;

-- Records the sign-outs that Supabase Auth performs. Adds one event per account and statement.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_sign_outs() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  scope text := private.sign_out_scope(current_query());
  account record;
begin
  -- Skips deletions by a cascade, which run inside a trigger, and by our own functions, which record their own events.
  if pg_trigger_depth() > 1 or scope is null then
    return null;
  end if;
  for account in
    select e.user_id, (array_agg(e.id))[1] as session_id
    from ended e
    -- The change that ended the sessions, such as a new password, already has an event.
    where not exists (
      select from public.security_events s
      where s.user_id = e.user_id and s.created_at = now() and s.kind <> 'sign_in'
    )
    group by e.user_id
  loop
    case scope
      when 'local' then
        perform private.add_account_event(account.user_id, 'sign_out', session_id => account.session_id);
      when 'others' then
        perform private.add_account_event(account.user_id, 'other_sessions_revoked');
      else
        perform private.add_account_event(account.user_id, 'all_sessions_revoked');
    end case;
  end loop;
  return null;
exception when others then
  raise warning 'a sign-out was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Ends a session that our server created but no browser received, such as the session that a password check creates.
-- Also removes the session's sign-in from the account's activity. Returns true if the session existed.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.discard_session(subject_id uuid, target_id uuid) returns boolean
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  delete from public.security_events e
  where e.user_id = subject_id and e.session_id = discard_session.target_id and e.kind = 'sign_in' and e.device is null
    and e.created_at > now() - interval '2 minutes';
  return private.end_account_session(subject_id, discard_session.target_id);
end
$$;

-- Records a new password, a requested or completed change of email, a ban, and the end of a ban. A completed change of
-- email is announced to both addresses. Skips a ban that private.write_ban changes.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_account_change() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  event_id uuid;
begin
  -- Before its address is confirmed, an account has no owner; a deleted account has none any more.
  if new.deleted_at is not null or old.email_confirmed_at is null and old.last_sign_in_at is null then
    return null;
  end if;

  if coalesce(new.encrypted_password, '') <> '' and private.is_new_password(old.encrypted_password, new.encrypted_password) then
    perform private.add_account_event(
      new.id, case when coalesce(old.encrypted_password, '') = '' then 'password_added' else 'password_changed' end
    );
  end if;

  if coalesce(new.email_change, '') not in ('', coalesce(old.email_change, '')) then
    perform private.add_account_event(
      new.id, 'email_change_requested', details => jsonb_build_object('to', new.email_change)
    );
  end if;
  if lower(coalesce(new.email, '')) <> lower(coalesce(old.email, '')) then
    event_id := private.add_account_event(
      new.id, 'email_changed', details => jsonb_strip_nulls(jsonb_build_object(
        'from', nullif(old.email, ''), 'to', nullif(new.email, '')
      ))
    );
    perform private.queue_event_mail(e, old.email) from public.security_events e where e.id = event_id;
    -- An invitation admits one account, not one after each change of email.
    update private.account_invitations i
    set revoked_at = now()
    where i.email = lower(old.email) and i.revoked_at is null;
  end if;

  if current_setting('gatehouse.ban_writer', true) = 'on' then
    return null;
  elsif (old.banned_until > now()) is not true and new.banned_until > now() then
    -- An account that is created banned, such as an imported one, was never in use: its owner needs no mail.
    if not exists (select from public.profiles p where p.id = new.id and p.created_at = now()) then
      perform private.add_account_event(new.id, 'account_banned');
    end if;
  elsif old.banned_until > now() and (new.banned_until > now()) is not true then
    perform private.add_account_event(new.id, 'account_unbanned');
  end if;
  return null;
exception when others then
  raise warning 'an account''s change was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- The triggers that record additions, such as a new passkey, know the account, but not what the session has proved. So
-- an account with a verified factor accepts only additions that our server announced after step-up. On other accounts,
-- unannounced additions are marked unconfirmed until the owner keeps them.

-- Announces that an authenticator or passkey will be added to an account. The announcement is valid for one minute.
-- target is the authenticator's id, or the passkey's credential id in hexadecimal. Call this after step-up, before the
-- backend makes the addition.
create or replace function private.announce_addition(subject_id uuid, target text) returns void
  language sql volatile security invoker set search_path = ''
as $$
  delete from private.announced_additions a where a.expires_at < now();
  insert into private.announced_additions (target, user_id)
  values (announce_addition.target, subject_id)
  on conflict on constraint announced_additions_pkey do update
  set user_id = excluded.user_id, expires_at = excluded.expires_at
$$;

-- Returns whether private.announce_addition announced this authenticator or passkey and the announcement is still
-- valid. Deletes the announcement.
create or replace function private.is_announced(subject_id uuid, target text) returns boolean
  language sql volatile security invoker set search_path = ''
as $$
  with announced as (
    delete from private.announced_additions a
    where a.target = is_announced.target and a.user_id = subject_id and a.expires_at > now()
    returning a.target
  )
  select exists (select from announced)
$$;

-- Raises an error if the account already has a verified factor other than except_factor. Call this for additions that
-- were not announced with private.announce_addition.
create or replace function private.guard_addition(subject_id uuid, except_factor uuid default null) returns void
  language plpgsql stable security invoker set search_path = ''
as $$
begin
  if exists (
    select from auth.mfa_factors f
    where f.user_id = subject_id and f.status = 'verified' and f.id is distinct from except_factor
  ) then
    raise exception 'this account accepts additions only on its security page'
      using errcode = 'insufficient_privilege';
  end if;
end
$$;

-- Records an added identity, passkey or authenticator. Marks the addition as unconfirmed if our server did not announce
-- it.
create or replace function private.record_addition(
  subject_id uuid,
  addition text,
  target_id uuid,
  announced boolean,
  details jsonb
) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  if not announced then
    insert into private.unconfirmed_additions (target_id, user_id, kind) values (record_addition.target_id, subject_id, addition);
  end if;
  perform private.add_account_event(
    subject_id,
    case addition when 'identity' then 'identity_linked' else addition || '_added' end,
    record_addition.target_id,
    details => jsonb_strip_nulls(details)
  );
exception when others then
  raise warning 'an addition was not recorded: % %', sqlstate, sqlerrm;
end
$$;

-- Records a newly verified factor. If the account already has another verified factor, rejects a factor that our server
-- did not announce.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_authenticator_added() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  announced boolean := private.is_announced(new.user_id, new.id::text);
begin
  if not announced then
    perform private.guard_addition(new.user_id, except_factor => new.id);
  end if;
  perform private.record_addition(
    new.user_id, 'authenticator', new.id, announced, jsonb_build_object('name', left(new.friendly_name, 120))
  );
  return null;
end
$$;

-- Records a newly registered passkey. If the account has a verified factor, rejects a passkey that our server did not
-- announce.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_passkey_added() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  announced boolean := private.is_announced(new.user_id, encode(new.credential_id, 'hex'));
begin
  if not announced then
    perform private.guard_addition(new.user_id);
  end if;
  perform private.record_addition(
    new.user_id, 'passkey', new.id, announced, jsonb_build_object('passkey', left(new.friendly_name, 120))
  );
  return null;
end
$$;

-- Records a provider identity that was added to an account that has signed in before. The identity is confirmed if its
-- verified email is the account's own, because the backend links such an identity at a sign-in. Any other identity that
-- our pages did not link is rejected if the account has a verified factor.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_unconfirmed_identity() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account record;
  is_own_address boolean;
begin
  if new.provider in ('email', 'phone') or new.provider like 'sso:%' then
    return null;
  end if;
  select u.last_sign_in_at, u.email_confirmed_at, lower(u.email) as email
  into account
  from auth.users u
  where u.id = new.user_id;
  -- Linking an identity requires a sign-in. An account that has never signed in is still being created or has no owner
  -- yet.
  if account.last_sign_in_at is null then
    return null;
  end if;
  -- The backend applies the same rule when it links an identity to an existing account during a sign-in.
  is_own_address := new.identity_data -> 'email_verified' = 'true'::jsonb and (
    (account.email_confirmed_at is not null and account.email = new.email)
    or exists (
      select from auth.identities i
      where i.user_id = new.user_id
        and i.id <> new.id
        and i.email = new.email
        and i.identity_data -> 'email_verified' = 'true'::jsonb
        and not private.is_unconfirmed_identity(i.id)
    )
  );
  if is_own_address is not true then
    -- Does not record a link that our pages began. private.complete_oauth_attempt confirms and records the link when
    -- the account's own browser completes it.
    if exists (
      select from private.oauth_attempts a
      where a.user_id = new.user_id and a.purpose = 'link' and a.provider = new.provider
        and a.used_at is null and a.expires_at > now()
    ) then
      insert into private.unconfirmed_identities (identity_id) values (new.id);
      return null;
    end if;
    perform private.guard_addition(new.user_id);
  end if;
  perform private.record_addition(
    new.user_id, 'identity', new.id, is_own_address is true,
    jsonb_build_object('provider', new.provider, 'email', new.email)
  );
  return null;
end
$$;

-- Returns whether an identity is unconfirmed. An identity linked through our pages is confirmed when the link
-- completes. An identity linked directly at the backend is confirmed when the owner keeps it.
create or replace function private.is_unconfirmed_identity(of_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (select from private.unconfirmed_identities n where n.identity_id = of_id)
    or exists (select from private.unconfirmed_additions a where a.target_id = of_id)
$$;

-- Rejects a new email for an account if the only identities with that address are unconfirmed or unverified, because
-- password-reset emails could then reach another person. Also rejects removing the email if an unconfirmed identity has
-- no address.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.guard_email() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  if new.deleted_at is null and exists (
    select from auth.identities i
    where i.user_id = new.id
      and coalesce(i.email, '') = lower(coalesce(new.email, ''))
      and (
        private.is_unconfirmed_identity(i.id)
        or (i.email <> '' and i.identity_data -> 'email_verified' is distinct from 'true'::jsonb)
      )
  ) and not exists (
    select from auth.identities i
    where i.user_id = new.id
      and i.email = lower(new.email)
      and (
        -- The email identity already has an address that an administrator set, or that was confirmed from both the old
        -- and the new mailbox.
        i.provider = 'email'
        or (i.identity_data -> 'email_verified' = 'true'::jsonb and not private.is_unconfirmed_identity(i.id))
      )
  ) then
    raise exception 'an unconfirmed identity cannot give its address to the account'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;

-- Records the removal of an authenticator, a passkey or an identity. Skips accounts that have neither a confirmed email
-- nor a sign-in.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_removal() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  removed jsonb := to_jsonb(old);
  is_pending boolean := tg_table_name = 'identities'
    and exists (select from private.unconfirmed_identities n where n.identity_id = old.id);
begin
  delete from private.unconfirmed_additions a where a.target_id = old.id;
  -- Records nothing if a cascade deletes the row (cascades run inside a trigger). Records nothing for an account
  -- without a confirmed address, because the account is being cleaned up and has no owner yet.
  if pg_trigger_depth() > 1 or is_pending or not exists (
    select from auth.users u
    where u.id = old.user_id and (u.email_confirmed_at < now() or u.last_sign_in_at is not null)
  ) then
    return old;
  end if;
  if tg_table_name = 'mfa_factors' then
    -- Skips authenticators that a recovery removes, because the recovery has its own event.
    if removed ->> 'status' = 'verified' and not exists (
      select from auth.users u
      where u.id = old.user_id and private.required_mfa_state(u.raw_app_meta_data) = 'recovery_in_progress'
    ) then
      perform private.add_account_event(
        old.user_id, 'authenticator_removed', old.id,
        details => jsonb_strip_nulls(jsonb_build_object('name', left(removed ->> 'friendly_name', 120)))
      );
    end if;
  elsif tg_table_name = 'webauthn_credentials' then
    perform private.add_account_event(
      old.user_id, 'passkey_removed', old.id,
      details => jsonb_strip_nulls(jsonb_build_object('passkey', left(removed ->> 'friendly_name', 120)))
    );
  elsif removed ->> 'provider' not in ('email', 'phone')
    -- Records nothing for a new identity that a refused sign-in added, because the event that recorded the addition is
    -- deleted too.
    and current_setting('gatehouse.takes_back', true) is distinct from 'on' then
    perform private.add_account_event(
      old.user_id, 'identity_unlinked', old.id,
      details => jsonb_strip_nulls(jsonb_build_object('provider', removed ->> 'provider', 'email', removed ->> 'email'))
    );
  end if;
  return old;
exception when others then
  raise warning 'a removal was not recorded: % %', sqlstate, sqlerrm;
  return old;
end
$$;

-- Records a passkey's new name.
-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_passkey_renamed() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  perform private.add_account_event(
    new.user_id, 'passkey_renamed', new.id,
    details => jsonb_strip_nulls(jsonb_build_object('from', left(old.friendly_name, 120), 'to', left(new.friendly_name, 120)))
  );
  return null;
exception when others then
  raise warning 'a new name was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

-- Returns the id of the event that recorded the addition of an identity, passkey or authenticator; null if there is
-- none. For definers; not granted to any role.
create or replace function private.addition_event(subject_id uuid, added_id uuid, added_kind text) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select v.id
  from public.security_events v
  where v.user_id = subject_id and v.target_id = added_id and v.kind = added_kind
  order by v.created_at desc, v.id
  limit 1
$$;

-- Returns the part of an address that identifies a location: all of an IPv4 address, the /64 of an IPv6 address.
create or replace function private.truncate_address(address inet) returns inet
  language sql immutable security invoker
as $$
  -- A household or a phone can freely change the last 64 bits of its IPv6 address.
  select case when family(address) = 6 then network(set_masklen(address, 64))::inet else address end
$$;
