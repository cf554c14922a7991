-- Lists everything that gives access to an account, such as passwords, passkeys and sessions. The owner confirms the
-- list or removes entries.

-- Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent,
-- provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed, proven }], otherSessions: { key,
-- count, isNew }, serviceAccounts: [{ id, name, workspaceId, workspace, addedAt, lastUsedAt, endsAt }] }. Returns null if
-- the account doesn't exist. The entries come from private.account_credentials; an app and a device's login have one
-- entry each. ways contains at most max_sessions sessions: the calling session, then the most recently refreshed.
-- otherSessions counts the remaining sessions, up to 1,001. kind is password, identity,
-- passkey, authenticator, recovery_codes, recovery_mail, session, phone_approval, app, device or agent. isNew is true
-- if the entry was added after the owner last confirmed the list or, without a confirmation, after the account was
-- created. In a session that began with a password reset or recovery, only confirmations by such sessions count. proven
-- is true for the authenticator whose code the calling session entered, which shows that the caller has that app.
-- device and address are null if no event records where the entry was added. serviceAccounts has those that the owner is
-- responsible for and that work; they are revoked on pages of their own.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, max_sessions integer default null
) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with account as (
    select
      u.id,
      u.email,
      u.created_at,
      l.confirmed_at,
      coalesce(l.confirmed_at, u.created_at) as since
    from auth.users u
    left join private.access_confirmations c on c.user_id = u.id
    -- A session that began with a password reset or recovery counts only confirmations by such sessions. An intruder
    -- who knew the password could have confirmed their own additions in any other session.
    cross join lateral (
      select case when private.began_by_mail(u.id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
        as confirmed_at
    ) l
    where u.id = subject_id and u.deleted_at is null
  ),
  ways as (
    select
      c.listed_as as key,
      split_part(c.listed_as, ':', 1) as kind,
      nullif(split_part(c.listed_as, ':', 2), '') as id,
      -- A client may act for the account at several resources.
      string_agg(distinct c.name, ', ') as name,
      null::text as user_agent,
      null::text as address,
      max(c.provider) as provider,
      -- An app that was connected several times counts as added at its latest connection.
      max(case
        -- Supabase Auth creates a new account and its first identity in one call, but reads the clock twice.
        when c.kind = 'identity' and c.added_at < a.created_at + interval '500 milliseconds' then a.created_at
        else c.added_at
      end) as added_at,
      max(case when c.kind = 'password' then (
        select max(v.created_at)
        from public.security_events v
        where v.user_id = a.id and v.kind = 'sign_in' and v.method = 'password'
      ) else c.last_used_at end) as last_used_at,
      (array_agg(case
        when c.kind = 'password' then (
          select v.id
          from public.security_events v
          where v.user_id = a.id and v.kind in ('password_added', 'password_changed')
          order by v.created_at desc, v.id
          limit 1
        )
        when c.kind = 'identity' then private.addition_event(a.id, c.id, 'identity_linked')
        when c.kind = 'passkey' then private.addition_event(a.id, c.id, 'passkey_added')
        when c.kind = 'authenticator' then private.addition_event(a.id, c.id, 'authenticator_added')
        when c.kind = 'device_request' then private.addition_event(a.id, c.id, 'device_approved')
        when c.session_id is null then private.addition_event(a.id, c.source_id, 'device_approved')
        else private.sign_in_event(a.id, c.session_id)
      end order by c.added_at desc, c.id))[1] as event_id
    from account a
    join private.account_credentials c on c.user_id = a.id
    where c.kind not in ('session', 'service_account')
      and c.is_live
      and (c.kind <> 'identity' or c.provider not in ('email', 'phone'))
      -- An approval of the calling session is part of that session.
      and (c.kind <> 'phone_approval' or c.session_id is distinct from actor_session_id)
    group by c.listed_as

    union all
    select
      'session:' || s.id, 'session', s.id::text, s.device, s.user_agent, s.ip, null, s.created_at, s.last_seen_at,
      private.sign_in_event(a.id, s.id)
    from account a
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => max_sessions) s
  )
  select jsonb_build_object(
    'listedAt', now(),
    'confirmedAt', a.confirmed_at,
    'email', a.email,
    'ways', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'key', w.key,
        'kind', w.kind,
        'id', w.id,
        'name', case w.kind
          when 'device' then w.name || coalesce(' (' || (e.details ->> 'requester') || ')', '')
          else w.name
        end,
        'userAgent', w.user_agent,
        'provider', w.provider,
        'addedAt', d.added_at,
        'lastUsedAt', w.last_used_at,
        'device', e.device,
        'address', case when w.kind = 'session' then w.address else host(e.ip) end,
        'bySession', e.session_id,
        'isNew', d.added_at > a.since,
        'unconfirmed', n.target_id is not null,
        'proven', w.kind = 'authenticator' and exists (
          select
          from auth.sessions s
          where s.id = actor_session_id and s.user_id = a.id and s.aal = 'aal2' and s.factor_id::text = w.id
        )
      ) order by array_position(array[
        'password', 'identity', 'passkey', 'authenticator', 'recovery_codes', 'recovery_mail', 'session',
        'phone_approval', 'app', 'device', 'agent'
      ], w.kind), d.added_at, w.id), '[]')
      from ways w
      left join public.security_events e on e.id = w.event_id
      -- The row may be older than the addition: an authenticator's row dates from the start of enrolment, a link's from
      -- the visit to the provider, and a copied session's from the original sign-in.
      cross join lateral (select greatest(w.added_at, e.created_at) as added_at) d
      left join private.unconfirmed_additions n on n.user_id = a.id and n.target_id::text = w.id
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, max_sessions),
        'isNew', exists (
          select
          from private.account_credentials c
          where c.user_id = a.id and c.kind = 'session' and c.is_live and c.added_at > a.since
            and c.listed_as not in (select w.key from ways w)
        )
      )
      from private.count_account_sessions(a.id, max_sessions + 1001) as c (sessions)
    ),
    'serviceAccounts', (
      select coalesce(jsonb_agg(jsonb_build_object(
        'id', c.id,
        'name', c.name,
        'workspaceId', w.id,
        'workspace', w.name,
        'addedAt', c.added_at,
        'lastUsedAt', c.last_used_at,
        'endsAt', c.ends_at
      ) order by c.added_at, c.id), '[]')
      from private.account_credentials c
      left join public.workspaces w on w.id = (c.record ->> 'workspaceId')::uuid
      where c.user_id = a.id and c.kind = 'service_account' and c.is_live and w.deleted_at is null
    )
  )
  from account a
$$;

-- Returns { confirmedAt, unconfirmed: [id], others }. confirmedAt is when the owner last confirmed the list that
-- private.account_access returns. unconfirmed contains the ids of the unconfirmed additions. others is the number of
-- apps, devices and agents that act for the account and don't end with the given session.
-- Definer: row-level security hides the account's confirmations and unconfirmed additions.
create or replace function private.access_state(subject_id uuid, actor_session_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select jsonb_build_object(
    'confirmedAt', (
      select case when private.began_by_mail(subject_id, actor_session_id) then c.confirmed_by_mail_at else c.confirmed_at end
      from private.access_confirmations c
      where c.user_id = subject_id
    ),
    'unconfirmed', (
      select coalesce(jsonb_agg(n.target_id order by n.created_at, n.target_id), '[]')
      from private.unconfirmed_additions n
      where n.user_id = subject_id
    ),
    'others', (
      select count(distinct c.listed_as)
      from private.account_credentials c
      where c.user_id = subject_id
        and c.kind not in ('session', 'service_account')
        and not c.is_method
        and c.session_id is distinct from actor_session_id
        and c.is_live
    )
  )
$$;

-- Returns the id of the event that recorded the sign-in of a session; null if there is none. For definers; not granted
-- to any role.
create or replace function private.sign_in_event(subject_id uuid, signed_in_id uuid) returns uuid
  language sql stable security invoker set search_path = ''
as $$
  select v.id
  from public.security_events v
  where v.user_id = subject_id and v.session_id = signed_in_id and v.kind = 'sign_in'
  order by v.created_at desc, v.id
  limit 1
$$;

-- Removes the entries that the owner chose from the list of private.account_access, ends the sessions that depend on
-- these entries, and confirms the rest of the list, in one transaction. removals is { listedAt, listed: [key], remove:
-- [key], sessions: [key] }. listed contains the keys that the owner saw at listedAt, and sessions the keys of the
-- listed sessions. In remove, other_sessions means the sessions that existed at listedAt but were not listed. Returns {
-- outcome: confirmed, removed: [way], endedSessions: [{ id, device, userAgent }] }. Every other outcome changes
-- nothing: last_method (no usable way to sign in would remain), last_of_required (the account must have an
-- authenticator), insufficient_aal (the session has yet to prove an authenticator) or not_found. Never ends the calling
-- session.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot write.
create or replace function private.confirm_access(
  subject_id uuid,
  actor_session_id uuid,
  removals jsonb,
  usable_providers text[]
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  account auth.users;
  access jsonb;
  removed jsonb;
  passwords boolean;
  methods uuid[];
  authenticators uuid[];
  methods_removed boolean;
  confirmed_ids uuid[];
  ended_sessions jsonb;
begin
  -- Serializes changes to an account's credentials, so that each one sees the result of the one before.
  select u.* into account from auth.users u where u.id = subject_id and u.deleted_at is null for no key update;
  if not found or not exists (select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id) then
    return jsonb_build_object('outcome', 'not_found');
  end if;
  if not private.may_change_access(subject_id, actor_session_id) then
    return jsonb_build_object('outcome', 'insufficient_aal');
  end if;

  access := private.account_access(subject_id, actor_session_id);
  -- Keys of other accounts, and of deleted entries, match nothing.
  select
    coalesce(jsonb_agg(w), '[]'),
    coalesce(bool_or(w ->> 'kind' = 'password'), false),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' in ('identity', 'passkey')), '{}'),
    coalesce(array_agg((w ->> 'id')::uuid) filter (where w ->> 'kind' = 'authenticator'), '{}'),
    coalesce(bool_or(w ->> 'kind' in ('password', 'identity', 'passkey')), false)
  into removed, passwords, methods, authenticators, methods_removed
  from jsonb_array_elements(access -> 'ways') as w
  where w ->> 'key' <> 'session:' || actor_session_id
    and (
      removals -> 'remove' ? (w ->> 'key')
      or removals -> 'remove' ? 'other_sessions'
        and w ->> 'kind' = 'session'
        and (w ->> 'addedAt')::timestamptz <= (removals ->> 'listedAt')::timestamptz
        and not coalesce(removals -> 'sessions' ? (w ->> 'key'), false)
    );

  select coalesce(array_agg((w ->> 'id')::uuid), '{}')
  into confirmed_ids
  from jsonb_array_elements(access -> 'ways') as w
  where (w ->> 'unconfirmed')::boolean
    and removals -> 'listed' ? (w ->> 'key')
    and not removals -> 'remove' ? (w ->> 'key');

  if methods_removed
    and private.count_sign_in_methods(
      subject_id, usable_providers, without => methods, without_password => passwords, confirming => confirmed_ids
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

  ended_sessions := private.end_dependent_sessions(subject_id, actor_session_id, removed);
  perform private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.is_active
      and c.kind <> 'session'
      and c.listed_as in (select w ->> 'key' from jsonb_array_elements(removed) as w)
  ));
  delete from private.openid_consents c
  using private.apps a
  where c.user_id = subject_id
    and a.id = c.app_id
    and 'app:' || a.name in (select w ->> 'key' from jsonb_array_elements(removed) as w);
  -- Triggers record the removed identities, passkeys and authenticators.
  perform private.add_account_event(
    subject_id, 'app_disconnected', session_id => actor_session_id, details => jsonb_build_object('app', w -> 'name')
  )
  from jsonb_array_elements(removed) as w
  where w ->> 'kind' in ('app', 'device', 'agent');
  if passwords then
    perform private.add_account_event(subject_id, 'password_removed', session_id => actor_session_id);
  end if;
  if ended_sessions <> '[]' then
    perform private.add_account_event(subject_id, 'session_revoked', session_id => actor_session_id);
  end if;

  -- Records the time at which the owner saw the list. Entries added after that time stay new.
  insert into private.access_confirmations as c (user_id, confirmed_at, confirmed_by_mail_at)
  select subject_id, l.seen_at, case when private.began_by_mail(subject_id, actor_session_id) then l.seen_at end
  from (select least((removals ->> 'listedAt')::timestamptz, now()) as seen_at) l
  on conflict (user_id) do update
  set confirmed_at = greatest(c.confirmed_at, excluded.confirmed_at),
      confirmed_by_mail_at = greatest(c.confirmed_by_mail_at, excluded.confirmed_by_mail_at);
  perform private.add_account_event(subject_id, 'access_confirmed', session_id => actor_session_id);
  delete from private.unconfirmed_additions n where n.user_id = subject_id and n.target_id = any (confirmed_ids);
  return jsonb_build_object('outcome', 'confirmed', 'removed', removed, 'endedSessions', ended_sessions);
end
$$;

-- Returns whether a session's authentication is strong enough to remove entries from the list of
-- private.account_access. Not granted to any role, so only security definer functions can call it.
create or replace function private.may_change_access(subject_id uuid, actor_session_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  -- Supabase Auth has the same rule: an account's authenticator must be proved in the session.
  select not exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
    or exists (
      select from auth.sessions s where s.id = actor_session_id and s.user_id = subject_id and s.aal = 'aal2'
    )
    or private.may_review_authenticators(subject_id, actor_session_id)
$$;

-- Returns whether a session may keep or remove authenticators without using one first. This is allowed if the account
-- need not have an authenticator, all its authenticators are additions that the owner has yet to confirm, and the
-- session began with a password reset or recovery in the last ten minutes. Without this exception, an attacker who knew
-- the password could lock the owner out by enrolling an authenticator.
-- Definer: authenticators are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.may_review_authenticators(subject_id uuid, actor_session_id uuid) returns boolean
  language sql stable security definer set search_path = ''
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

-- Returns whether a session began with a password reset or recovery, which proves access to the account's mailbox. For
-- definers; not granted to any role.
create or replace function private.began_by_mail(subject_id uuid, actor_session_id uuid) returns boolean
  language sql stable security invoker set search_path = ''
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

-- Ends the sessions that the owner removed from the list of private.account_access, and the sessions that signed in
-- with a removed method. Returns [{ id, device, userAgent }] of the ended sessions. Not granted to any role, so only
-- security definer functions can call it.
create or replace function private.end_dependent_sessions(subject_id uuid, kept_session_id uuid, removed jsonb)
  returns jsonb
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  ended_sessions jsonb;
  others_left boolean;
begin
  -- Supabase Auth does not record which passkey or provider account a session signed in with, so all sessions of that
  -- method are signed out.
  select coalesce(jsonb_agg(jsonb_build_object(
    'id', s.id, 'device', e.device, 'userAgent', s.user_agent
  )), '[]')
  into ended_sessions
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
        -- Sign-ins on our pages record the provider. A sign-in recorded without a provider may have used any, so its
        -- session is ended too.
        when 'identity' then private.session_used_method(s.id, 'oauth')
          and coalesce(e.method not like 'oauth:%' or e.method = 'oauth:' || (w ->> 'provider'), true)
        when 'passkey' then private.session_used_method(s.id, 'passkey')
        when 'password' then private.session_used_method(s.id, 'password')
        else false
      end
    );
  perform private.end_account_session(subject_id, (x ->> 'id')::uuid) from jsonb_array_elements(ended_sessions) as x;
  return ended_sessions;
end
$$;

-- Returns whether a session signed in with the given method of Supabase Auth. Not granted to any role, so only security
-- definer functions can call it.
create or replace function private.session_used_method(target_id uuid, method text) returns boolean
  language sql stable security invoker set search_path = ''
as $$
  select exists (
    select
    from auth.mfa_amr_claims c
    where c.session_id = target_id and c.authentication_method = session_used_method.method
  )
$$;
