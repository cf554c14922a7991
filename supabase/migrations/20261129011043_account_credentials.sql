-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

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
  kept uuid[];
  ended jsonb;
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
  into kept
  from jsonb_array_elements(access -> 'ways') as w
  where (w ->> 'unconfirmed')::boolean
    and removals -> 'listed' ? (w ->> 'key')
    and not removals -> 'remove' ? (w ->> 'key');

  if methods_removed
    and private.count_sign_in_methods(
      subject_id, usable_providers, without => methods, without_password => passwords, confirming => kept
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
  if ended <> '[]' then
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
  delete from private.unconfirmed_additions n where n.user_id = subject_id and n.target_id = any (kept);
  return jsonb_build_object('outcome', 'confirmed', 'removed', removed, 'endedSessions', ended);
end
$$;

create or replace view private.account_credentials with (security_invoker = true) as
select
  c.*,
  c.kind || ':' || c.id as key,
  c.is_active
    and coalesce(c.ends_at > now(), true)
    and (c.proof is not distinct from null or private.proof_status(c.proof) <> 'over') as is_live
from (
  select
    u.id as user_id,
    'password' as kind,
    u.id as id,
    'password' as listed_as,
    true as is_method,
    null::uuid as app_id,
    null::uuid as source_id,
    null::uuid as session_id,
    null::private.mfa_proof as proof,
    null::text as name,
    null::text as provider,
    u.created_at,
    u.created_at as added_at,
    null::timestamptz as last_used_at,
    null::timestamptz as ends_at,
    u.email_confirmed_at is not null as is_active,
    '{}'::jsonb as record
  from auth.users u
  where coalesce(u.encrypted_password, '') <> ''

  union all
  select
    i.user_id, 'identity', i.id, 'identity:' || i.id, true, null, null, null, null, i.email, i.provider, i.created_at,
    i.created_at, i.last_sign_in_at, null,
    -- Our pages are still linking it.
    not exists (select from private.unconfirmed_identities n where n.identity_id = i.id),
    jsonb_build_object(
      'provider', i.provider, 'data', i.identity_data, 'createdAt', i.created_at, 'lastSignInAt', i.last_sign_in_at
    )
  from auth.identities i

  union all
  select
    p.user_id, 'passkey', p.id, 'passkey:' || p.id, true, null, null, null, null, nullif(p.friendly_name, ''),
    p.aaguid::text, p.created_at, p.created_at, p.last_used_at, null, true,
    jsonb_build_object(
      'id', p.id, 'name', p.friendly_name, 'createdAt', p.created_at, 'lastUsedAt', p.last_used_at
    )
  from auth.webauthn_credentials p

  union all
  select
    f.user_id, 'authenticator', f.id, 'authenticator:' || f.id, true, null, null, null, null,
    nullif(f.friendly_name, ''), null, f.created_at, f.created_at, f.last_challenged_at, null, f.status = 'verified',
    jsonb_build_object(
      'id', f.id, 'name', f.friendly_name, 'type', f.factor_type, 'status', f.status, 'createdAt', f.created_at
    )
  from auth.mfa_factors f

  union all
  select
    c.user_id, 'recovery_code', c.id, 'recovery_codes', true, null, null, null, null, null, null, c.created_at,
    c.created_at, c.used_at, null,
    c.completed_at is null and coalesce(c.used_at > now() - interval '24 hours', true),
    jsonb_build_object('createdAt', c.created_at, 'usedAt', c.used_at)
  from private.mfa_recovery_codes c

  union all
  select
    u.id, 'recovery_mail', r.id, 'recovery_mail:' || r.id, true, null, null, null, null, null, null, r.created_at,
    r.created_at, null, r.expires_at, r.consumed_at is null and r.superseded_at is null, '{}'
  from auth.users u
  join private.recovery_credentials r on r.email = lower(u.email)

  union all
  select
    s.user_id, 'session', s.id, 'session:' || s.id, false, null, null, s.id, null, null, null, s.created_at,
    s.created_at, greatest(s.created_at, s.refreshed_at at time zone 'UTC'), s.not_after, true,
    jsonb_build_object(
      'id', s.id, 'createdAt', s.created_at, 'lastSeenAt', s.refreshed_at, 'ip', host(s.ip),
      'userAgent', s.user_agent, 'aal', s.aal
    )
  from auth.sessions s

  union all
  select
    c.user_id, 'phone_approval', c.id, 'phone_approval:' || c.id, false, null, null, c.session_id, null,
    c.approval_metadata -> 'device' ->> 'name', null, c.created_at, coalesce(c.approved_at, c.created_at), null,
    coalesce(c.valid_until, c.expires_at),
    c.status in ('approved', 'consuming', 'bound')
      and exists (select from auth.sessions s where s.id = c.session_id and s.user_id = c.user_id)
      and (
        c.approver_factor_id is null
        or exists (select from auth.mfa_factors f where f.id = c.approver_factor_id and f.status = 'verified')
      ),
    jsonb_build_object(
      'id', c.id, 'kind', c.kind, 'status', c.status, 'request', c.request_metadata, 'createdAt', c.created_at,
      'approvedAt', c.approved_at
    )
  from private.login_challenges c

  union all
  select
    t.user_id, 'app_handoff', t.id, 'app:' || a.name, false, a.id, null, null, null, a.display_name, null,
    t.created_at, t.created_at, null, t.expires_at, t.redeemed_at is null and t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'createdAt', t.created_at, 'redeemedAt', t.redeemed_at, 'revokedAt', t.revoked_at
    )
  from private.cross_app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    s.user_id, 'app_session', s.id, 'app:' || a.name, false, a.id, s.handoff_id, (s.proof).session_id, s.proof,
    a.display_name, null, s.created_at, s.created_at, s.issued_at, least(s.expires_at, s.ends_at),
    s.revoked_at is null,
    jsonb_build_object(
      'id', s.id, 'app', a.name, 'for', s.audience, 'scopes', s.scopes, 'createdAt', s.created_at,
      'expiresAt', s.expires_at, 'revokedAt', s.revoked_at
    )
  from private.app_sessions s
  join private.apps a on a.id = s.app_id

  union all
  select
    t.user_id, 'app_token', t.id, 'app:' || a.name, false, a.id, t.family_id, (t.proof).session_id, t.proof,
    a.display_name, null, t.created_at, t.handed_over_at, t.created_at,
    case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end, t.revoked_at is null,
    jsonb_build_object(
      'id', t.id, 'app', a.name, 'workspaceId', t.workspace_id, 'scopes', t.scopes, 'handedOverAt', t.handed_over_at,
      'createdAt', t.created_at, 'expiresAt', t.expires_at, 'revokedAt', t.revoked_at
    )
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id

  union all
  select
    c.user_id, 'openid_code', c.id, 'app:' || a.name, false, a.id, null, (c.proof).session_id, c.proof,
    a.display_name, null, c.created_at, c.created_at, null, c.expires_at,
    c.redeemed_at is null and c.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.created_at, 'redeemedAt', c.redeemed_at,
      'revokedAt', c.revoked_at
    )
  from private.authorization_codes c
  join private.apps a on a.id = c.app_id

  union all
  select
    d.user_id, 'device_request', d.id, 'device:' || d.id, false, a.id, null, null, d.proof, a.display_name, null,
    d.created_at, coalesce(d.approved_at, d.created_at), null, least(d.expires_at, d.valid_until),
    d.approved_at is not null and d.redeemed_at is null,
    jsonb_build_object(
      'id', d.id, 'app', a.name, 'scopes', d.scopes, 'ip', host(d.ip), 'userAgent', d.user_agent, 'place', d.place,
      'createdAt', d.created_at, 'approvedAt', d.approved_at, 'deniedAt', d.denied_at, 'redeemedAt', d.redeemed_at
    )
  from private.device_authorizations d
  join private.apps a on a.id = d.app_id

  union all
  -- Only the login of a device has no session.
  select
    g.user_id, 'openid_login', g.id,
    case when (g.proof).session_id is null then 'device:' || g.source_id else 'app:' || a.name end,
    false, a.id, g.source_id, (g.proof).session_id, g.proof, a.display_name, null, g.created_at, g.created_at,
    (select max(t.created_at) from private.openid_tokens t where t.grant_id = g.id), g.ends_at, g.revoked_at is null,
    jsonb_build_object(
      'id', g.id, 'app', a.name, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
      'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
      'revokedAt', g.revoked_at
    )
  from private.openid_grants g
  join private.apps a on a.id = g.app_id

  union all
  select
    c.user_id, 'agent_connection', c.id, 'agent:' || c.id, false, null, c.login_id, (g.proof).session_id, g.proof,
    ai.agent_name(c.tool) || ' on ' || c.host, null, c.created_at, c.created_at,
    (select max(k.last_used_at) from ai.keys k where k.connection_id = c.id), g.ends_at,
    c.revoked_at is null and g.id is not null and g.revoked_at is null,
    jsonb_build_object(
      'id', c.id, 'workspaceId', c.workspace_id, 'tool', c.tool, 'host', c.host, 'createdAt', c.created_at,
      'revokedAt', c.revoked_at
    )
  from ai.agent_connections c
  left join private.openid_grants g on g.id = c.login_id
) as c;

-- Returns the fields of private.export_account whose size does not grow with use, and the credits with their ledger.
-- Definer: the service role may not read the identity backend's tables.
create or replace function private.export_account_proper(subject_id uuid, with_parts boolean) returns jsonb
  language sql stable security definer set search_path = ''
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
    'linkedAccounts', private.export_whole_part(u.id, 'linkedAccounts', true),
    'authenticators', private.export_whole_part(u.id, 'authenticators', true),
    'recoveryCodes', private.export_whole_part(u.id, 'recoveryCodes', true),
    'passkeys', private.export_whole_part(u.id, 'passkeys', true),
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'credits', (
      select jsonb_build_object('balance', a.balance::text, 'ledger', private.export_whole_part(u.id, 'ledger', with_parts))
      from ai.credit_accounts a where a.user_id = u.id
    )
  )
  from auth.users u
  where u.id = subject_id
$$;

-- Returns a page of one list of private.export_account, oldest record first. part names the list: sessions,
-- securityEvents, approvals, workspaces, invitations, keys, appHandoffs, appSessions, appTokens, openidLogins,
-- openidCodes, deviceLogins, openidConsents, agentConnections, agentAccess or ledger (of credits). after is the last
-- record of the previous page. If page_size is null, returns all records. Credentials come from
-- private.account_credentials; linkedAccounts, authenticators, recoveryCodes and passkeys can't be paged.
-- Definer: the service role may not read the identity backend's tables.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  credential_kind text := case part
    when 'linkedAccounts' then 'identity'
    when 'authenticators' then 'authenticator'
    when 'recoveryCodes' then 'recovery_code'
    when 'passkeys' then 'passkey'
    when 'sessions' then 'session'
    when 'approvals' then 'phone_approval'
    when 'appHandoffs' then 'app_handoff'
    when 'appSessions' then 'app_session'
    when 'appTokens' then 'app_token'
    when 'openidLogins' then 'openid_login'
    when 'openidCodes' then 'openid_code'
    when 'deviceLogins' then 'device_request'
    when 'agentConnections' then 'agent_connection'
  end;
  last_at timestamptz := coalesce(after ->> 'createdAt', after ->> 'joinedAt', '-infinity')::timestamptz;
  last_id uuid := case when part <> 'ledger' then coalesce((after ->> 'id')::uuid, '00000000-0000-0000-0000-000000000000') end;
begin
  if credential_kind is not null then
    return query
      select c.record
      from private.account_credentials c
      where c.user_id = subject_id
        and c.kind = credential_kind
        and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
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
  elsif part = 'openidConsents' then
    return query
      select jsonb_build_object('id', a.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.granted_at)
      from private.openid_consents c join private.apps a on a.id = c.app_id
      where c.user_id = subject_id and (c.granted_at, a.id) > (last_at, last_id)
      order by c.granted_at, a.id
      limit page_size;
  elsif part = 'agentAccess' then
    return query
      select jsonb_build_object(
        'id', a.workspace_id, 'state', a.state, 'tool', a.tool, 'host', a.host, 'createdAt', a.requested_at,
        'answeredAt', a.answered_at
      )
      from ai.agent_access a
      where a.user_id = subject_id and (a.requested_at, a.workspace_id) > (last_at, last_id)
      order by a.requested_at, a.workspace_id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

-- Adds an event to an account's activity, or completes an event that a trigger added. Takes { userId, kind, method,
-- sessionId, targetId, ip, userAgent, device, place, details }. Returns { id, createdAt }, or null if the account doesn't
-- exist. Emails about the event can be sent from then on.
-- Definer: the owner's address is in the identity backend's table, which the service role cannot read.
create or replace function private.record_security_event(event jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
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

  -- If a trigger has already recorded this event, adds the address and the device of the request.
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
        -- The backend records a recovery as a sign-in.
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
    insert into public.security_events (
      user_id, kind, method, session_id, target_id, ip, user_agent, device, place, details
    )
    values (
      subject,
      event ->> 'kind',
      event ->> 'method',
      session,
      (event ->> 'targetId')::uuid,
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
    -- The email about the recovery covers this sign-in.
    or exists (
      select from public.security_events r where r.session_id = recorded.session_id and r.kind = 'account_recovered'
    )
  ) then
    delete from private.outgoing_mails m where m.event_id = recorded.id;
  elsif (recorded.kind = 'sign_in' or private.is_told_by_mail(recorded.kind))
    and not exists (select from private.outgoing_mails m where m.event_id = recorded.id) then
    perform private.queue_event_mail(recorded, owner_email);
  end if;

  -- The event is complete, so its emails can be sent.
  update private.outgoing_mails m set next_attempt_at = now() where m.event_id = recorded.id and m.attempts = 1;

  return jsonb_build_object(
    'id', recorded.id,
    'createdAt', recorded.created_at,
    -- Until 0.3.0: null keeps servers of release 0.1.0 from sending a second email.
    'email', null,
    'newPlace', false
  );
end
$$;

-- Exchanges a refresh token for the next token pair. Returns {user, workspace, scopes, expiresAt} or {refused:
-- unauthenticated | token | scope | workspace | unavailable}. Within 30 s, repeated use returns the same result; later
-- reuse revokes the token family. The web server derives the next pair from the refresh token and a secret key, so all
-- callers pass the same pair.
-- Definer: see exchange_cross_app_token.
create or replace function private.refresh_app_token(
  app_name text,
  secret_hash bytea,
  refresh_hash bytea,
  workspace_id uuid,
  scopes text[],
  access_lookup text,
  access_hash bytea,
  successor_hash bytea
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  app private.apps;
  token ai.app_tokens;
  next ai.app_tokens;
  standing text;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(t.user_id)
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash and t.app_id = app.id;
  select * into token
  from ai.app_tokens t
  where t.refresh_hash = refresh_app_token.refresh_hash
    and t.app_id = app.id
    and t.revoked_at is null
    and t.refresh_expires_at > now()
  for no key update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if token.refreshed_at <= now() - interval '30 seconds' then
    -- Reuse after the grace period means that a party other than the app has the token (RFC 9700 §4.14.2).
    update ai.app_tokens t set revoked_at = now() where t.family_id = token.family_id and t.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  standing := private.proof_status(token.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  if token.workspace_id <> refresh_app_token.workspace_id
    or not private.app_can_act_in_workspace(app, token.workspace_id)
    or not private.is_member_since(token.user_id, token.workspace_id, token.handed_over_at) then
    return jsonb_build_object('refused', 'workspace');
  end if;
  next := token;
  next.scopes := coalesce(
    refresh_app_token.scopes,
    array(select unnest(token.scopes) intersect select unnest(private.gateway_scopes(app)) order by 1)
  );
  if not next.scopes <@ token.scopes or not next.scopes <@ private.gateway_scopes(app) or cardinality(next.scopes) = 0 then
    return jsonb_build_object('refused', 'scope');
  end if;

  if token.refreshed_at is not null then
    -- A second caller within the grace period gets the same pair as the first.
    return coalesce(
      (
        select jsonb_build_object(
          'user', t.user_id, 'workspace', t.workspace_id, 'scopes', t.scopes, 'expiresAt', t.expires_at
        )
        from ai.app_tokens t
        where t.token_hash = access_hash and t.refresh_hash = successor_hash and t.revoked_at is null
      ),
      jsonb_build_object('refused', 'token')
    );
  end if;
  update ai.app_tokens t set refreshed_at = now() where t.id = token.id;
  next.lookup := access_lookup;
  next.token_hash := access_hash;
  next.refresh_hash := successor_hash;
  return private.issue_app_token(next);
end
$$;

-- Ends credentials of an account by their keys in private.account_credentials, and those that were derived from them in
-- the meantime. Returns how many ended, without ways to sign in. Keys of other accounts match nothing. Call private.lock_app_credentials before
-- reading the keys. For definers; not granted to any role.
create or replace function private.end_credentials(subject_id uuid, keys text[]) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  account auth.users;
  part integer;
  ended integer;
begin
  select * into account from auth.users u where u.id = subject_id for no key update;
  select count(*) filter (where private.end_account_session(subject_id, s.id))
  into ended
  from (
    select a.id from auth.sessions a where a.user_id = subject_id and 'session:' || a.id = any (keys) order by a.id
  ) as s;
  update private.login_challenges c
  set status = 'rejected', bound_session_id = null, bound_at = null, valid_until = null, proof_key = null
  where c.user_id = subject_id and 'phone_approval:' || c.id = any (keys) and c.status <> 'rejected';
  get diagnostics part = row_count;
  ended := ended + part;
  -- Revokes handoff tokens before the credentials derived from them. This update waits for a redemption in progress,
  -- and the later updates also revoke the credentials that the redemption created.
  update private.cross_app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id and 'app_handoff:' || t.id = any (keys) and t.revoked_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  update private.app_sessions s
  set revoked_at = now()
  where s.user_id = subject_id
    and s.revoked_at is null
    and ('app_session:' || s.id = any (keys) or 'app_handoff:' || s.handoff_id = any (keys));
  get diagnostics part = row_count;
  ended := ended + part;
  update ai.app_tokens t
  set revoked_at = now()
  where t.user_id = subject_id
    and t.revoked_at is null
    and ('app_token:' || t.id = any (keys) or 'app_handoff:' || t.family_id = any (keys));
  get diagnostics part = row_count;
  ended := ended + part;
  update private.authorization_codes c
  set revoked_at = now()
  where c.user_id = subject_id and 'openid_code:' || c.id = any (keys) and c.revoked_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.device_authorizations d
  where d.user_id = subject_id and 'device_request:' || d.id = any (keys) and d.redeemed_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  update private.openid_grants g
  set revoked_at = now()
  where g.user_id = subject_id and 'openid_login:' || g.id = any (keys) and g.revoked_at is null;
  get diagnostics part = row_count;
  ended := ended + part;
  select ended + count(*) filter (where ai.end_connection(c.id, subject_id))
  into ended
  from ai.agent_connections c
  where c.user_id = subject_id and 'agent_connection:' || c.id = any (keys);
  update private.recovery_credentials r
  set superseded_at = now()
  where r.email = lower(account.email)
    and 'recovery_mail:' || r.id = any (keys)
    and r.consumed_at is null
    and r.superseded_at is null;

  if exists (select from unnest(keys) as k (key) where k.key like 'identity:%') then
    perform private.keep_email_identity(account);
  end if;
  perform private.remove_identity(i.id)
  from auth.identities i
  where i.user_id = subject_id and 'identity:' || i.id = any (keys);
  perform private.delete_auth_passkey(p.id)
  from auth.webauthn_credentials p
  where p.user_id = subject_id and 'passkey:' || p.id = any (keys);
  perform private.delete_auth_factor(subject_id, f.id)
  from auth.mfa_factors f
  where f.user_id = subject_id and 'authenticator:' || f.id = any (keys);
  -- Without an authenticator, its recovery codes are of no use.
  delete from private.mfa_recovery_codes c
  where c.user_id = subject_id
    and (
      'recovery_code:' || c.id = any (keys)
      or not exists (select from auth.mfa_factors f where f.user_id = subject_id and f.status = 'verified')
        and exists (select from unnest(keys) as k (key) where k.key like 'authenticator:%')
    );
  if 'password:' || subject_id = any (keys) then
    perform private.remove_password(subject_id);
  end if;
  return ended;
end
$$;

-- Revokes everything that apps hold for a user: sessions, tokens, OpenID logins, and handoffs, codes and approvals that
-- are not redeemed yet. Consents remain. For definers; not granted to any role.
create or replace function private.end_apps_of_account(subject_id uuid) returns void
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  perform private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id and c.app_id is not null and c.is_active
  ));
end
$$;

-- Revokes everything that one app holds for a user: sessions, tokens, OpenID logins, the consent, and handoffs, codes
-- and approvals that are not redeemed yet. Returns how many it revoked. For definers; not granted to any role.
create or replace function private.end_app_of_account(subject_id uuid, ended_app_id uuid) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  consents integer;
begin
  perform private.lock_app_credentials(subject_id);
  delete from private.openid_consents c where c.user_id = subject_id and c.app_id = ended_app_id;
  get diagnostics consents = row_count;
  return consents + private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.app_id = ended_app_id
      and c.is_active
      -- A redemption that began before the expiry may still be in progress.
      and c.ends_at > now() - interval '1 minute'
  ));
end
$$;

-- Signs an account out: ends every session, app, device login and agent connection, and approvals that are not redeemed
-- yet. Keeps ways to sign in. Returns how many credentials ended. For definers; not granted to any role.
create or replace function private.end_all_access(subject_id uuid) returns integer
  language plpgsql volatile security invoker set search_path = ''
as $$
begin
  perform private.lock_app_credentials(subject_id);
  return private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id and c.is_active and not c.is_method
  ));
end
$$;

-- Ends every session of an account except the calling one, and every app, device login and agent connection that does
-- not end with the calling session. Records the event and notifies the owner. Returns how many credentials ended.
-- Concurrent calls record only one event.
-- Definer: the service role cannot write Supabase Auth's sessions. Auth's own sign-out does not report whether any
-- session ended.
create or replace function private.end_other_sessions(subject_id uuid, actor_session_id uuid) returns integer
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended integer;
begin
  perform private.lock_app_credentials(subject_id);
  ended := private.end_credentials(subject_id, array(
    select c.key
    from private.account_credentials c
    where c.user_id = subject_id
      and c.is_active
      and not c.is_method
      and c.session_id is distinct from actor_session_id
  ));
  perform private.add_account_event(subject_id, 'other_sessions_revoked', session_id => actor_session_id)
  where ended > 0;
  return ended;
end
$$;

-- Returns an account for the console: { id, email, displayName, singleSignOn, createdAt, confirmedAt, lastSignInAt,
-- bannedUntil, infrastructureAdmin, methods, factors, sessions, sessionCount, others }; null if the account doesn't
-- exist. methods comes from private.list_sign_in_methods. sessions contains the 50 sessions that were refreshed last,
-- and sessionCount counts up to 1,001. others contains apps, devices, agents and everything else that acts for the
-- account, as private.account_access lists it. Contains no secret.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_overview(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
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
        'id', c.id,
        'name', c.name,
        'type', c.record -> 'type',
        'verified', c.is_active,
        'createdAt', c.created_at,
        'lastUsedAt', c.last_used_at
      ) order by c.created_at, c.id), '[]')
      from private.account_credentials c
      where c.user_id = u.id and c.kind = 'authenticator'
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
      from private.account_sessions(u.id, page_size => 50) s
    ),
    'sessionCount', private.count_account_sessions(u.id),
    'others', (
      select coalesce(jsonb_agg(w order by w ->> 'addedAt' desc, w ->> 'key'), '[]')
      from jsonb_array_elements(private.account_access(u.id, null, 0) -> 'ways') as w
      where w ->> 'kind' not in ('password', 'identity', 'passkey', 'authenticator')
    )
  )
  from auth.users u
  where u.id = subject_id and u.deleted_at is null
$$;

-- Signs an account out of every device and app and notifies the account's owner. Takes { actor, subject, reason,
-- requestId, ip }. Returns {} or { refused: forbidden | not_found | oneself }. Idempotent.
-- Definer: the service role cannot write Supabase Auth's sessions or the gateway's app tokens.
create or replace function private.sign_account_out(change jsonb) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  actor uuid := (change ->> 'actor')::uuid;
  account record;
  sessions bigint;
  ended integer;
begin
  if not exists (select from private.infrastructure_admins a where a.user_id = actor) then
    return jsonb_build_object('refused', 'forbidden');
  end if;
  if actor = (change ->> 'subject')::uuid then
    return jsonb_build_object('refused', 'oneself');
  end if;
  select u.id, u.email into account from auth.users u where u.id = (change ->> 'subject')::uuid and u.deleted_at is null;
  if not found then
    return jsonb_build_object('refused', 'not_found');
  end if;
  perform private.lock_app_credentials(account.id);
  sessions := private.count_account_sessions(account.id);
  ended := private.end_all_access(account.id);
  perform private.add_account_event(account.id, 'signed_out_by_admin') where ended > 0;
  perform private.record_admin_action(change, jsonb_build_object(
    'action', 'account.sign_out',
    'targetUserId', account.id,
    'target', account.email,
    'before', jsonb_build_object('sessions', sessions),
    'after', jsonb_build_object('sessions', 0)
  ));
  return '{}';
end
$$;

-- Records a person's decision about a device's request. Returns approved, denied, not_found, expired, conflict (already
-- decided), unauthenticated, mfa_required or unavailable. An approval also adds an event to the person's activity.
-- Callers must first check that the session is fresh.
-- Definer: reads the proofs of the session from Supabase Auth's tables.
create or replace function private.decide_device_authorization(
  user_code text,
  claims jsonb,
  approve boolean,
  event jsonb default null
) returns text
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  proved record;
  request private.device_authorizations;
  state text;
begin
  -- Locks the account before reading anything, so that a concurrent change of the password either waits for this
  -- approval and revokes it, or completes first.
  perform private.lock_app_credentials(private.uuid_or_null(claims ->> 'sub'));
  select * into proved from private.session_proof(decide_device_authorization.claims);
  if proved.refused is not null then
    return proved.refused;
  end if;
  -- Sessions that may only replace the account's password can't decide device requests.
  if exists (select from private.password_replacements r where r.session_id = (proved.proof).session_id) then
    return 'unauthenticated';
  end if;
  select d.* into request
  from private.device_authorizations d
  where d.user_code = decide_device_authorization.user_code
  for no key update;
  if not found then
    return 'not_found';
  end if;
  state := private.device_authorization_state(request);
  if state <> 'pending' then
    return case state when 'expired' then 'expired' else 'conflict' end;
  end if;
  if not approve then
    update private.device_authorizations d set denied_at = now() where d.id = request.id;
    return 'denied';
  end if;
  update private.device_authorizations d
  set approved_at = now(),
      user_id = (proved.proof).user_id,
      -- The login survives the sign-out of the browser or phone that approves it.
      proof = row(
        (proved.proof).user_id,
        null,
        (proved.proof).factor_id,
        (proved.proof).second_factor_second,
        (proved.proof).primary_second,
        (proved.proof).generation
      )::private.mfa_proof,
      valid_until = proved.valid_until,
      authentication = private.openid_authentication_of(
        decide_device_authorization.claims, proved.proof, proved.valid_until is not null
      )
  where d.id = request.id;
  perform private.record_security_event(
    event || jsonb_build_object('userId', (proved.proof).user_id, 'targetId', request.id)
  );
  return 'approved';
end
$$;

-- Returns a page of an account's current sessions. The session first_session_id comes first, then the most recently
-- refreshed. before is { createdAt, id }: the refreshed_at and the id of the last session on the previous page. Without
-- page_size, returns all sessions.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
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
  language sql stable security definer set search_path = ''
as $$
  select
    s.id,
    s.created_at,
    -- The time of the session's last refresh, or of the owner's last event in the session if that event is later. A
    -- session in use refreshes about once an hour.
    greatest(s.refreshed, e.last_event_at),
    s.record ->> 'ip',
    -- Prefers the user agent of the sign-in event. For a sign-in on our pages, Supabase Auth records our server's user
    -- agent.
    coalesce(e.user_agent, s.record ->> 'userAgent'),
    e.device,
    e.place,
    e.method,
    s.record ->> 'aal',
    s.refreshed
  from (
    select l.user_id, l.id, l.created_at, l.last_used_at as refreshed, l.record
    from private.account_credentials l
    where l.user_id = subject_id
      and l.kind = 'session'
      and l.is_live
      and (
        before is null
        or l.id is distinct from first_session_id
          and (l.last_used_at, l.id) < ((before ->> 'createdAt')::timestamptz, (before ->> 'id')::uuid)
      )
    order by l.id is not distinct from first_session_id desc, l.last_used_at desc, l.id desc
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

-- Returns the number of an account's current sessions, up to the limit `most`.
-- Definer: sessions are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.count_account_sessions(subject_id uuid, most integer default 1001) returns bigint
  language sql stable security definer set search_path = ''
as $$
  select count(*)
  from (
    select
    from private.account_credentials c
    where c.user_id = subject_id and c.kind = 'session' and c.is_live
    limit most
  ) as counted
$$;

-- Approves or declines the open request that a member made at requested_at, or withdraws an approval, which revokes the
-- keys of that member's agents. Outcomes: done, answered, not_allowed. answered: another manager answered first, or the
-- member has made a later request.
-- Definer: the service role can't update access requests.
create or replace function ai.answer_agent_access(
  member_id uuid, workspace uuid, requester_id uuid, requested_at timestamptz, answer text
) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  answered ai.agent_access;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  -- Locks the workspace first, because deleting an account locks its workspaces before these rows.
  perform from public.workspaces w where w.id = workspace for key share;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.agent_access a
  set
    state = case answer when 'approve' then 'approved' when 'decline' then 'declined' else 'withdrawn' end,
    answered_at = now(),
    answered_by = member_id
  where a.workspace_id = workspace
    and a.user_id = requester_id
    and a.requested_at = answer_agent_access.requested_at
    and a.state = case when answer in ('approve', 'decline') then 'open' else 'approved' end
  returning * into answered;
  if not found then
    return jsonb_build_object('outcome', 'answered');
  end if;
  perform private.log_workspace_change(
    workspace, 'agent_access.' || answered.state, requester_id,
    (select p.display_name from public.profiles p where p.id = requester_id)
  );
  return jsonb_build_object('outcome', 'done');
end
$$;

-- Revokes the connections and keys of members who may no longer connect agents, for good: a member who gets the right
-- back connects again.
-- Definer: the roles that change members and their rights can't write connections.
create or replace function ai.end_unauthorized_connections() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  workspace constant uuid := (to_jsonb(old) ->> 'workspace_id')::uuid;
  connection ai.agent_connections;
begin
  for connection in
    select *
    from ai.agent_connections c
    where c.workspace_id = workspace
      and c.revoked_at is null
      and (tg_table_name = 'workspace_roles' or c.user_id = (to_jsonb(old) ->> 'user_id')::uuid)
      and not ai.may_connect_agents(c.user_id, workspace)
    order by c.id
  loop
    perform ai.end_connection(connection.id, private.acting_user_id());
  end loop;
  return null;
end
$$;

-- Revokes a connection and its keys. Returns false if the connection does not exist or was already revoked.
create or replace function ai.end_connection(connection_id uuid, actor uuid) returns boolean
  language plpgsql volatile security invoker set search_path = ''
as $$
declare
  ended ai.agent_connections;
  key ai.keys;
begin
  -- Locks in the same order as private.issue_agent_key: the workspace, the connection, its keys.
  perform
  from public.workspaces w
  where w.id = (select c.workspace_id from ai.agent_connections c where c.id = end_connection.connection_id)
  for key share;
  update ai.agent_connections c
  set revoked_at = now()
  where c.id = end_connection.connection_id and c.revoked_at is null
  returning * into ended;
  if not found then
    return false;
  end if;
  update ai.keys k set revoked_at = now() where k.connection_id = ended.id and k.revoked_at is null;
  select * into key from ai.keys k where k.connection_id = ended.id and k.replaced_by is null;
  if found then
    perform set_config('gatehouse.actor_id', coalesce(actor::text, ''), true);
    perform private.log_workspace_change(ended.workspace_id, 'key.revoked', key.id, key.name);
  end if;
  return true;
end
$$;

-- Revokes the keys of a connection that is deleted together with its member's account, or that moves to another login,
-- so that a key never outlives the login that it was issued for. Removes the name of the computer from the keys of a
-- deleted connection.
-- Definer: Supabase Auth deletes accounts and has no grant to change keys.
create or replace function ai.revoke_keys_of_connection() returns trigger
  language plpgsql volatile security definer set search_path = ''
as $$
begin
  update ai.keys k
  set
    revoked_at = coalesce(k.revoked_at, now()),
    name = case when tg_op = 'DELETE' then ai.agent_name(old.tool) else k.name end
  where k.connection_id = old.id;
  return case tg_op when 'DELETE' then old else new end;
end
$$;

-- Returns the keys of a workspace that a person made and that still work, newest first: { outcome: listed, count, keys:
-- [{ id, name, lookup, lastUsedAt }] }, or { outcome: not_allowed }. Leaves out keys of coding agents, which end when
-- the person leaves. count is for members with manage_members or manage_ai_keys, and for the person. keys is empty for
-- callers without manage_ai_keys.
-- Definer: checks what a member may do, which the service role can't check itself.
create or replace function ai.list_keys_of_creator(
  member_id uuid, workspace uuid, creator_id uuid, page_size integer default 30
) returns jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  manages_keys constant boolean := private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys');
begin
  if not manages_keys
    and not private.user_has_workspace_permission(member_id, workspace, 'manage_members')
    and not (member_id = creator_id and private.is_workspace_member(member_id, workspace)) then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  return (
    select jsonb_build_object(
      'outcome', 'listed',
      'count', count(*),
      'keys', coalesce(jsonb_agg(
        jsonb_build_object('id', k.id, 'name', k.name, 'lookup', k.lookup, 'lastUsedAt', k.last_used_at)
        order by k.place
      ) filter (where manages_keys and k.place <= page_size), '[]')
    )
    from (
      select a.*, row_number() over (order by a.created_at desc, a.id desc) as place
      from ai.keys a
      where a.workspace_id = workspace
        and a.created_by = creator_id
        and a.connection_id is null
        and a.revoked_at is null
        and (a.expires_at is null or a.expires_at > now())
    ) as k
  );
end
$$;

-- Revokes a key. For a coding agent's key, revokes the agent's connection. Idempotent. Requires manage_ai_keys, but the
-- workspace need not be approved. Outcomes: revoked, not_allowed, not_found.
-- Definer: the service role cannot write keys, so every revocation passes these checks.
create or replace function ai.revoke_key(member_id uuid, workspace uuid, key_id uuid) returns jsonb
  language plpgsql volatile security definer set search_path = ''
as $$
declare
  ended ai.keys;
  agent uuid;
begin
  if not private.user_has_workspace_permission(member_id, workspace, 'manage_ai_keys') then
    return jsonb_build_object('outcome', 'not_allowed');
  end if;
  select k.connection_id into agent from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  if agent is not null then
    -- A key manager who revokes another member's agent also withdraws that member's approval.
    if ai.end_connection(agent, member_id) then
      update ai.agent_access a
      set state = 'withdrawn', answered_at = now(), answered_by = member_id
      from ai.agent_connections c
      where c.id = agent
        and c.user_id <> member_id
        and a.workspace_id = c.workspace_id
        and a.user_id = c.user_id
        and a.state = 'approved';
    end if;
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform set_config('gatehouse.actor_id', member_id::text, true);
  update ai.keys k set revoked_at = now()
  where k.id = revoke_key.key_id and k.workspace_id = workspace and k.revoked_at is null
  returning * into ended;
  if found then
    perform private.log_workspace_change(workspace, 'key.revoked', ended.id, ended.name);
    return jsonb_build_object('outcome', 'revoked');
  end if;
  perform from ai.keys k where k.id = revoke_key.key_id and k.workspace_id = workspace;
  return jsonb_build_object('outcome', case when found then 'revoked' else 'not_found' end);
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

-- Returns the roles that a person may assign to members and withdraw from them. Excludes roles with permissions that the
-- person's own role lacks, to prevent self-promotion. Not granted to any role, because it does not check that the id is
-- the caller's.
create or replace function private.assignable_roles(user_id uuid) returns setof public.workspace_roles
  language sql stable security invoker set search_path = ''
as $$
  select other.*
  from public.workspace_members m
  join public.workspaces w on w.id = m.workspace_id
  join public.workspace_roles mine on mine.id = m.role_id
  join public.workspace_roles other on other.workspace_id = m.workspace_id
  where m.user_id = assignable_roles.user_id
    and w.deleted_at is null
    and (
      mine.is_owner
      or (
        'manage_members'::public.workspace_permission = any (mine.permissions)
        and not other.is_owner
        and other.permissions <@ mine.permissions
      )
    )
$$;

-- Returns the ids of the roles that the caller may assign to members and withdraw from them. Includes the owner role
-- only if the caller is an owner who proved their identity in the last ten minutes.
-- Definer: bypasses the policy on memberships, but reads only the caller's memberships.
create or replace function private.my_assignable_role_ids() returns setof uuid
  language plpgsql stable security definer set search_path = ''
as $$
begin
  return query
    select r.id
    from private.assignable_roles((select auth.uid())) r
    where not r.is_owner or private.session_is_fresh();
end
$$;

-- Returns whether a user has been a member of a workspace without a break since the given time. A credential of an
-- earlier membership stays refused when the person is invited again. Not granted to any role, like
-- private.is_workspace_member.
create or replace function private.is_member_since(user_id uuid, workspace_id uuid, since timestamptz) returns boolean
  language plpgsql stable security invoker
as $$
begin
  return exists (
    select
    from public.workspace_members m
    where m.user_id = is_member_since.user_id
      and m.workspace_id = is_member_since.workspace_id
      and m.created_at <= since
  );
end
$$;

create or replace trigger end_unauthorized_connections after update of state or delete on ai.agent_access
  for each row when (old.state = 'approved') execute function ai.end_unauthorized_connections();

create or replace trigger end_unauthorized_connections after update of role_id or delete on public.workspace_members
  for each row execute function ai.end_unauthorized_connections();

create or replace trigger end_unauthorized_connections after update of permissions on public.workspace_roles
  for each row when (not old.permissions <@ new.permissions) execute function ai.end_unauthorized_connections();

create or replace trigger revoke_keys_of_login before update of login_id on ai.agent_connections
  for each row when (old.login_id is distinct from new.login_id) execute function ai.revoke_keys_of_connection();

-- Triggers run in the order of their names. Invitations are locked before their workspace, so these run before
-- end_unauthorized_connections and require_workspace_owner, which lock it.
create or replace trigger adjust_invitations after update of role_id or delete on public.workspace_members
  for each row execute function private.withdraw_unauthorized_invitations();

create or replace trigger adjust_invitations after update of permissions on public.workspace_roles
  for each row execute function private.withdraw_unauthorized_invitations();

-- Returns what gives access to an account: { listedAt, confirmedAt, email, ways: [{ key, kind, id, name, userAgent,
-- provider, addedAt, lastUsedAt, device, address, bySession, isNew, unconfirmed }], otherSessions: { key, count, isNew
-- } }. Returns null if the account doesn't exist. The entries come from private.account_credentials; an app and a
-- device's login have one entry each. ways contains at most most_sessions sessions: the calling session, then the most
-- recently refreshed. otherSessions counts the remaining sessions, up to 1,001. kind is password, identity, passkey,
-- authenticator, recovery_codes, recovery_mail, session, phone_approval, app, device or agent. isNew is true if the
-- entry was added after the owner last confirmed the list or, without a confirmation, after the account was created. In
-- a session that began with a password reset or recovery, only confirmations by such sessions count. device and address
-- are null if no event records where the entry was added.
-- Definer: accounts are in Supabase Auth's tables, which the service role cannot read.
create or replace function private.account_access(
  subject_id uuid, actor_session_id uuid, most_sessions integer default null
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
      max(c.name) as name,
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
    where c.kind <> 'session'
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
    cross join lateral private.account_sessions(a.id, actor_session_id, page_size => most_sessions) s
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
        'unconfirmed', n.target_id is not null
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
        'count', c.sessions - least(c.sessions, most_sessions),
        'isNew', exists (
          select
          from private.account_credentials c
          where c.user_id = a.id and c.kind = 'session' and c.is_live and c.added_at > a.since
            and c.listed_as not in (select w.key from ways w)
        )
      )
      from private.count_account_sessions(a.id, most_sessions + 1001) as c (sessions)
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
        and c.kind <> 'session'
        and not c.is_method
        and c.session_id is distinct from actor_session_id
        and c.is_live
    )
  )
$$;

-- Finds a ttr_app_ token by its SHA-256. Returns its person and workspace, the scopes that both the token and the app's
-- registration currently have, and the gateway's error code if the gateway refuses the token. Returns no row if the
-- token is unknown, expired or revoked. For definers; not granted to any role.
create or replace function ai.find_app_token(token_hash bytea)
  returns table (
    token_id uuid,
    app_id uuid,
    user_id uuid,
    workspace_id uuid,
    scopes text[],
    refused text
  )
  language sql stable security invoker
as $$
  select
    t.id, t.app_id, t.user_id, t.workspace_id, s.in_force,
    case
      when p.standing = 'unavailable' then 'AUTH_UNAVAILABLE'
      when p.standing = 'mfa_required' then 'MFA_REQUIRED'
      when p.standing <> 'good' then 'invalid_api_key'
      when not private.is_member_since(t.user_id, t.workspace_id, t.handed_over_at) then 'app_not_allowed'
      else private.gateway_refusal(a, t.workspace_id, s.in_force)
    end
  from ai.app_tokens t
  join private.apps a on a.id = t.app_id
  cross join lateral private.proof_status(t.proof) as p (standing)
  cross join lateral (
    select array(select unnest(t.scopes) intersect select unnest(private.gateway_scopes(a)) order by 1) as in_force
  ) as s
  where t.token_hash = find_app_token.token_hash
    and t.revoked_at is null
    and t.expires_at > now()
$$;

-- Returns the apps that hold a person's live credentials or consent: [{name, displayName, origins, session, login,
-- consent, tokens}]. session summarizes the app sessions, login summarizes the OpenID Connect logins, and each entry of
-- tokens summarizes the tokens for one workspace. A summary is {scopes, connectedAt, renewedAt, endsAt}, with the
-- scopes that are currently in force. An entry of tokens also has workspace, which is the name, or null if the gateway
-- refuses the tokens. consent is {scopes, grantedAt}. session, login and consent may be null.
-- Definer: reads the identity backend's tables and the registry, and calls functions that are not granted to any role.
create or replace function private.connected_apps(subject_id uuid) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  with sessions as (
    select
      s.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(s.created_at),
        'renewedAt', max(s.issued_at),
        'endsAt', max(s.ends_at)
      ) as held
    from private.app_sessions s
    left join lateral unnest(private.effective_scopes(s)) as g (scope) on true
    where s.user_id = subject_id
      and s.revoked_at is null
      and s.expires_at > now()
      and s.ends_at > now()
      and private.proof_status(s.proof) <> 'over'
    group by s.app_id
  ),
  tokens as (
    select
      t.app_id,
      t.workspace_id,
      jsonb_build_object(
        'workspace', max(w.name),
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(t.handed_over_at),
        'renewedAt', max(t.created_at),
        'endsAt', max(e.ends_at)
      ) as held
    from ai.app_tokens t
    join private.apps a on a.id = t.app_id
    -- A token counts until its refresh token expires. Once the token has been refreshed, it counts only until its
    -- access token expires.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- Hides the workspace's name and the token's scopes if the app can no longer act in the workspace or the person has
    -- left it.
    left join public.workspaces w on w.id = t.workspace_id
      and private.app_can_act_in_workspace(a, w.id)
      and private.is_member_since(subject_id, w.id, t.handed_over_at)
    left join lateral unnest(t.scopes) as g (scope) on w.id is not null and g.scope = any (private.gateway_scopes(a))
    where t.user_id = subject_id
      and t.revoked_at is null
      and e.ends_at > now()
      and private.proof_status(t.proof) <> 'over'
    group by t.app_id, t.workspace_id
  ),
  logins as (
    select
      l.app_id,
      jsonb_build_object(
        'scopes', coalesce(jsonb_agg(distinct g.scope) filter (where g.scope is not null), '[]'),
        'connectedAt', min(l.created_at),
        'renewedAt', max(coalesce(t.created_at, l.created_at)),
        'endsAt', max(l.ends_at)
      ) as held
    from private.openid_grants l
    left join private.openid_tokens t on t.grant_id = l.id
    left join lateral unnest(private.openid_scopes(l.app_id, l.scopes)) as g (scope) on true
    where l.user_id = subject_id
      and l.revoked_at is null
      and l.ends_at > now()
      and private.proof_status(l.proof) <> 'over'
    group by l.app_id
  ),
  consents as (
    select
      c.app_id,
      jsonb_build_object('scopes', private.openid_scopes(c.app_id, c.scopes), 'grantedAt', c.granted_at) as held
    from private.openid_consents c
    join private.apps a on a.id = c.app_id and a.enabled
    where c.user_id = subject_id
  )
  select coalesce(jsonb_agg(jsonb_build_object(
    'name', a.name,
    'displayName', a.display_name,
    'origins', (
      select coalesce(jsonb_agg(o.origin order by o.origin), '[]') from private.app_origins o where o.app_id = a.id
    ),
    'session', s.held,
    'login', l.held,
    'consent', c.held,
    'tokens', (
      select coalesce(jsonb_agg(t.held order by t.held ->> 'workspace', t.workspace_id), '[]')
      from tokens t
      where t.app_id = a.id
    )
  ) order by lower(a.display_name), a.name), '[]')
  from private.apps a
  left join sessions s on s.app_id = a.id
  left join logins l on l.app_id = a.id
  left join consents c on c.app_id = a.id
  where coalesce(s.app_id, l.app_id, c.app_id) is not null or exists (select from tokens t where t.app_id = a.id)
$$;

comment on view private.account_credentials is
  'One row for each credential, including ended ones. listed_as: the entry of the access review that the row belongs '
  'to. source_id: what the credential was derived from, such as a handoff, a code, a device''s request or a login. '
  'session_id: the session that the credential ends with; null if it outlives sessions. is_method: a way to sign in, to '
  'prove a second step or to recover, which a sign-out keeps. is_active: not revoked, redeemed or incomplete. is_live: '
  'it works now, or would after a second factor. record: the row''s entry in the account''s export.';

grant execute on function ai.list_keys_of_creator(uuid, uuid, uuid, integer) to service_role;
