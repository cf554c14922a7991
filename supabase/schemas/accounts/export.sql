-- Exports everything that is stored about a person, without secrets.

-- Returns everything stored about an account except its AI runs, without secrets, hashes or codes. Returns null if the
-- account doesn't exist. If with_parts is false, the lists that private.export_account_part can return are empty.
-- Definer: the functions that it calls are not granted to any role.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql stable security definer set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens', 'openidLogins', 'openidCodes', 'deviceLogins', 'openidConsents', 'agentConnections', 'agentAccess',
      'serviceAccounts'
    ]) as p (part)
  )
$$;

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
    'accessConfirmedAt', (select a.confirmed_at from private.access_confirmations a where a.user_id = u.id),
    'unconfirmedAdditions', (
      select coalesce(jsonb_agg(jsonb_build_object('kind', a.kind, 'createdAt', a.created_at) order by a.created_at), '[]')
      from private.unconfirmed_additions a where a.user_id = u.id
    ),
    'credits', (
      select jsonb_build_object('balance', a.balance::text, 'ledger', private.export_whole_part(u.id, 'ledger', with_parts))
      from ai.credit_accounts a where a.user_id = u.id
    )
  ) || (
    -- Reads the view once for all kinds, because planning it takes far longer than reading it.
    select jsonb_object_agg(l.list, coalesce(r.records, '[]'))
    from (
      values ('linkedAccounts', 'identity'), ('authenticators', 'authenticator'), ('recoveryCodes', 'recovery_code'),
        ('passkeys', 'passkey')
    ) as l (list, kind)
    left join (
      select c.kind, jsonb_agg(c.record order by c.created_at, c.id) as records
      from private.account_credentials c
      where c.user_id = subject_id and c.kind in ('identity', 'authenticator', 'recovery_code', 'passkey')
      group by c.kind
    ) r using (kind)
  )
  from auth.users u
  where u.id = subject_id
$$;

-- Returns all records of one list of an export, or [] if they are not requested. Not granted to any role, so only
-- security definer functions can call it.
create or replace function private.export_whole_part(subject_id uuid, part text, is_included boolean) returns jsonb
  language sql stable security invoker set search_path = ''
as $$
  select coalesce(jsonb_agg(r.record order by r.place), '[]')
  from private.export_account_part(subject_id, part, page_size => null) with ordinality as r (record, place)
  where is_included
$$;

-- Returns a page of one list of private.export_account, oldest record first. part names the list: sessions,
-- securityEvents, approvals, workspaces, invitations, keys, appHandoffs, appSessions, appTokens, openidLogins,
-- openidCodes, deviceLogins, openidConsents, agentConnections, agentAccess, serviceAccounts or ledger (of credits). after
-- is the last record of the previous page. If page_size is null, returns all records. Credentials come from
-- private.account_credentials.
-- Definer: the service role may not read the identity backend's tables.
create or replace function private.export_account_part(
  subject_id uuid, part text, after jsonb default null, page_size integer default 500
) returns setof jsonb
  language plpgsql stable security definer set search_path = ''
as $$
declare
  credential_kind text := case part
    when 'sessions' then 'session'
    when 'approvals' then 'phone_approval'
    when 'appHandoffs' then 'app_handoff'
    when 'appSessions' then 'app_session'
    when 'appTokens' then 'app_token'
    when 'openidLogins' then 'openid_login'
    when 'openidCodes' then 'openid_code'
    when 'deviceLogins' then 'device_request'
    when 'agentConnections' then 'agent_connection'
    when 'serviceAccounts' then 'service_account'
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
      select jsonb_build_object(
        'id', c.id, 'app', a.name, 'resource', r.resource_url, 'scopes', c.scopes, 'createdAt', c.granted_at
      )
      from private.openid_consents c
      join private.apps a on a.id = c.app_id
      left join private.apps r on r.id = c.resource_id
      where c.user_id = subject_id and (c.granted_at, c.id) > (last_at, last_id)
      order by c.granted_at, c.id
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

-- Returns a page of the AI runs that a person made themselves, newest first, without prompts and answers. costUsd is
-- null if the workspace's policy hides provider costs. before is the last run of the previous page.
create or replace function private.export_account_runs(subject_id uuid, before jsonb default null, page_size integer default 500)
  returns setof jsonb
  language sql stable security invoker set search_path = ''
as $$
  select jsonb_build_object(
    'id', r.id, 'createdAt', r.created_at, 'workspaceId', r.workspace_id, 'appId', r.app_id, 'model', r.model_id,
    'feature', r.feature, 'requestId', r.request_id, 'status', r.status, 'inputTokens', r.input_tokens,
    'outputTokens', r.output_tokens, 'billedCredits', r.billed_credits::text,
    'costUsd', case when coalesce(p.provider_cost_visible, true) then r.cost_usd::text end
  )
  from ai.runs r
  left join ai.workspace_policies p on p.workspace_id = r.workspace_id
  where r.actor_id = subject_id
    and r.credential_source <> 'key'
    -- Lets Postgres prune partitions. The row comparison below does not.
    and r.created_at <= coalesce((before ->> 'createdAt')::timestamptz, 'infinity')
    and (r.created_at, r.id) < (
      coalesce((before ->> 'createdAt')::timestamptz, 'infinity'),
      coalesce((before ->> 'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
    )
  order by r.created_at desc, r.id desc
  limit page_size
$$;
