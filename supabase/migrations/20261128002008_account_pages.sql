-- Generated from supabase/schemas by npm run db:migration.

drop function private.account_sessions(uuid, uuid, jsonb, integer);

drop function private.list_passkeys(uuid);

drop function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer);

-- Definer: reads the identity backend's tables, which the service role may not.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql
  stable
  security definer
  set search_path = ''
as $$
declare
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if part = 'sessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
        'userAgent', s.user_agent, 'aal', s.aal
      )
      from auth.sessions s
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'securityEvents' then
    return query
      select jsonb_build_object(
        'id', e.id, 'kind', e.kind, 'method', e.method, 'ip', host(e.ip), 'place', e.place, 'userAgent', e.user_agent,
        'details', e.details, 'createdAt', e.created_at
      )
      from public.security_events e
      where e.user_id = subject_id and (e.created_at, e.id) > (last_at, last_id)
      order by e.created_at, e.id
      limit page_size;
  elsif part = 'ledger' then
    return query
      select jsonb_build_object(
        'id', l.id, 'kind', l.kind, 'amount', l.amount::text, 'balanceAfter', l.balance_after::text, 'runId', l.run_id,
        'description', l.description, 'createdAt', l.created_at
      )
      from ai.credit_accounts a
      join ai.credit_ledger l on l.account_id = a.id
      where a.user_id = subject_id and l.id > coalesce((after ->> 'id')::bigint, 0)
      order by l.id
      limit page_size;
  elsif part = 'approvals' then
    return query
      select jsonb_build_object(
        'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
        'approvedAt', c.approved_at
      )
      from private.login_challenges c
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'workspaces' then
    return query
      select jsonb_build_object(
        'id', w.id, 'name', w.name, 'role', r.name, 'personal', w.personal_user_id is not distinct from subject_id,
        'joinedAt', m.created_at
      )
      from public.workspace_members m
      join public.workspaces w on w.id = m.workspace_id
      join public.workspace_roles r on r.id = m.role_id
      where m.user_id = subject_id and (m.created_at, w.id) > (last_at, last_id)
      order by m.created_at, w.id
      limit page_size;
  elsif part = 'invitations' then
    return query
      select jsonb_build_object(
        'id', n.id, 'workspaceId', n.workspace_id, 'email', n.email,
        'sentByYou', n.invited_by is not distinct from subject_id, 'createdAt', n.created_at, 'acceptedAt', n.accepted_at
      )
      from public.workspace_invitations n
      where (
          n.invited_by = subject_id
          or n.accepted_by = subject_id
          or n.email = (select lower(u.email) from auth.users u where u.id = subject_id)
        )
        and (n.created_at, n.id) > (last_at, last_id)
      order by n.created_at, n.id
      limit page_size;
  elsif part = 'keys' then
    return query
      select jsonb_build_object(
        'id', k.id, 'name', k.name, 'workspaceId', k.workspace_id, 'createdAt', k.created_at,
        'lastUsedAt', k.last_used_at, 'revokedAt', k.revoked_at
      )
      from ai.keys k
      where k.created_by = subject_id and (k.created_at, k.id) > (last_at, last_id)
      order by k.created_at, k.id
      limit page_size;
  elsif part = 'appHandoffs' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
      )
      from private.cross_app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  elsif part = 'appSessions' then
    return query
      select jsonb_build_object(
        'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
        'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
      )
      from private.app_sessions s join private.apps a on a.id = s.app_id
      where s.user_id = subject_id and (s.created_at, s.id) > (last_at, last_id)
      order by s.created_at, s.id
      limit page_size;
  elsif part = 'appTokens' then
    return query
      select jsonb_build_object(
        'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
        'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
      )
      from ai.app_tokens t join private.apps a on a.id = t.app_id
      where t.user_id = subject_id and (t.created_at, t.id) > (last_at, last_id)
      order by t.created_at, t.id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
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
      place = event ->> 'place',
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
    insert into public.security_events (user_id, kind, method, session_id, ip, user_agent, device, place, details)
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'ip')::inet,
      event ->> 'userAgent',
      event ->> 'device',
      event ->> 'place',
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

-- Definer: sessions are the identity backend's, which the service role cannot read.
create or replace function private.account_sessions(
  subject_id uuid, first_session_id uuid default null, before jsonb default null, page_size integer default null
)
  returns table (
    id uuid,
    created_at timestamptz,
    last_seen_at timestamptz,
    ip text,
    user_agent text,
    device text,
    place text,
    method text,
    aal text,
    refreshed_at timestamptz
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- Its refreshes, once an hour or so, and what its owner did with it.
    greatest(s.refreshed, e.last_event_at),
    host(s.ip),
    -- A sign-in by our pages reaches the backend through our server, which names itself there.
    coalesce(e.user_agent, s.user_agent),
    e.device,
    e.place,
    e.method,
    s.aal::text,
    s.refreshed
  from (
    select l.*, r.refreshed
    from auth.sessions l
    cross join lateral (select greatest(l.created_at, l.refreshed_at at time zone 'UTC') as refreshed) r
    where l.user_id = subject_id
      and (l.not_after is null or l.not_after > now())
      and (
        before is null
        or l.id is distinct from first_session_id
          and (r.refreshed, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, r.refreshed desc, l.id desc
    limit page_size
  ) s
  left join lateral (
    select
      max(v.created_at) as last_event_at,
      (array_agg(v.user_agent order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as user_agent,
      (array_agg(v.device order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as device,
      (array_agg(v.place order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as place,
      (array_agg(v.method order by v.created_at desc) filter (where v.kind = 'sign_in'))[1] as method
    from public.security_events v
    where v.user_id = s.user_id and v.session_id = s.id
  ) e on true
  order by s.id is not distinct from first_session_id desc, s.refreshed desc, s.id desc
$$;

-- Definer: the identity backend's tables are not the service role's to read.
create or replace function private.list_passkeys(user_id uuid)
  returns table (
    id uuid,
    credential_id text,
    name text,
    aaguid uuid,
    device text,
    created_at timestamptz,
    last_used_at timestamptz
  )
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select c.id, encode(c.credential_id, 'hex'), c.friendly_name, c.aaguid, e.device, c.created_at, c.last_used_at
  from auth.webauthn_credentials c
  left join public.security_events e on e.id = private.addition_event(c.user_id, c.id, 'passkey_added')
  where c.user_id = list_passkeys.user_id
  order by c.created_at, c.id
$$;

-- Definer: addresses are in the identity backend's table. The caller's own address, and those of members of workspaces
-- in which the caller manages members: who invites people by email may see it.
create or replace function public.list_member_emails(workspace_id uuid) returns table (user_id uuid, email text)
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select m.user_id, u.email::text
  from public.workspace_members m
  join auth.users u on u.id = m.user_id
  where m.workspace_id = list_member_emails.workspace_id
    and u.email <> ''
    and private.account_required_mfa_satisfied()
    and (
      m.user_id = (select auth.uid())
      or m.workspace_id in (select private.my_workspace_ids_with_permission('manage_members'))
    )
$$;

create or replace function public.list_workspace_members(
  workspace_id uuid,
  search text default '',
  of_role uuid default null,
  member_id uuid default null,
  after text[] default null,
  page_size integer default 50
)
  returns table (
    user_id uuid,
    name text,
    role_id uuid,
    role text,
    is_owner boolean,
    joined_at timestamptz,
    sorts_as text,
    email text
  )
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select m.user_id, n.name, r.id, r.name, r.is_owner, m.created_at, lower(n.name), v.email
  from public.workspace_members m
  join public.workspace_roles r on r.id = m.role_id
  left join public.profiles p on p.id = m.user_id
  left join public.list_member_emails(list_workspace_members.workspace_id) v on v.user_id = m.user_id
  cross join lateral (select coalesce(p.display_name, 'Unknown') as name) n
  where m.workspace_id = list_workspace_members.workspace_id
    and (of_role is null or m.role_id = of_role)
    and (member_id is null or m.user_id = member_id)
    and (position(lower(search) in lower(n.name)) > 0 or position(lower(search) in lower(v.email)) > 0)
    and (
      after is null or (not r.is_owner, lower(n.name), m.user_id) > (not after[1]::boolean, after[2], after[3]::uuid)
    )
  order by not r.is_owner, lower(n.name), m.user_id
  limit page_size
$$;

-- Definer: these are Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, most_sessions integer default null
) returns jsonb
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
      3, 'passkey', p.id::text, nullif(p.name, ''), null, p.aaguid::text, p.created_at, p.last_used_at,
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
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => most_sessions) s

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
    ),
    'otherSessions', (
      select jsonb_build_object(
        'key', 'other_sessions',
        'count', c.sessions - least(c.sessions, most_sessions),
        'isNew', exists (
          select
          from auth.sessions l
          where l.user_id = a.id and l.created_at > a.since and (l.not_after is null or l.not_after > now())
            and l.id::text not in (select w.id from ways w where w.kind = 'session')
        )
      )
      from private.count_account_sessions(a.id, most_sessions + 1001) as c (sessions)
    )
  )
  from account a
$$;

comment on function private.record_security_event(jsonb) is
  'Adds to an account''s activity, or describes what a trigger added: { userId, kind, method, sessionId, ip, userAgent, '
  'device, place, details } → { id, createdAt }, or null without such an account. The mails about it become due.';

comment on function private.account_sessions(uuid, uuid, jsonb, integer) is
  'A page of the sessions of an account that are not over: the given one first, then the one refreshed last. before: '
  '{ createdAt, id }, refreshed_at and id of the last one of the page before; all of them without page_size.';

comment on function private.list_passkeys(uuid) is
  'An account''s passkeys, oldest first, each with its credential id in hexadecimal, the AAGUID of its provider, and the '
  'browser and system that it was added from, where known. For our server, which knows the account from its session.';

comment on function public.list_member_emails(uuid) is
  'Emails of a workspace''s members that the caller may see: their own, and all where they manage members.';

comment on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) is
  'A page of a workspace''s members, owners first, then by name: those whose name or visible email contains the search, '
  'with a role or an id where one is given. after: is_owner, sorts_as and user_id of the last one of the page before.';

grant execute on function private.account_sessions(uuid, uuid, jsonb, integer) to service_role;

grant execute on function private.list_passkeys(uuid) to service_role;

grant execute on function public.list_member_emails(uuid) to authenticated;

grant execute on function public.list_workspace_members(uuid, text, uuid, uuid, text[], integer) to authenticated;
