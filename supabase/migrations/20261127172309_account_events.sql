-- Generated from supabase/schemas by npm run db:migration.

-- Unused since 0.1.0: only other functions called it.
drop function private.notify_owner(jsonb, jsonb);

create or replace function private.addition_event(subject_id uuid, added_id uuid, added_kind text) returns uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select v.id
  from public.security_events v
  where v.user_id = subject_id and v.target_id = added_id and v.kind = added_kind
  order by v.created_at desc, v.id
  limit 1
$$;

create or replace function private.sign_in_event(subject_id uuid, signed_in_id uuid) returns uuid
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select v.id
  from public.security_events v
  where v.user_id = subject_id and v.session_id = signed_in_id and v.kind = 'sign_in'
  order by v.created_at desc, v.id
  limit 1
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot write.
create or replace function private.confirm_access(
  subject_id uuid,
  actor_session_id uuid,
  removals jsonb,
  usable_providers text[]
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  access jsonb;
  removed jsonb;
  passwords boolean;
  identities uuid[];
  passkeys uuid[];
  authenticators uuid[];
  methods_removed boolean;
  kept uuid[];
  ended jsonb;
begin
  -- One change of an account's credentials at a time: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id and u.deleted_at is null for update;
  if not found or not exists (select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id) then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if not private.may_change_access(subject_id, actor_session_id) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;

  access := private.account_access(subject_id, actor_session_id);
  -- Keys of other accounts, and of what is gone, match nothing.
  select
    coalesce(jsonb_agg(w), '[]'),
    coalesce(bool_or(w ->> 'kind' = 'password'), false),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'identity'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'passkey'), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'authenticator'), '{}'),
    coalesce(bool_or(w ->> 'kind' in ('password', 'identity', 'passkey')), false)
  into removed, passwords, identities, passkeys, authenticators, methods_removed
  from jsonb_array_elements(access -> 'ways') as w
  where removals -> 'remove' ? (w ->> 'key') and w ->> 'key' <> 'session:' || actor_session_id;

  select coalesce(array_agg((w ->> 'id')::uuid), '{}')
  into kept
  from jsonb_array_elements(access -> 'ways') as w
  where (w ->> 'unconfirmed')::boolean
    and removals -> 'listed' ? (w ->> 'key')
    and not removals -> 'remove' ? (w ->> 'key');

  if methods_removed
    and private.count_sign_in_methods(
      subject_id, usable_providers, without => identities || passkeys, without_password => passwords, confirming => kept
    ) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;
  if authenticators <> '{}'
    and private.required_mfa_state(account.raw_app_meta_data) <> 'optional'
    and not exists (
      select from auth.mfa_factors f
      where f.user_id = subject_id and f.status = 'verified' and f.id <> all (authenticators)
    ) then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  ended := private.end_dependent_sessions(subject_id, actor_session_id, removed);
  if identities <> '{}' then
    perform private.keep_email_identity(account);
    perform private.remove_identity(i.id) from unnest(identities) as i (id);
  end if;
  perform private.delete_auth_passkey(p.id) from unnest(passkeys) as p (id);
  perform private.delete_auth_factor(subject_id, f.id) from unnest(authenticators) as f (id);
  if authenticators <> '{}' and not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  if passwords then
    perform private.remove_password(subject_id);
  end if;
  perform private.end_app_of_account(subject_id, a.id)
  from private.apps a
  where a.name in (select w ->> 'id' from jsonb_array_elements(removed) as w where w ->> 'kind' = 'app');
  -- Triggers record the identities, passkeys and authenticators that went.
  perform private.add_account_event(
    subject_id, 'app_disconnected', session_id => actor_session_id, details => jsonb_build_object('app', w -> 'name')
  )
  from jsonb_array_elements(removed) as w
  where w ->> 'kind' = 'app';
  if passwords then
    perform private.add_account_event(subject_id, 'password_removed', session_id => actor_session_id);
  end if;
  if ended <> '[]' then
    perform private.add_account_event(subject_id, 'session_revoked', session_id => actor_session_id);
  end if;

  -- As of the moment of the list that the owner saw: what was added since then is new the next time, too.
  insert into private.access_confirmations as c (user_id, confirmed_at, confirmed_by_mail_at)
  select subject_id, l.seen_at, case when private.began_by_mail(subject_id, actor_session_id) then l.seen_at end
  from (select least((removals ->> 'listedAt')::timestamptz, now()) as seen_at) l
  on conflict (user_id) do update
  set confirmed_at = greatest(c.confirmed_at, excluded.confirmed_at),
      confirmed_by_mail_at = greatest(c.confirmed_by_mail_at, excluded.confirmed_by_mail_at);
  perform private.add_account_event(subject_id, 'access_confirmed', session_id => actor_session_id);
  delete from private.unconfirmed_additions n where n.user_id = subject_id and n.target_id = any (kept);
  return jsonb_build_object('outcome', 'confirmed', 'removed', removed, 'endedSessions', ended);
end
$$;

create or replace function private.began_by_mail(subject_id uuid, actor_session_id uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from public.security_events v
    where v.user_id = subject_id
      and v.session_id = actor_session_id
      and v.kind = 'sign_in'
      and v.method in ('password_reset', 'recovery')
  )
$$;

create or replace function private.end_dependent_sessions(subject_id uuid, kept_session_id uuid, removed jsonb)
  returns jsonb
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  ended jsonb;
  others_left boolean;
begin
  -- Supabase Auth does not record with which passkey, or with which account at a provider, a session signed in: all
  -- sessions of that method are signed out.
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', s.id, 'device', e.device, 'userAgent', s.user_agent
  )), '[]')
  into ended
  from auth.sessions s
  left join public.security_events e on e.id = private.sign_in_event(subject_id, s.id)
  where s.user_id = subject_id
    and s.id <> kept_session_id
    and exists (
      select
      from jsonb_array_elements(removed) as w
      where case w ->> 'kind'
        when 'session' then w ->> 'id' = s.id::text
        when 'authenticator' then w ->> 'id' = s.factor_id::text
        -- Our pages record the provider; a sign-in without them is recorded as oauth.
        when 'identity' then private.session_used_method(s.id, 'oauth')
          and coalesce(e.method not like 'oauth:%' or e.method = 'oauth:' || (w ->> 'provider'), true)
        when 'passkey' then private.session_used_method(s.id, 'passkey')
        when 'password' then private.session_used_method(s.id, 'password')
        else false
      end
    );
  perform private.end_account_session(subject_id, (x ->> 'id')::uuid) from jsonb_array_elements(ended) as x;
  return ended;
end
$$;

create or replace function private.session_used_method(target_id uuid, method text) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from auth.mfa_amr_claims c
    where c.session_id = target_id and c.authentication_method = session_used_method.method
  )
$$;

create or replace function private.is_told_by_mail(kind text) returns boolean
  language sql
  immutable
  security invoker
  set search_path = ''
as $$
  select kind in (
    'access_confirmed', 'account_banned', 'account_recovered', 'account_unbanned', 'account_export', 'all_sessions_revoked',
    'authenticator_added', 'authenticator_removed', 'authenticators_reset', 'email_changed', 'identity_linked',
    'identity_unlinked', 'mfa_made_optional', 'mfa_required', 'other_sessions_revoked', 'passkey_added',
    'passkey_removed', 'password_added', 'password_changed', 'password_removed', 'recovery_code_used',
    'recovery_codes_created', 'session_revoked', 'workspace_handed_over'
  )
$$;

create or replace function private.queue_event_mail(event public.security_events, recipient text) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.outgoing_mails (recipient, event_id, next_attempt_at)
  -- Our server describes the changes that it makes within this time.
  select queue_event_mail.recipient, (event).id, now() + interval '15 seconds'
  where char_length(queue_event_mail.recipient) between 3 and 320
$$;

create or replace function private.add_account_event(
  subject_id uuid,
  kind text,
  target_id uuid default null,
  session_id uuid default null,
  details jsonb default '{}'
) returns uuid
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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

create or replace function private.is_new_place(event public.security_events) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select count(*) > 0 and not coalesce(bool_or(
    private.truncate_address(s.ip) is not distinct from private.truncate_address((event).ip)
    -- Without version numbers, so that an update is not a new place.
    and regexp_replace(coalesce(s.user_agent, ''), '[0-9._]+', '', 'g')
      = regexp_replace(coalesce((event).user_agent, ''), '[0-9._]+', '', 'g')
  ), false)
  from public.security_events s
  where s.user_id = (event).user_id and s.kind = 'sign_in' and s.id <> (event).id
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_sign_in() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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

create or replace function private.sign_out_scope(statement text) returns text
  language sql
  immutable
  security invoker
  set search_path = ''
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

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_sign_outs() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  scope text := private.sign_out_scope(current_query());
  account record;
begin
  -- A cascade runs inside a trigger. Our own functions write their events themselves.
  if pg_trigger_depth() > 1 or scope is null then
    return null;
  end if;
  for account in
    select e.user_id, (array_agg(e.id))[1] as session_id
    from ended e
    -- The change that ended the sessions, such as a new password, is an event already.
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

-- Definer: sessions are Supabase Auth's, which the service role cannot write.
create or replace function private.discard_session(subject_id uuid, target_id uuid) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  delete from public.security_events e
  where e.user_id = subject_id and e.session_id = discard_session.target_id and e.kind = 'sign_in' and e.device is null
    and e.created_at > now() - interval '2 minutes';
  return private.end_account_session(subject_id, discard_session.target_id);
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_account_change() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  event_id uuid;
begin
  -- Before its address is confirmed an account has no owner yet. A deleted account has none any more.
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
  end if;

  if (old.banned_until > now()) is not true and new.banned_until > now() then
    perform private.add_account_event(new.id, 'account_banned');
  elsif old.banned_until > now() and (new.banned_until > now()) is not true then
    perform private.add_account_event(new.id, 'account_unbanned');
  end if;
  return null;
exception when others then
  raise warning 'an account''s change was not recorded: % %', sqlstate, sqlerrm;
  return null;
end
$$;

create or replace function private.announce_addition(subject_id uuid, target text) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from private.announced_additions a where a.expires_at < now();
  insert into private.announced_additions (target, user_id)
  values (announce_addition.target, subject_id)
  on conflict on constraint announced_additions_pkey do update
  set user_id = excluded.user_id, expires_at = excluded.expires_at
$$;

create or replace function private.is_announced(subject_id uuid, target text) returns boolean
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with announced as (
    delete from private.announced_additions a
    where a.target = is_announced.target and a.user_id = subject_id and a.expires_at > now()
    returning a.target
  )
  select exists (select from announced)
$$;

create or replace function private.guard_addition(subject_id uuid, except_factor uuid default null) returns void
  language plpgsql
  stable
  security invoker
  set search_path = ''
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

create or replace function private.record_addition(
  subject_id uuid,
  addition text,
  target_id uuid,
  announced boolean,
  details jsonb
) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
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

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_authenticator_added() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_passkey_added() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_unconfirmed_identity() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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
  -- Linking needs a sign-in. An account without one is being created, or waits for its owner.
  if account.last_sign_in_at is null then
    return null;
  end if;
  -- The rule by which the backend itself links at a sign-in.
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
    -- Our own link: private.complete_oauth_attempt confirms and records it, in the account's own browser.
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

create or replace function private.is_unconfirmed_identity(of_id uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (select from private.unconfirmed_identities n where n.identity_id = of_id)
    or exists (select from private.unconfirmed_additions a where a.target_id = of_id)
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.guard_email() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if new.deleted_at is null and exists (
    select from auth.identities i
    where i.user_id = new.id
      and coalesce(i.email, '') = lower(coalesce(new.email, ''))
      and private.is_unconfirmed_identity(i.id)
  ) and not exists (
    -- An address that both mailboxes or an administrator agreed to is the email identity's first.
    select from auth.identities i where i.user_id = new.id and i.provider = 'email' and i.email = lower(new.email)
  ) then
    raise exception 'an unconfirmed identity cannot give its address to the account'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_removal() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  removed jsonb := to_jsonb(old);
  is_pending boolean := tg_table_name = 'identities'
    and exists (select from private.unconfirmed_identities n where n.identity_id = old.id);
begin
  delete from private.unconfirmed_additions a where a.target_id = old.id;
  -- A cascade runs inside a trigger; an account without a confirmed address is cleaned up, and has no owner yet.
  if pg_trigger_depth() > 1 or is_pending or not exists (
    select from auth.users u
    where u.id = old.user_id and (u.email_confirmed_at < now() or u.last_sign_in_at is not null)
  ) then
    return old;
  end if;
  if tg_table_name = 'mfa_factors' then
    -- A recovery removes all of them, and is an event of its own.
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
    -- What the refused sign-in added is taken back with its event.
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

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.record_passkey_renamed() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
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

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_proper(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'account', jsonb_build_object(
      'id', u.id,
      'email', u.email,
      'newEmail', nullif(u.email_change, ''),
      'phone', nullif(u.phone, ''),
      'createdAt', u.created_at,
      'emailConfirmedAt', u.email_confirmed_at,
      'lastSignInAt', u.last_sign_in_at,
      'bannedUntil', u.banned_until,
      'hasPassword', coalesce(u.encrypted_password, '') <> '',
      'userMetadata', u.raw_user_meta_data,
      'appMetadata', u.raw_app_meta_data
    ),
    'profile', (
      select jsonb_build_object('displayName', p.display_name, 'avatarUrl', p.avatar_url, 'createdAt', p.created_at)
      from public.profiles p where p.id = u.id
    ),
    'linkedAccounts', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
      ) order by i.created_at), '[]')
      from auth.identities i where i.user_id = u.id
    ),
    'authenticators', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
      ) order by f.created_at), '[]')
      from auth.mfa_factors f where f.user_id = u.id
    ),
    'recoveryCodes', (
      select coalesce(jsonb_agg(
        jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at) order by c.created_at, c.id
      ), '[]')
      from private.mfa_recovery_codes c where c.user_id = u.id
    ),
    'passkeys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id, 'name', c.friendly_name, 'createdAt', c.created_at, 'lastUsedAt', c.last_used_at
      ) order by c.created_at), '[]')
      from auth.webauthn_credentials c where c.user_id = u.id
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      ) order by s.created_at), '[]')
      from auth.sessions s where s.user_id = u.id
    ),
    'securityEvents', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'userAgent', e.user_agent, 'details', e.details,
        'createdAt', e.created_at
      ) order by e.created_at), '[]')
      from public.security_events e where e.user_id = u.id
    ),
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'approvals', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      ) order by c.created_at), '[]')
      from private.login_challenges c where c.user_id = u.id
    ),
    'workspaces', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from u.id,
        'joinedAt', m.created_at
      ) order by m.created_at), '[]')
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = u.id
    ),
    'invitations', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'workspaceId', n.workspace_id, 'email', n.email, 'sentByYou', n.invited_by is not distinct from u.id,
        'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      ) order by n.created_at), '[]')
      from public.workspace_invitations n
      where n.invited_by = u.id or n.accepted_by = u.id or n.email = lower(u.email)
    ),
    'keys', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      ) order by k.created_at), '[]')
      from ai.keys k where k.created_by = u.id
    ),
    'credits', (
      select jsonb_build_object(
        'balance', a.balance::text,
        'ledger', (
          select coalesce(jsonb_agg(jsonb_build_object(
            'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
            'description', l.description, 'createdAt', l.created_at
          ) order by l.id), '[]')
          from ai.credit_ledger l where l.account_id = a.id
        )
      )
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

create or replace function private.claim_due_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, event jsonb, attempts smallint)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with forgotten as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  ), claimed as (
    update private.outgoing_mails m
    -- 4 minutes, 16, 64, 256, then twice a day: the last attempt comes after some three days.
    set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
    -- An array is read once. A join could run the limited query more often than that.
    where m.id = any (array(
      select due.id
      from private.outgoing_mails due
      join (
        select w.id, row_number() over (partition by w.recipient order by w.next_attempt_at) as turn
        from private.outgoing_mails w
        where w.next_attempt_at <= now() and w.attempts < 12 and w.created_at >= now() - interval '7 days'
      ) waiting on waiting.id = due.id
      -- Again, since another caller may have taken it in between.
      where due.next_attempt_at <= now()
      -- In turns, so that many mails to one recipient do not delay the mails of others.
      order by waiting.turn, due.next_attempt_at
      limit max_mails
      for update of due skip locked
    ))
    returning m.*
  )
  select c.id, c.recipient, c.subject, c.body,
    case when e.id is not null then jsonb_build_object(
      'kind', e.kind,
      'method', e.method,
      'ip', host(e.ip),
      'userAgent', e.user_agent,
      'device', e.device,
      'details', e.details,
      'createdAt', e.created_at,
      'unconfirmed', exists (select from private.unconfirmed_additions a where a.target_id = e.target_id)
    ) end,
    c.attempts
  from claimed c
  left join public.security_events e on e.id = c.event_id
$$;

-- Unused since 0.2.0. Servers of release 0.1.0 know mails with a text alone.
create or replace function private.claim_outgoing_mails(max_mails integer)
  returns table (id uuid, recipient text, subject text, body text, attempts smallint)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with forgotten as (
    delete from private.outgoing_mails m where m.created_at < now() - interval '7 days'
  )
  update private.outgoing_mails m
  -- 4 minutes, 16, 64, 256, then twice a day: the last attempt comes after some three days.
  set attempts = m.attempts + 1, next_attempt_at = now() + interval '1 minute' * least(power(4, m.attempts), 720)
  where m.id = any (array(
    select due.id
    from private.outgoing_mails due
    where due.event_id is null and due.next_attempt_at <= now() and due.attempts < 12 and due.created_at >= now() - interval '7 days'
    order by due.next_attempt_at
    limit max_mails
    for update skip locked
  ))
  returning m.id, m.recipient, m.subject, m.body, m.attempts
$$;

-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  subject uuid := (event ->> 'userId')::uuid;
  session uuid := (event ->> 'sessionId')::uuid;
  owner_email text;
  recorded public.security_events;
begin
  select u.email into owner_email from auth.users u where u.id = subject and u.deleted_at is null;
  if not found then
    return null;
  end if;

  -- A trigger may have recorded the change already: then the event learns where our server was asked for it.
  update public.security_events s
  set kind = event ->> 'kind',
      method = coalesce(event ->> 'method', s.method),
      session_id = coalesce(session, s.session_id),
      ip = (event ->> 'ip')::inet,
      user_agent = event ->> 'userAgent',
      device = event ->> 'device',
      details = s.details || coalesce(event -> 'details', '{}')
  where s.id = (
    select e.id
    from public.security_events e
    where e.user_id = subject
      and e.created_at > now() - interval '2 minutes'
      and e.device is null
      and case event ->> 'kind'
        when 'sign_in' then e.kind = 'sign_in' and e.session_id = session
        -- The backend sees a recovery as a sign-in.
        when 'account_recovered' then e.kind = 'sign_in' and e.session_id = session
        when 'sign_out' then e.kind = 'sign_out' and e.session_id = session
        else e.kind = event ->> 'kind'
      end
    order by e.created_at desc, e.id
    limit 1
    for update
  )
  returning s.* into recorded;
  if not found then
    insert into public.security_events (user_id, kind, method, session_id, ip, user_agent, device, details)
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'ip')::inet,
      event ->> 'userAgent',
      event ->> 'device',
      coalesce(event -> 'details', '{}')
    )
    returning * into recorded;
  end if;

  if recorded.kind = 'sign_in' and (
    not private.is_new_place(recorded)
    -- The mail about the recovery says it.
    or exists (
      select from public.security_events r where r.session_id = recorded.session_id and r.kind = 'account_recovered'
    )
  ) then
    delete from private.outgoing_mails m where m.event_id = recorded.id;
  elsif (recorded.kind = 'sign_in' or private.is_told_by_mail(recorded.kind))
    and not exists (select from private.outgoing_mails m where m.event_id = recorded.id) then
    perform private.queue_event_mail(recorded, owner_email);
  end if;

  -- The event is complete: its mails can go out.
  update private.outgoing_mails m set next_attempt_at = now() where m.event_id = recorded.id and m.attempts = 1;

  return jsonb_build_object(
    'id', recorded.id,
    'createdAt', recorded.created_at,
    -- Servers of release 0.1.0 send a mail of their own to this address.
    'email', null,
    'newPlace', false
  );
end
$$;

-- Definer: whoever ends sessions need not reach the gateway's tables.
create or replace function private.disconnect_app(subject_id uuid, app_name text, event jsonb) returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
begin
  select * into app from private.apps_ever_connected(subject_id) a where a.name = disconnect_app.app_name;
  if not found then
    return 'not_found';
  end if;
  if private.end_app_of_account(subject_id, app.id) = 0 then
    return 'over';
  end if;
  perform private.record_security_event(
    event || jsonb_build_object('userId', subject_id, 'details', jsonb_build_object('app', app.display_name))
  );
  return 'disconnected';
end
$$;

-- Definer: the identity backend changes its users, and holds no grant here.
create or replace function private.revoke_user_app_credentials() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  if not private.is_new_password(old.encrypted_password, new.encrypted_password)
    and old.banned_until is not distinct from new.banned_until
    and old.deleted_at is not distinct from new.deleted_at then
    return null;
  end if;
  perform private.end_apps_of_account(new.id);
  return null;
end
$$;

create or replace function private.end_apps_of_account(subject_id uuid) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  update private.cross_app_tokens t set revoked_at = now() where t.user_id = subject_id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.user_id = subject_id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.user_id = subject_id and t.revoked_at is null;
end
$$;

create or replace function private.end_app_of_account(subject_id uuid, ended_app_id uuid) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  part integer;
  ended integer := 0;
begin
  perform private.lock_app_credentials(subject_id);
  -- In the order in which one is made from the other, so that a redemption under way is waited for and its result is
  -- found next. One that began just before its token expired, or renewed it, is included.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.app_id = ended_app_id
    and t.redeemed_at is null
    and t.revoked_at is null
    and t.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id and s.app_id = ended_app_id and s.revoked_at is null and s.ends_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and t.app_id = ended_app_id and t.revoked_at is null and t.refresh_expires_at > now();
  get diagnostics part = row_count;
  return ended + part;
end
$$;

create or replace function private.end_all_access(subject_id uuid) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  ended integer;
begin
  perform from auth.users u where u.id = subject_id for update;
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended
  from auth.sessions s
  where s.user_id = subject_id;
  perform private.end_apps_of_account(subject_id);
  return ended;
end
$$;

-- Definer: sessions are Supabase Auth's, and app tokens the gateway's, which the service role cannot write.
create or replace function private.sign_out_everywhere(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  ended integer := private.end_all_access(subject_id);
begin
  perform private.add_account_event(subject_id, 'all_sessions_revoked', session_id => actor_session_id)
  where ended > 0;
  return ended;
end
$$;

-- Definer: sessions are Supabase Auth's, which the service role cannot write. Its own sign-out does not say whether it
-- ended any.
create or replace function private.end_other_sessions(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  ended integer;
begin
  perform from auth.users u where u.id = subject_id for update;
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended
  from auth.sessions s
  where s.user_id = subject_id and s.id <> actor_session_id;
  perform private.add_account_event(subject_id, 'other_sessions_revoked', session_id => actor_session_id)
  where ended > 0;
  return ended;
end
$$;

create or replace function private.find_app_by_origin(origin text) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select jsonb_build_object(
    'name', a.name, 'displayName', a.display_name, 'enabled', a.enabled, 'scopes', a.scopes
  )
  from private.app_origins o
  join private.apps a on a.id = o.app_id
  where o.origin = find_app_by_origin.origin
$$;

do $guard$
begin
  if to_regclass('auth.mfa_amr_claims') is not null then
-- Every change of an account is recorded and mailed, also without our server (accounts/account-events.sql).
create or replace trigger record_sign_in after insert on auth.mfa_amr_claims
  for each row execute function private.record_sign_in();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.sessions') is not null then
create or replace trigger record_sign_outs after delete on auth.sessions
  referencing old table as ended
  for each statement execute function private.record_sign_outs();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
create or replace trigger record_account_change
  after update of encrypted_password, email, email_change, banned_until on auth.users
  for each row execute function private.record_account_change();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.users') is not null then
-- Auth gives the account another identity's address when the one that carries its own is unlinked.
create or replace trigger guard_email before update of email on auth.users
  for each row when (old.email is distinct from new.email) execute function private.guard_email();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.mfa_factors') is not null then
create or replace trigger record_authenticator_added after update of status on auth.mfa_factors
  for each row when (new.status = 'verified' and old.status <> 'verified')
  execute function private.record_authenticator_added();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.mfa_factors') is not null then
create or replace trigger record_authenticator_removed before delete on auth.mfa_factors
  for each row execute function private.record_removal();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.identities') is not null then
create or replace trigger record_identity_removed before delete on auth.identities
  for each row execute function private.record_removal();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.webauthn_credentials') is not null then
create or replace trigger record_passkey_added after insert on auth.webauthn_credentials
  for each row execute function private.record_passkey_added();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.webauthn_credentials') is not null then
create or replace trigger record_passkey_renamed after update of friendly_name on auth.webauthn_credentials
  for each row when (old.friendly_name is distinct from new.friendly_name)
  execute function private.record_passkey_renamed();
  end if;
end
$guard$;

do $guard$
begin
  if to_regclass('auth.webauthn_credentials') is not null then
create or replace trigger record_passkey_removed before delete on auth.webauthn_credentials
  for each row execute function private.record_removal();
  end if;
end
$guard$;

-- With database encryption, Auth encrypts a stored hash at a sign-in, by a statement that sets no other column of ours. A
-- new password voids the mailed tokens in its statement.
create or replace function private.is_new_password(stored text, hash text) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select hash is distinct from stored and not (coalesce(hash, '') like '{%' and current_query() not like '%recovery_token%')
$$;

-- The API changes passwords, but cannot remove one.
create or replace function private.remove_password(subject_id uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  update auth.users u set encrypted_password = '', updated_at = now() where u.id = subject_id
$$;

-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'id', u.id,
    'email', u.email,
    'displayName', (select p.display_name from public.profiles p where p.id = u.id),
    'singleSignOn', u.is_sso_user,
    'createdAt', u.created_at,
    'confirmedAt', u.email_confirmed_at,
    'lastSignInAt', u.last_sign_in_at,
    'bannedUntil', case when u.banned_until > now() then u.banned_until end,
    'infrastructureAdmin', exists (select from private.infrastructure_admins a where a.user_id = u.id),
    'methods', private.list_sign_in_methods(u.id),
    'factors', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', f.id,
        'name', f.friendly_name,
        'type', f.factor_type,
        'verified', f.status = 'verified',
        'createdAt', f.created_at,
        'lastUsedAt', f.last_challenged_at
      ) order by f.created_at, f.id), '[]')
      from auth.mfa_factors f
      where f.user_id = u.id
    ),
    'sessions', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', s.id,
        'createdAt', s.created_at,
        'lastSeenAt', s.last_seen_at,
        'ip', s.ip,
        'device', s.device,
        'userAgent', s.user_agent,
        'method', s.method,
        'aal', s.aal
      ) order by s.last_seen_at desc, s.id), '[]')
      from private.account_sessions(u.id) s
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

-- Definer: factors and sessions are the identity backend's, which the service role cannot write.
create or replace function private.delete_authenticator(
  subject_id uuid,
  actor_session_id uuid,
  target_id uuid,
  event jsonb,
  mail jsonb default null
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target auth.mfa_factors;
  last boolean;
begin
  -- One at a time for each account, as every change of its policy: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select f.* into target
  from auth.mfa_factors f
  where f.id = target_id and f.user_id = subject_id and f.factor_type = 'totp' and f.status = 'verified';
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  -- The backend's own rule: who has an authenticator has used it in this session.
  if not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;
  last := not exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.id <> target_id and f.status = 'verified'
  );
  if last and private.required_mfa_state(account.raw_app_meta_data) <> 'optional' then
    return jsonb_build_object('outcome', 'last_of_required');
  end if;

  perform private.delete_auth_factor(subject_id, target_id);
  if last then
    delete from private.mfa_recovery_codes c where c.user_id = subject_id;
  end if;
  -- Servers of release 0.1.0 give the mail's text, and read its id.
  perform private.record_security_event(event);
  return '{"outcome": "deleted", "mailId": null, "recipient": null}';
end
$$;

-- Definer: the policy is in the identity backend's table, which the service role cannot write. The actor's id comes from
-- a session that our server verified: the service role is our server alone. So is the switch
-- REQUIRED_MFA_POLICY_ENABLED, which it asks before it calls; nothing in the database knows of it, and enforcement never.
create or replace function private.change_required_mfa(change jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  subject uuid := (change ->> 'subject')::uuid;
  step text := change ->> 'step';
  account auth.users;
  state text;
  changes jsonb;
  written jsonb;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = subject then
    return jsonb_build_object('refused', 'oneself');
  end if;
  if public.required_mfa_enforcement_version() <> 1 then
    return jsonb_build_object('refused', 'not_enforced');
  end if;
  select * into account from auth.users u where u.id = subject and u.deleted_at is null for update;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  state := private.required_mfa_state(account.raw_app_meta_data);
  -- Compare and swap: whoever decided on another policy than this one decides anew.
  if (change ->> 'generation')::bigint
    is distinct from coalesce(private.required_mfa_generation(account.raw_app_meta_data), 0) then
    return jsonb_build_object('refused', 'conflict');
  end if;

  if step in ('require', 'make_optional') then
    if state = 'recovery_in_progress' then
      return jsonb_build_object('refused', 'in_progress');
    end if;
    if (state = 'required') = (step = 'require') and state <> 'malformed' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    changes := jsonb_build_object('required', step = 'require');
  elsif step = 'begin_reset' then
    changes := '{"recovery": "in_progress", "signInAgain": true}';
    -- One that waits at the challenge must not open by the challenge's going away.
    perform private.delete_auth_sessions(subject);
    -- Nor may a recovery code, half-used or not, of who was locked out here end the reset.
    delete from private.mfa_recovery_codes c where c.user_id = subject;
  elsif step = 'finish_reset' then
    if state <> 'recovery_in_progress' then
      return jsonb_build_object('refused', 'unchanged');
    end if;
    if exists (select from auth.mfa_factors f where f.user_id = subject) then
      return jsonb_build_object('refused', 'factors_left');
    end if;
    changes := '{"recovery": "none"}';
  else
    raise exception 'there is no such step' using errcode = 'invalid_parameter_value';
  end if;

  written := private.write_required_mfa_policy(account, changes);
  insert into private.admin_audit_log (
    actor_id, action, target_user_id, target, reason, before, after, request_id, ip
  )
  values (
    actor, 'required_mfa.' || step, subject, account.email, change ->> 'reason',
    account.raw_app_meta_data -> 'platform_required_mfa', written, change ->> 'requestId', (change ->> 'ip')::inet
  );
  perform private.add_account_event(subject, told)
  from (values ('require', 'mfa_required'), ('make_optional', 'mfa_made_optional'), ('finish_reset', 'authenticators_reset'))
    as e (of_step, told)
  where e.of_step = step;
  return jsonb_build_object('policy', written);
end
$$;

-- Definer: the policy is in the identity backend's table, which the service role may not write.
create or replace function private.begin_mfa_recovery(subject_id uuid, current_session_id uuid, code_hash text default null)
  returns uuid
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  begun uuid;
begin
  -- First the account, as every change of a policy does, so that no two wait for each other.
  select * into account from auth.users u where u.id = subject_id for update;
  -- A policy that nobody can read is an admin's to mend.
  if not found or private.required_mfa_state(account.raw_app_meta_data) = 'malformed' then
    return null;
  end if;
  update private.mfa_recovery_codes c
  set used_at = coalesce(c.used_at, now()),
      session_id = current_session_id,
      lease_expires_at = now() + interval '30 seconds'
  where c.user_id = subject_id
    and c.completed_at is null
    and (c.used_at is null or c.used_at > now() - interval '24 hours')
    and (c.lease_expires_at is null or c.lease_expires_at <= now())
    and c.id = (
      select d.id
      from private.mfa_recovery_codes d
      where d.user_id = subject_id
        and d.completed_at is null
        and case
          when begin_mfa_recovery.code_hash is null then d.used_at is not null and d.session_id = current_session_id
          else d.code_hash = decode(begin_mfa_recovery.code_hash, 'hex')
        end
      order by d.used_at desc nulls last
      limit 1
    )
  returning c.id into begun;
  if begun is not null then
    -- A session that was stuck at the challenge must not open when the challenge is gone.
    perform private.end_account_session(subject_id, s.id)
    from auth.sessions s
    where s.user_id = subject_id and s.id <> current_session_id;
    perform private.end_apps_of_account(subject_id);
    -- No signInAgain: this session signed in to use the code, and every other one is ended.
    update private.mfa_recovery_codes c
    set generation = (private.write_required_mfa_policy(account, '{"recovery": "in_progress"}') ->> 'generation')::bigint
    where c.id = begun;
  end if;
  return begun;
end
$$;

create or replace function private.describe_auth_triggers() returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  with tables as (
    select c.oid, c.relname as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'auth' and c.relkind in ('r', 'p')
  ), triggers as (
    select c.name as table_name, t.tgname as name, t.tgenabled in ('O', 'A') as enabled,
      format('%I.%I', n.nspname, p.proname) as function
    from pg_trigger t join tables c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
      join pg_namespace n on n.oid = p.pronamespace
    where not t.tgisinternal and t.tgparentid = 0
  )
  select jsonb_build_object(
    'tables', (select coalesce(jsonb_agg(c.name order by c.name), '[]') from tables c),
    'triggers', (
      select coalesce(
        jsonb_agg(
          jsonb_build_object('table', t.table_name, 'name', t.name, 'enabled', t.enabled, 'function', t.function)
          order by t.table_name, t.name
        ),
        '[]'
      )
      from triggers t
    )
  )
$$;

-- Definer: the service role cannot read the record of migrations.
create or replace function private.describe_database() returns jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  applied jsonb;
begin
  if to_regclass('supabase_migrations.schema_migrations') is not null then
    execute 'select jsonb_agg(m.version order by m.version) from supabase_migrations.schema_migrations m' into applied;
  end if;
  return jsonb_build_object(
    'postgres', current_setting('server_version_num')::integer,
    'migrations', coalesce(applied, '[]'),
    'objects', private.describe_objects(),
    'auth', private.describe_auth_triggers()
  );
end
$$;

-- Definer: accounts and their policies are the identity backend's, which the service role can neither read nor write.
create or replace function private.consume_recovery_credential(request jsonb) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  credential private.recovery_credentials;
  found_id uuid;
  of_email text;
  verdict text;
  account auth.users;
  written jsonb;
begin
  select c.id, c.email into found_id, of_email
  from private.recovery_credentials c
  where case
    when request ? 'tokenHash' then c.token_hash = decode(request ->> 'tokenHash', 'hex')
    else c.email = lower(request ->> 'email')
  end
  order by c.consumed_at is null and c.superseded_at is null desc, c.created_at desc
  limit 1;
  if found then
    -- The email first, then the credential, by link and by code, so that no two wait for each other.
    insert into private.recovery_code_guesses (email) values (of_email) on conflict do nothing;
    perform from private.recovery_code_guesses g where g.email = of_email for update;
    select * into credential from private.recovery_credentials c where c.id = found_id for update;
  end if;
  verdict := private.check_recovery_credential(credential, decode(request ->> 'codeHash', 'hex'));
  if verdict <> 'good' then
    perform private.record_recovery_event((request - 'email') || jsonb_build_object(
      'kind', 'reject', 'outcome', verdict, 'email', of_email, 'overrideId', credential.override_id,
      'credentialId', credential.id
    ));
    return '{"outcome": "rejected"}';
  end if;

  update private.recovery_credentials c set consumed_at = now() where c.id = credential.id;
  -- A link proves the mailbox, and does not open what guesses at the codes have locked.
  delete from private.recovery_code_guesses g
  where g.email = of_email and (g.locked_until is null or g.locked_until <= now());
  select * into account
  from auth.users u
  where lower(u.email) = of_email and u.deleted_at is null and not u.is_sso_user
  for update;
  perform private.record_recovery_event((request - 'email') || jsonb_build_object(
    'kind', 'consume', 'outcome', case when request ? 'tokenHash' then 'by_link' else 'by_code' end,
    'email', of_email, 'overrideId', credential.override_id, 'credentialId', credential.id, 'userId', account.id
  ));
  perform private.end_all_access(account.id);
  -- Whoever comes back proves everything anew. A policy that nobody can read is an admin's to mend.
  if account.id is not null and private.required_mfa_state(account.raw_app_meta_data) <> 'malformed' then
    written := private.write_required_mfa_policy(account, '{"signInAgain": true}');
  end if;
  return jsonb_build_object(
    'outcome', 'consumed',
    'credentialId', credential.id,
    'overrideId', credential.override_id,
    'email', of_email,
    'userId', account.id,
    'banned', coalesce(account.banned_until > now(), false),
    'confirmed', account.email_confirmed_at is not null,
    'waitMs', coalesce(greatest(
      0, ceil(((written ->> 'primaryBoundary')::bigint + 1 - extract(epoch from clock_timestamp())) * 1000)
    ), 0)
  );
end
$$;

-- Definer: passwords, passkeys and identities are the identity backend's, which the service role cannot read.
create or replace function private.list_sign_in_methods(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'password', coalesce(u.encrypted_password, '') <> '' and u.email_confirmed_at is not null,
    'passkeys', (select count(*) from auth.webauthn_credentials c where c.user_id = u.id),
    'identities', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', i.id,
        'provider', i.provider,
        'email', i.email,
        'createdAt', i.created_at,
        'lastSignInAt', i.last_sign_in_at,
        'unconfirmed', exists (select from private.unconfirmed_additions a where a.target_id = i.id)
      ) order by i.created_at, i.id), '[]')
      from auth.identities i
      where i.user_id = u.id
        and not exists (select from private.unconfirmed_identities n where n.identity_id = i.id)
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

create or replace function private.count_sign_in_methods(
  subject_id uuid,
  usable_providers text[],
  without uuid[],
  without_password boolean default false,
  confirming uuid[] default '{}'
) returns bigint
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select (methods -> 'password' = 'true'::jsonb and not without_password)::integer
    + (select count(*) from auth.webauthn_credentials c where c.user_id = subject_id and c.id <> all (without))
    + (
      select count(*)
      from jsonb_to_recordset(methods -> 'identities') as i (id uuid, provider text, unconfirmed boolean)
      where i.provider = any (usable_providers)
        and i.id <> all (without)
        and (not i.unconfirmed or i.id = any (confirming))
    )
  from private.list_sign_in_methods(subject_id) as methods
$$;

-- Definer: identities are in Supabase Auth's tables. Its own call would refuse where one identity is left beside a
-- password or a passkey, allow where what is left does not work, and give the account another identity's address; and
-- between a count of ours and its deletion another one could be taken away.
create or replace function private.unlink_identity(subject_id uuid, target_id uuid, usable_providers text[]) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  account auth.users;
  target record;
begin
  -- One at a time for each account: the next one counts what this one left.
  select u.* into account from auth.users u where u.id = subject_id for update;
  select m.id, m.provider, m.email
  into target
  from jsonb_to_recordset(private.list_sign_in_methods(subject_id) -> 'identities') as m (
    id uuid, provider text, email text
  )
  where m.id = target_id;
  if not found then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if target.provider in ('email', 'phone') then
    return jsonb_build_object('outcome', 'not_unlinkable');
  end if;
  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target.id]) = 0 then
    return jsonb_build_object('outcome', 'last_method');
  end if;

  perform private.keep_email_identity(account);
  perform private.remove_identity(target.id);
  return jsonb_build_object('outcome', 'unlinked', 'provider', target.provider, 'email', target.email);
end
$$;

create or replace function private.keep_email_identity(account auth.users) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  if account.email_confirmed_at is not null and not exists (
    select from auth.identities i where i.user_id = account.id and i.provider = 'email'
  ) then
    perform private.add_email_identity(account);
  end if;
end
$$;

-- Definer: flows and identities are the identity backend's, which the service role cannot read.
create or replace function private.inspect_oauth_attempt(attempt_hash text, code text, challenge text) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select jsonb_build_object(
    'flow', (
      select jsonb_build_object(
        'userId', u.id,
        'email', u.email,
        'closed', u.deleted_at is not null or coalesce(u.banned_until > now(), false),
        'linkedTo', f.linking_target_id,
        'identity', jsonb_build_object(
          'email', i.email,
          'issuer', i.identity_data ->> 'iss',
          'confirmed', not private.is_unconfirmed_identity(i.id)
        )
      )
      from auth.flow_state f
      join auth.users u on u.id = f.user_id
      -- The backend wrote the flow's end and its identity in one transaction: that names the very identity.
      join auth.identities i on i.user_id = f.user_id and i.provider = f.provider_type and i.xmin = f.xmin
      where f.auth_code = inspect_oauth_attempt.code
        and f.code_challenge = inspect_oauth_attempt.challenge
        and f.provider_type = a.provider
    )
  )
  from private.oauth_attempts a
  where a.state_hash = decode(attempt_hash, 'hex') and a.used_at is null and a.expires_at > now()
$$;

-- Definer: undoes what the identity backend did, which the service role may not.
create or replace function private.complete_oauth_attempt(attempt_hash text, code text, challenge text, verdict text) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  attempt private.oauth_attempts;
  flow record;
  identity record;
begin
  update private.oauth_attempts a
  set used_at = now()
  where a.state_hash = decode(attempt_hash, 'hex')
    and a.used_at is null
    and a.expires_at > now()
    and verdict = any (case a.purpose when 'link' then array['link', 'refuse'] else array['sign_in', 'refuse'] end)
  returning a.* into attempt;
  if not found then
    return false;
  end if;
  if verdict = 'sign_in' then
    return true;
  end if;

  select f.id, f.xmin as written_by, f.user_id, f.linking_target_id, f.provider_type, f.created_at
  into flow
  from auth.flow_state f
  where f.auth_code = code and f.code_challenge = challenge and f.provider_type = attempt.provider
  for update;
  if not found then
    return verdict = 'refuse';
  end if;
  select i.id, i.provider, i.email,
    -- A direct call may have linked it since the flow began: that stays on record.
    i.created_at >= flow.created_at
      and not exists (select from private.unconfirmed_additions a where a.target_id = i.id) as is_new,
    i.created_at >= flow.created_at or private.is_unconfirmed_identity(i.id) as may_go
  into identity
  from auth.identities i
  where i.user_id = flow.user_id and i.provider = flow.provider_type and i.xmin = flow.written_by;

  -- The code is good for nothing any more: a link needs no session, and what is refused gets none.
  perform private.delete_auth_flow(flow.id);

  if verdict = 'link' then
    if identity.id is null or flow.linking_target_id is distinct from attempt.user_id then
      return false;
    end if;
    delete from private.unconfirmed_identities n where n.identity_id = identity.id;
    if found then
      perform private.record_addition(
        attempt.user_id, 'identity', identity.id, true,
        jsonb_build_object('provider', identity.provider, 'email', identity.email)
      );
    end if;
    return true;
  end if;

  if not private.delete_unused_auth_user(flow.user_id, flow.created_at) and identity.may_go then
    delete from public.security_events e
    where e.target_id = identity.id and e.created_at >= flow.created_at and identity.is_new;
    perform set_config('gatehouse.takes_back', case when identity.is_new then 'on' else 'off' end, true);
    perform private.remove_identity(identity.id);
    perform set_config('gatehouse.takes_back', 'off', true);
  end if;
  return true;
end
$$;

-- Definer: passkeys are the identity backend's, which the service role cannot read. The backend's own call would leave
-- an account without any way in; and between a count of ours and its deletion another way could be taken away.
create or replace function private.delete_passkey(subject_id uuid, actor_session_id uuid, target_id uuid, usable_providers text[])
  returns text
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- One at a time for each account, as private.unlink_identity: the next one counts what this one left.
  perform from auth.users u where u.id = subject_id for update;
  if not exists (
    select from auth.webauthn_credentials c where c.id = target_id and c.user_id = subject_id
  ) then
    return 'not_found';
  end if;
  -- The backend's own rule: who has an authenticator has used it in this session.
  if exists (
    select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified'
  ) and not exists (
    select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
  ) then
    return 'insufficient_aal';
  end if;

  if private.count_sign_in_methods(subject_id, usable_providers, without => array[target_id]) = 0 then
    return 'last_method';
  end if;
  perform private.delete_auth_passkey(target_id);
  return 'deleted';
end
$$;

create or replace function private.read_qr_request(request jsonb) returns jsonb
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select coalesce((
    select case
      when c.user_id <> (request ->> 'userId')::uuid or c.session_id = (request ->> 'sessionId')::uuid
        then jsonb_build_object('outcome', 'forbidden')
      else jsonb_build_object(
        'outcome', 'known',
        'id', c.id,
        'status', private.login_challenge_state(c),
        'createdAt', c.created_at,
        'expiresAt', c.expires_at,
        'metadata', c.request_metadata
      )
    end
    from private.login_challenges c
    where c.id = (request ->> 'id')::uuid and c.kind = 'qr' and c.secret_hash = (request ->> 'secretHash')::bytea
  ), jsonb_build_object('outcome', 'not_found'))
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(subject_id uuid, actor_session_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since,
      private.list_sign_in_methods(u.id) as methods
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- Somebody who knew the password could have confirmed their own additions.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      1 as position,
      'password' as kind,
      null::text as id,
      null::text as name,
      null::text as user_agent,
      null::text as provider,
      coalesce(e.created_at, a.created_at) as added_at,
      (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) as last_used_at,
      e.id as event_id
    from account a
    left join lateral (
      select v.id, v.created_at
      from public.security_events v
      where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
      order by v.created_at desc, v.id
      limit 1
    ) e on true
    where a.methods -> 'password' = 'true'::jsonb

    union all
    select
      2, 'identity', i.id::text, i.email, null, i.provider,
      -- Supabase Auth makes a new account and its first identity in one call, at two readings of the clock.
      case when i."createdAt" < a.created_at + interval '500 milliseconds' then a.created_at else i."createdAt" end,
      i."lastSignInAt",
      private.addition_event(a.id, i.id, 'identity_linked')
    from account a
    cross join lateral jsonb_to_recordset(a.methods -> 'identities') as i (
      id uuid, provider text, email text, "createdAt" timestamptz, "lastSignInAt" timestamptz
    )
    where i.provider not in ('email', 'phone')

    union all
    select
      3, 'passkey', p.id::text, nullif(p.name, ''), null, null, p.created_at, p.last_used_at,
      private.addition_event(a.id, p.id, 'passkey_added')
    from account a
    cross join lateral private.list_passkeys(a.id) p

    union all
    select
      4, 'authenticator', f.id::text, nullif(f.friendly_name, ''), null, null, f.created_at, f.last_challenged_at,
      private.addition_event(a.id, f.id, 'authenticator_added')
    from account a
    join auth.mfa_factors f on f.user_id = a.id and f.status = 'verified'

    union all
    select
      5, 'session', s.id::text, s.device, s.user_agent, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id) s

    union all
    -- An app that was connected again is as new as its newest credential.
    select
      6, 'app', p.name, p.display_name, null, null, max(h.connected_at), max(h.renewed_at),
      (array_agg(private.sign_in_event(a.id, h.session_id) order by h.connected_at desc))[1]
    from account a
    cross join lateral (
      select s.app_id, s.created_at as connected_at, s.issued_at as renewed_at, (s.proof).session_id
      from private.app_sessions s
      where s.user_id = a.id
        and s.revoked_at is null
        and s.expires_at > now()
        and s.ends_at > now()
        and private.proof_status(s.proof) <> 'over'
      union all
      select t.app_id, t.handed_over_at, t.created_at, (t.proof).session_id
      from ai.app_tokens t
      where t.user_id = a.id
        and t.revoked_at is null
        and case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end > now()
        and private.proof_status(t.proof) <> 'over'
    ) h
    join private.apps p on p.id = h.app_id
    group by p.name, p.display_name
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', concat_ws(':', w.kind, w.id),
        'kind', w.kind,
        'id', w.id,
        'name', w.name,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then s.ip else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null
      ) order by w.position, d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- Its row may be older: of an authenticator since its enrolment began, of a link since the visit to the provider, of a
      -- copied session since the sign-in it was copied from.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
      left join lateral (select host(l.ip) as ip from auth.sessions l where w.kind = 'session' and l.id::text = w.id) s
        on true
    )
  )
  from account a
$$;

-- Definer: authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.may_review_authenticators(subject_id uuid, actor_session_id uuid) returns boolean
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select exists (
    select
    from auth.users u
    join auth.mfa_factors f on f.user_id = u.id and f.status = 'verified'
    left join private.unconfirmed_additions n on n.target_id = f.id
    where u.id = subject_id and private.required_mfa_state(u.raw_app_meta_data) = 'optional'
    having count(*) > 0 and count(*) = count(n.target_id)
  ) and exists (
    select
    from auth.sessions s
    where s.id = actor_session_id and s.user_id = subject_id and s.created_at > now() - interval '10 minutes'
  ) and private.began_by_mail(subject_id, actor_session_id)
$$;

create or replace function private.may_change_access(subject_id uuid, actor_session_id uuid) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  -- Supabase Auth's own rule: an account's authenticator has to be proved in the session.
  select not exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
    or exists (
      select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
    )
    or private.may_review_authenticators(subject_id, actor_session_id)
$$;

comment on function private.begin_mfa_recovery(uuid, uuid, text) is
  'Uses a code, or takes up again what failed half-way: by the same code, or without one by the session that used it. '
  'Answers its id to one caller at a time, who holds it for 30 s; null to all others. It advances the boundary and marks '
  'the recovery in the account''s policy, which closes the account until end_mfa_recovery. Ends every other session, and '
  'all app sessions and app tokens.';

comment on function private.change_required_mfa(jsonb) is
  'The one function by which an admin changes an account''s policy: { actor, subject, step, generation, reason, '
  'requestId, ip } → { policy } or { refused: forbidden | oneself | not_enforced | not_found | conflict | in_progress | '
  'unchanged | factors_left }. Steps: require, make_optional; begin_reset, which closes the account until its '
  'authenticators are deleted and finish_reset has found none left. generation is the one decided on, 0 before the '
  'first. Each change is a line of the audit log, and an event that is mailed to the owner, in the '
  'same transaction.';

comment on function private.consume_recovery_credential(jsonb) is
  '{ tokenHash } or { email, codeHash }, in hex, with ip, userAgent, requestId → { outcome: consumed, credentialId, '
  'overrideId, email, userId or null, banned, confirmed, waitMs } to one of many callers, { outcome: rejected } to all '
  'others, for every reason, which is recorded. Ends every session, app session and app token of the account and moves '
  'its boundaries to this second; a session that counts is minted after waitMs.';

comment on function private.delete_authenticator(uuid, uuid, uuid, jsonb, jsonb) is
  'Takes an authenticator app from its account, and with the last one the recovery codes, which have nothing left to '
  'recover, and tells the owner (private.record_security_event): { outcome: deleted }, or outcome '
  'last_of_required where the account must have one, insufficient_aal where the session has yet to prove one, not_found.';

comment on function private.describe_database() is
  'What the doctor and the hosted start compare with the release: the version of Postgres (server_version_num), the '
  'versions of the migrations recorded, private.describe_objects() and private.describe_auth_triggers().';

comment on function private.find_app_by_origin(text) is
  'The app of an exact origin, and its scopes, or null. Disabled apps too, so that the page can say why the sign-in ends.';

comment on function private.list_sign_in_methods(uuid) is
  'How an account can be signed in to: { password, passkeys, identities: [{ id, provider, email, createdAt, '
  'lastSignInAt, unconfirmed }] }, or null without the account. unconfirmed: added by a direct call; our pages '
  'accept no sign-in with it. Identities of a link of ours that is under way are left out.';

comment on function private.record_security_event(jsonb) is
  'Adds to an account''s activity, or describes what a trigger added: { userId, kind, method, sessionId, ip, userAgent, '
  'device, details } → { id, createdAt }, or null without such an account. The mails about it become due.';

comment on function private.record_unconfirmed_identity() is
  'Guards and records an identity that joined an account in use. One with the account''s own verified address was linked '
  'by the backend at a sign-in, and is confirmed.';

comment on function private.revoke_user_app_credentials() is
  'Revokes all app credentials of a user for good: lifting a ban brings none of them back.';

comment on function private.account_access(uuid, uuid) is
  'Lists what can open an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent, provider, '
  'addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }] }. kind: password, identity, passkey, authenticator, '
  'session or app. isNew: added since the owner last confirmed the list, or since the account was created; for a session that began with '
  'a password reset or recovery, since such a session last did. Device and '
  'address are null where no event says where it was added. Null without the account.';

comment on function private.add_account_event(uuid, text, uuid, uuid, jsonb) is
  'Adds an event to an account''s activity, queues the mail about it, and returns its id; null without such an account. '
  'For definers that change an account, in their transaction.';

comment on function private.addition_event(uuid, uuid, text) is
  'The event by which an identity, passkey or authenticator was added, or null. For definers; not granted to a role.';

comment on function private.announce_addition(uuid, text) is
  'Announces an addition to an account for one minute: an authenticator by its id, a passkey by its credential id in '
  'hexadecimal. Call it after step-up, before the backend adds it.';

comment on function private.began_by_mail(uuid, uuid) is
  'Whether a session began with a password reset or recovery, so that it is of somebody who reads the account''s mail. '
  'For definers; not granted to a role.';

comment on function private.claim_due_mails(integer) is
  'Takes mails whose next attempt is due, each for one caller: with their text, or the event to write it from. After '
  'twelve attempts a mail is left as a record, for a week.';

comment on function private.confirm_access(uuid, uuid, jsonb, text[]) is
  'Removes what the owner chose from the list of private.account_access, signs out what depends on it, and confirms the '
  'rest, in one transaction. removals: { listedAt, listed: [key], remove: [key] }, listedAt and listed as the owner saw '
  'them. Answers { outcome: confirmed, removed: [way], endedSessions: [{ id, device, userAgent }] }, or an outcome that '
  'changed nothing: last_method where no usable way to sign in would be left, last_of_required where the account must have an '
  'authenticator, insufficient_aal where the session has yet to prove one, not_found. The session that asks stays.';

comment on function private.count_sign_in_methods(uuid, text[], uuid[], boolean, uuid[]) is
  'How many usable ways to sign in an account has left without these identities and passkeys. Unconfirmed identities '
  'count only if they are being confirmed. For definers; not granted to a role.';

comment on function private.describe_auth_triggers() is
  'The tables of the schema auth, and every trigger on them with the function that it runs, ours and others''.';

comment on function private.discard_session(uuid, uuid) is
  'Ends a session that our server made and never handed out, such as one that checks a password, and takes its sign-in out '
  'of the activity. True if the session was there.';

comment on function private.end_all_access(uuid) is
  'Ends every session of an account and revokes its app sessions and app tokens. Returns how many sessions it ended. For '
  'definers; not granted to a role.';

comment on function private.end_app_of_account(uuid, uuid) is
  'Revokes the sessions, tokens and pending handoffs that one app holds of a user; returns how many. For definers; '
  'not granted to a role.';

comment on function private.end_apps_of_account(uuid) is
  'Revokes all app sessions, app tokens and pending handoffs of a user. For definers; not granted to a role.';

comment on function private.end_dependent_sessions(uuid, uuid, jsonb) is
  'Ends the sessions among the removed ways of private.account_access, and those that signed in with one of them: '
  '[{ id, device, userAgent }]. For definers; not granted to a role.';

comment on function private.end_other_sessions(uuid, uuid) is
  'Ends every session of an account but one, records it, and tells the owner. Returns how many sessions it ended; '
  'concurrent calls record one event.';

comment on function private.guard_addition(uuid, uuid) is
  'Refuses an addition that our server did not announce, on an account with a verified factor.';

comment on function private.guard_email() is
  'Refuses a change of an account''s email to the address of an unconfirmed identity, or to none where that has none: '
  'mails that reset the password would no longer reach the owner.';

comment on function private.is_announced(uuid, text) is 'Takes an announcement: true once.';

comment on function private.is_new_password(text, text) is
  'Whether the statement that replaced a stored hash set another password. False where it encrypted the hash.';

comment on function private.is_new_place(public.security_events) is
  'Whether no other sign-in of the account came from this network with this program. False for the first sign-in.';

comment on function private.is_told_by_mail(text) is
  'Whether the owner gets a mail about events of this kind. A sign-in sends one only from a new place.';

comment on function private.is_unconfirmed_identity(uuid) is
  'Whether an identity waits for its account: for the end of our own link, or for the owner after a direct one.';

comment on function private.keep_email_identity(auth.users) is
  'Gives an account an identity of its own email before another one goes: without it, Supabase Auth replaces the email '
  'by another identity''s. For definers; not granted to a role.';

comment on function private.may_change_access(uuid, uuid) is
  'Whether a session has proved enough to remove ways into its account. For definers; not granted to a role.';

comment on function private.may_review_authenticators(uuid, uuid) is
  'Whether a session may decide about authenticators that it cannot prove: all of the account''s are unconfirmed '
  'additions, none is required, and the session began with a password reset or recovery in the last ten minutes. Without '
  'this, somebody who knew the password could lock the owner out by enrolling an authenticator of their own.';

comment on function private.queue_event_mail(public.security_events, text) is
  'Queues the mail that tells an account''s owner about an event. Does nothing without an address.';

comment on function private.read_qr_request(jsonb) is
  'A QR challenge as a phone shows it before it answers: { id, secretHash, userId, sessionId } → { outcome: known, id, '
  'status, createdAt, expiresAt, metadata }, or outcome not_found (id or secret wrong) or forbidden (not the account that '
  'asked, or the very session that did).';

comment on function private.record_account_change() is
  'Records a new password, a change of email, a ban and its end. A change of email is mailed to both addresses.';

comment on function private.record_addition(uuid, text, uuid, boolean, jsonb) is
  'Records an identity, passkey or authenticator that was added, and marks it where our server did not announce it.';

comment on function private.record_authenticator_added() is 'Guards and records a factor that was verified.';

comment on function private.record_passkey_added() is 'Guards and records a passkey that was registered.';

comment on function private.record_passkey_renamed() is 'Records a passkey''s new name.';

comment on function private.record_removal() is
  'Records that an authenticator, a passkey or an identity was removed from an account in use.';

comment on function private.record_sign_in() is
  'Records a new session as a sign-in, and queues a mail where it comes from a new place.';

comment on function private.record_sign_outs() is
  'Records sign-outs at the backend, one event for each account and statement.';

comment on function private.remove_password(uuid) is
  'Removes a user''s password. An empty hash is what Supabase Auth itself stores for a user without one.';

comment on function private.session_used_method(uuid, text) is
  'Whether a session signed in by a method of Supabase Auth. For definers; not granted to a role.';

comment on function private.sign_in_event(uuid, uuid) is
  'The event of the sign-in that began a session, or null. For definers; not granted to a role.';

comment on function private.sign_out_everywhere(uuid, uuid) is
  'Signs an account out of every device and app, records it, and tells the owner. Returns how many sessions it ended; '
  'concurrent calls record one event.';

comment on function private.sign_out_scope(text) is
  'The scope of a sign-out, by the statement that Supabase Auth ends sessions with; null for every other statement, such '
  'as those that clean up or end sessions below a level of assurance.';

grant execute on function private.account_access(uuid, uuid) to service_role;

grant execute on function private.announce_addition(uuid, text) to service_role;

grant execute on function private.claim_due_mails(integer) to service_role;

grant execute on function private.confirm_access(uuid, uuid, jsonb, text[]) to service_role;

grant execute on function private.discard_session(uuid, uuid) to service_role;

grant execute on function private.end_other_sessions(uuid, uuid) to service_role;

grant execute on function private.may_review_authenticators(uuid, uuid) to service_role;

grant execute on function private.read_qr_request(jsonb) to service_role;

grant execute on function private.sign_out_everywhere(uuid, uuid) to service_role;
