-- Generated from supabase/schemas by npm run db:migration.
set lock_timeout = '500ms';

-- Definer: no role may call its parts.
create or replace function private.export_account(subject_id uuid, with_parts boolean default true) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
as $$
  select private.export_account_proper(subject_id, with_parts) || (
    select jsonb_object_agg(p.part, private.export_whole_part(subject_id, p.part, with_parts))
    from unnest(array[
      'sessions', 'securityEvents', 'approvals', 'workspaces', 'invitations', 'keys', 'appHandoffs', 'appSessions',
      'appTokens', 'openidLogins', 'openidCodes', 'deviceLogins', 'openidConsents'
    ]) as p (part)
  )
$$;

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
  elsif part = 'openidLogins' then
    return query
      select jsonb_build_object(
        'id', g.id, 'app', a.name, 'scopes', g.scopes, 'authTime', (g.authentication).auth_time,
        'acr', (g.authentication).acr, 'amr', (g.authentication).amr, 'createdAt', g.created_at, 'endsAt', g.ends_at,
        'revokedAt', g.revoked_at
      )
      from private.openid_grants g join private.apps a on a.id = g.app_id
      where g.user_id = subject_id and (g.created_at, g.id) > (last_at, last_id)
      order by g.created_at, g.id
      limit page_size;
  elsif part = 'openidCodes' then
    return query
      select jsonb_build_object(
        'id', c.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.created_at, 'redeemedAt', c.redeemed_at,
        'revokedAt', c.revoked_at
      )
      from private.authorization_codes c join private.apps a on a.id = c.app_id
      where c.user_id = subject_id and (c.created_at, c.id) > (last_at, last_id)
      order by c.created_at, c.id
      limit page_size;
  elsif part = 'deviceLogins' then
    return query
      select jsonb_build_object(
        'id', d.id, 'app', a.name, 'scopes', d.scopes, 'ip', host(d.ip), 'userAgent', d.user_agent, 'place', d.place,
        'createdAt', d.created_at, 'approvedAt', d.approved_at, 'deniedAt', d.denied_at, 'redeemedAt', d.redeemed_at
      )
      from private.device_authorizations d join private.apps a on a.id = d.app_id
      where d.user_id = subject_id and (d.created_at, d.id) > (last_at, last_id)
      order by d.created_at, d.id
      limit page_size;
  elsif part = 'openidConsents' then
    return query
      select jsonb_build_object('id', a.id, 'app', a.name, 'scopes', c.scopes, 'createdAt', c.granted_at)
      from private.openid_consents c join private.apps a on a.id = c.app_id
      where c.user_id = subject_id and (c.granted_at, a.id) > (last_at, last_id)
      order by c.granted_at, a.id
      limit page_size;
  else
    raise exception 'there is no such part' using errcode = 'invalid_parameter_value';
  end if;
end
$$;

-- Definer: proofs, apps' secrets and consumption are granted to nobody.
create or replace function private.redeem_cross_app_token(
  app_name text,
  secret_hash bytea,
  token_hash bytea,
  proof text,
  facts jsonb,
  app_hash bytea,
  central_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  standing text;
  handoff uuid;
  session_end timestamptz := least(now() + interval '30 days', (facts ->> 'validUntil')::timestamptz);
  opened jsonb;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.hold_proof(private.handoff_proof(facts));
  standing := private.proof_status(private.handoff_proof(facts));
  if standing = 'unavailable' then
    return jsonb_build_object('refused', 'unavailable');
  end if;
  if standing <> 'good' or session_end <= now() or (facts ->> 'targetId')::uuid <> app.id then
    return jsonb_build_object('refused', 'token');
  end if;
  handoff := private.consume_cross_app_token(
    redeem_cross_app_token.token_hash, app.id, (facts ->> 'user')::uuid, redeem_cross_app_token.proof
  );
  if handoff is null then
    return jsonb_build_object('refused', 'token');
  end if;

  with sessions as (
    insert into private.app_sessions as s (
      handoff_id, app_id, audience, scopes, proof, user_id, token_hash, expires_at, ends_at
    )
    select
      handoff, app.id, o.audience, app.scopes, private.handoff_proof(facts), (facts ->> 'user')::uuid, o.hash,
      least(now() + interval '8 hours', session_end), session_end
    from (values ('app', app_hash), ('central', central_hash)) as o (audience, hash)
    -- The central API is for apps that have something to do there.
    where o.audience = 'app' or app.scopes && array['workspaces:read', 'workspaces:write', 'studio:read']
    returning s.audience, private.app_session_summary(s) as summary
  )
  select jsonb_object_agg(s.audience, s.summary) into opened from sessions s;
  return opened;
end
$$;

create or replace function private.app_session_summary(session private.app_sessions) returns jsonb
  language sql
  stable
  security invoker
as $$
  select jsonb_build_object(
    'id', session.id,
    'handoff', session.handoff_id,
    'audience', session.audience,
    'user', session.user_id,
    'factor', (session.proof).factor_id,
    'issuedAt', session.issued_at,
    'expiresAt', session.expires_at
  )
$$;

-- Definer: asks what is granted to nobody, of the identity backend's tables and of the registry.
create or replace function private.connected_apps(subject_id uuid) returns jsonb
  language sql
  stable
  security definer
  set search_path = ''
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
    -- Its refresh token's end, until that was used: from then on its successor has a line of its own.
    cross join lateral (
      select case when t.refreshed_at is null then t.refresh_expires_at else t.expires_at end as ends_at
    ) as e
    -- Where the gateway refuses the token, it may do nothing; and who has left a workspace learns no name of it.
    left join public.workspaces w on w.id = t.workspace_id
      and private.app_can_act_in_workspace(a, w.id)
      and private.is_workspace_member(subject_id, w.id)
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

create or replace function private.apps_ever_connected(subject_id uuid) returns setof private.apps
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select a.*
  from private.apps a
  where exists (select from private.app_sessions s where s.app_id = a.id and s.user_id = subject_id)
    or exists (select from ai.app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.cross_app_tokens t where t.app_id = a.id and t.user_id = subject_id)
    or exists (select from private.openid_grants g where g.app_id = a.id and g.user_id = subject_id)
    or exists (select from private.authorization_codes c where c.app_id = a.id and c.user_id = subject_id)
    or exists (select from private.device_authorizations d where d.app_id = a.id and d.user_id = subject_id)
    or exists (select from private.openid_consents c where c.app_id = a.id and c.user_id = subject_id)
$$;

-- Definer: authenticate_app is not granted to a role.
create or replace function private.revoke_app_credential(app_name text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  app private.apps;
  held record;
begin
  select * into app from private.authenticate_app(app_name, secret_hash);
  if not found then
    return false;
  end if;
  -- Of whom it is and what it came of never changes.
  select h.user_id, h.handoff_id into held
  from (
    select s.user_id, s.handoff_id
    from private.app_sessions s
    where s.app_id = app.id
      and (s.token_hash = revoke_app_credential.token_hash or s.previous_hash = revoke_app_credential.token_hash)
    union all
    select t.user_id, t.family_id
    from ai.app_tokens t
    where t.app_id = app.id
      and (t.token_hash = revoke_app_credential.token_hash or t.refresh_hash = revoke_app_credential.token_hash)
  ) as h;
  if found then
    perform private.lock_app_credentials(held.user_id);
    update private.app_sessions s
    set revoked_at = now()
    where s.handoff_id = held.handoff_id and s.app_id = app.id and s.revoked_at is null;
    update ai.app_tokens t
    set revoked_at = now()
    where t.family_id = held.handoff_id and t.app_id = app.id and t.revoked_at is null;
    perform private.withdraw_logout(held.handoff_id);
  end if;
  return true;
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
  update private.authorization_codes c set revoked_at = now() where c.user_id = subject_id and c.revoked_at is null;
  delete from private.device_authorizations d where d.user_id = subject_id and d.redeemed_at is null;
  update private.openid_grants g set revoked_at = now() where g.user_id = subject_id and g.revoked_at is null;
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
  ended := ended + part;
  update private.authorization_codes c
  set revoked_at = now()
  where c.user_id = subject_id
    and c.app_id = ended_app_id
    and c.redeemed_at is null
    and c.revoked_at is null
    and c.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.device_authorizations d
  where d.user_id = subject_id
    and d.app_id = ended_app_id
    and d.redeemed_at is null
    and d.expires_at > now() - interval '1 minute';
  get diagnostics part = row_count;
  ended := ended + part;
  update private.openid_grants g
  set revoked_at = now()
  where g.user_id = subject_id and g.app_id = ended_app_id and g.revoked_at is null and g.ends_at > now();
  get diagnostics part = row_count;
  ended := ended + part;
  delete from private.openid_consents c where c.user_id = subject_id and c.app_id = ended_app_id;
  get diagnostics part = row_count;
  return ended + part;
end
$$;

-- Definer: whoever may write the registry need not reach the gateway's tables.
create or replace function private.revoke_app_credentials() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  -- All of its people first, and in one order, as private.lock_app_credentials does for one of them: whoever refreshes or
  -- disconnects at this moment is waited for, or waits, before either has a row that the other wants.
  perform
  from auth.users u
  where u.id in (
    select t.user_id from private.cross_app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select s.user_id from private.app_sessions s where s.app_id = new.id and s.revoked_at is null
    union
    select t.user_id from ai.app_tokens t where t.app_id = new.id and t.revoked_at is null
    union
    select c.user_id from private.authorization_codes c where c.app_id = new.id and c.revoked_at is null
    union
    select d.user_id from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null
    union
    select g.user_id from private.openid_grants g where g.app_id = new.id and g.revoked_at is null
  )
  order by u.id
  for no key update;
  -- In the order in which one comes of the other: a redemption under way is waited for, and what it made is seen next.
  update private.cross_app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.app_sessions s set revoked_at = now() where s.app_id = new.id and s.revoked_at is null;
  update ai.app_tokens t set revoked_at = now() where t.app_id = new.id and t.revoked_at is null;
  update private.authorization_codes c set revoked_at = now() where c.app_id = new.id and c.revoked_at is null;
  delete from private.device_authorizations d where d.app_id = new.id and d.redeemed_at is null;
  update private.openid_grants g set revoked_at = now() where g.app_id = new.id and g.revoked_at is null;
  return null;
end
$$;

create or replace function private.sweep_app_credentials(at_most integer default 1000) returns integer
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
declare
  swept integer := 0;
  part integer;
begin
  if not pg_try_advisory_xact_lock(hashtextextended('private.sweep_app_credentials', 0)) then
    return 0;
  end if;
  -- Disabling an app and closing an account lock these rows in another order, so locked ones stay for the next sweep.
  delete from private.cross_app_tokens t
  where t.id = any (array(
    select o.id from private.cross_app_tokens o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.app_sessions s
  where s.id = any (array(
    select o.id from private.app_sessions o
    where o.ends_at < now() - interval '1 day' order by o.ends_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  -- A used refresh token stays until it would have expired, so that its reuse is noticed.
  delete from ai.app_tokens t
  where t.id = any (array(
    select o.id from ai.app_tokens o
    where o.refresh_expires_at < now() - interval '1 day' order by o.refresh_expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.authorization_codes c
  where c.id = any (array(
    select o.id from private.authorization_codes o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  delete from private.device_authorizations d
  where d.id = any (array(
    select o.id from private.device_authorizations o
    where o.expires_at < now() - interval '1 day' order by o.expires_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  swept := swept + part;
  -- With their tokens: a used refresh token stays as long, so that its reuse is noticed.
  delete from private.openid_grants g
  where g.id = any (array(
    select o.id from private.openid_grants o
    where o.ends_at < now() - interval '1 day' order by o.ends_at limit at_most for update skip locked
  ));
  get diagnostics part = row_count;
  return swept + part;
end
$$;

create or replace function private.is_proof_intact(proof private.mfa_proof) returns boolean
  language sql
  stable
  security invoker
  set search_path = ''
as $$
  select exists (
    select
    from auth.users u
    where u.id = proof.user_id
      and proof.generation is not distinct from private.required_mfa_generation(u.raw_app_meta_data)
      and (
        proof.session_id is null
        or exists (select from auth.sessions s where s.id = proof.session_id and s.user_id = u.id)
      )
      and (
        proof.factor_id is null
        or exists (
          select from auth.mfa_factors f where f.id = proof.factor_id and f.user_id = u.id and f.status = 'verified'
        )
      )
  )
$$;

-- Definer: Supabase Auth runs this trigger, and has no rights in these schemas.
create or replace function private.queue_logouts_before_change() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  outcome record := case tg_op when 'DELETE' then old else new end;
begin
  case tg_table_name
    when 'sessions' then perform private.queue_logouts(old.user_id, session_id => old.id);
    when 'mfa_factors' then perform private.queue_logouts(old.user_id, factor_id => old.id);
    else perform private.queue_logouts(old.id);
  end case;
  return outcome;
exception when others then
  raise warning 'a logout notice was not queued: % %', sqlstate, sqlerrm;
  return outcome;
end
$$;

-- Definer: reads Supabase Auth's tables.
create or replace function private.queue_revoked_login() returns trigger
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
begin
  insert into private.logout_notices (app_id, user_id, sid)
  select a.id, new.user_id, (to_jsonb(new) ->> tg_argv[0])::uuid
  from private.apps a
  where a.id = new.app_id and a.backchannel_logout_uri is not null and private.is_proof_intact(new.proof);
  return null;
end
$$;

create or replace trigger queue_revoked_login after update of revoked_at on private.app_sessions
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.audience = 'app' and new.expires_at > now())
  execute function private.queue_revoked_login('handoff_id');

create or replace trigger queue_revoked_login after update of revoked_at on private.openid_grants
  for each row
  when (old.revoked_at is null and new.revoked_at is not null and new.ends_at > now())
  execute function private.queue_revoked_login('id');

create or replace function private.withdraw_logout(ended_sid uuid) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  delete from private.logout_notices n where n.sid = ended_sid
$$;

create or replace function private.hold_proof(proof private.mfa_proof) returns void
  language plpgsql
  volatile
  security invoker
  set search_path = ''
as $$
begin
  perform private.lock_app_credentials(proof.user_id);
  perform from auth.sessions s where s.id = proof.session_id for key share;
  perform from auth.mfa_factors f where f.id = proof.factor_id for key share;
end
$$;

create or replace function private.claim_logout_notices(max_notices integer)
  returns table (id uuid, app text, uri text, user_id uuid, sid uuid, attempts smallint, is_last boolean)
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  with unneeded as (
    delete from private.logout_notices n
    using private.apps a
    where n.next_attempt_at <= now()
      and a.id = n.app_id
      and (
        a.backchannel_logout_uri is null
        or exists (select from private.logout_notices o where o.sid = n.sid and o.id < n.id)
      )
  ), claimed as (
    update private.logout_notices n
    set
      attempts = n.attempts + 1,
      next_attempt_at = now() + case n.attempts
        when 0 then interval '5 seconds'
        when 1 then interval '30 seconds'
        when 2 then interval '2 minutes'
        when 3 then interval '10 minutes'
        else interval '1 hour'
      end
    -- An array is read once. A join could run the limited query more often than that.
    where n.id = any (array(
      select due.id
      from private.logout_notices due
      join (
        select w.id, row_number() over (partition by w.app_id order by w.next_attempt_at) as turn
        from private.logout_notices w
        join private.apps a on a.id = w.app_id and a.backchannel_logout_uri is not null
        where w.next_attempt_at <= now()
          and not exists (select from private.logout_notices o where o.sid = w.sid and o.id < w.id)
      ) waiting on waiting.id = due.id
      -- Again, since another caller may have claimed it in between.
      where due.next_attempt_at <= now()
      -- In turns, so that an app that does not answer cannot delay the notices of others.
      order by waiting.turn, due.next_attempt_at
      limit max_notices
      for update of due skip locked
    ))
    returning n.*
  )
  select
    c.id, a.name, a.backchannel_logout_uri, c.user_id, c.sid, c.attempts, c.created_at <= now() - interval '1 day'
  from claimed c
  join private.apps a on a.id = c.app_id
$$;

-- Definer: clients' secrets and proofs are granted to nobody.
create or replace function private.redeem_authorization_code(
  client_id text,
  secret_hash bytea,
  code_hash bytea,
  redirect_uri text,
  code_challenge text,
  access_hash bytea,
  refresh_hash bytea
) returns jsonb
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  code private.authorization_codes;
  login private.openid_grants;
  standing text;
begin
  select a.id into client
  from private.authenticate_openid_client(redeem_authorization_code.client_id, redeem_authorization_code.secret_hash) a;
  if not found then
    return jsonb_build_object('refused', 'unauthenticated');
  end if;
  perform private.lock_app_credentials(c.user_id)
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id;
  select * into code
  from private.authorization_codes c
  where c.code_hash = redeem_authorization_code.code_hash and c.app_id = client.id
  for update;
  if not found then
    return jsonb_build_object('refused', 'token');
  end if;
  if code.redeemed_at is not null then
    -- RFC 6749 section 4.1.2: one of the two users is not the client.
    update private.openid_grants g set revoked_at = now() where g.source_id = code.id and g.revoked_at is null;
    return jsonb_build_object('refused', 'token');
  end if;
  if code.revoked_at is not null
    or code.expires_at <= now()
    or code.valid_until <= now()
    or code.redirect_uri <> coalesce(redeem_authorization_code.redirect_uri, '')
    or code.code_challenge <> coalesce(redeem_authorization_code.code_challenge, '') then
    return jsonb_build_object('refused', 'token');
  end if;
  perform private.hold_proof(code.proof);
  standing := private.proof_status(code.proof);
  if standing <> 'good' then
    return jsonb_build_object('refused', case when standing = 'unavailable' then 'unavailable' else 'token' end);
  end if;
  update private.authorization_codes c set redeemed_at = now() where c.id = code.id;
  login.source_id := code.id;
  login.app_id := code.app_id;
  login.user_id := code.user_id;
  login.proof := code.proof;
  login.authentication := code.authentication;
  login.scopes := code.scopes;
  login.nonce := code.nonce;
  login.ends_at := code.valid_until;
  return private.issue_openid_tokens(login, redeem_authorization_code.access_hash, redeem_authorization_code.refresh_hash);
end
$$;

-- Definer: as redeem_authorization_code.
create or replace function private.revoke_openid_token(client_id text, secret_hash bytea, token_hash bytea) returns boolean
  language plpgsql
  volatile
  security definer
  set search_path = ''
as $$
declare
  client record;
  revoked_id uuid;
begin
  select a.id into client
  from private.authenticate_openid_client(revoke_openid_token.client_id, revoke_openid_token.secret_hash) a;
  if not found then
    return false;
  end if;
  perform private.lock_app_credentials(g.user_id)
  from private.openid_tokens t
  join private.openid_grants g on g.id = t.grant_id
  where revoke_openid_token.token_hash in (t.access_hash, t.refresh_hash) and g.app_id = client.id;
  update private.openid_tokens t
  set access_expires_at = now()
  from private.openid_grants g
  where t.access_hash = revoke_openid_token.token_hash
    and t.access_expires_at > now()
    and g.id = t.grant_id
    and g.app_id = client.id;
  update private.openid_grants g
  set revoked_at = now()
  from private.openid_tokens t
  where t.refresh_hash = revoke_openid_token.token_hash
    and t.grant_id = g.id
    and g.app_id = client.id
    and g.revoked_at is null
  returning g.id into revoked_id;
  perform private.withdraw_logout(revoked_id);
  return true;
end
$$;

create or replace function private.queue_logouts(
  subject_id uuid, session_id uuid default null, factor_id uuid default null
) returns void
  language sql
  volatile
  security invoker
  set search_path = ''
as $$
  insert into private.logout_notices (app_id, user_id, sid)
  select l.app_id, subject_id, l.sid
  from (
    select s.app_id, s.handoff_id as sid, s.proof
    from private.app_sessions s
    where s.user_id = subject_id and s.audience = 'app' and s.revoked_at is null and s.expires_at > now()
    union all
    select g.app_id, g.id, g.proof
    from private.openid_grants g
    where g.user_id = subject_id and g.revoked_at is null and g.ends_at > now()
  ) as l
  join private.apps a on a.id = l.app_id
  where a.backchannel_logout_uri is not null
    and (queue_logouts.session_id is null or (l.proof).session_id = queue_logouts.session_id)
    and (queue_logouts.factor_id is null or (l.proof).factor_id = queue_logouts.factor_id)
    and private.is_proof_intact(l.proof)
$$;

comment on function private.connected_apps(uuid) is
  'Apps that hold live credentials or a consent of a person: [{name, displayName, origins, session, login, consent, '
  'tokens}]. session and login sum up app sessions and logins by OpenID Connect, and each of tokens those for one workspace: '
  '{scopes, connectedAt, renewedAt, endsAt}, with scopes as they are in force now; tokens also have workspace, null if the '
  'gateway refuses the token. consent is {scopes, grantedAt}. All but tokens may be null.';

comment on function private.end_app_of_account(uuid, uuid) is
  'Revokes what one app holds of a user: sessions, tokens, OpenID logins, what is not redeemed yet, and the consent. Returns '
  'how many. For definers; not granted to a role.';

comment on function private.end_apps_of_account(uuid) is
  'Revokes all that apps hold of a user: sessions, tokens, OpenID logins, and handoffs, codes and approvals that are not '
  'redeemed yet. Consents stay. For definers; not granted to a role.';

comment on function private.export_account_part(uuid, text, jsonb, integer) is
  'Returns a page of a list of private.export_account, oldest first: sessions, securityEvents, approvals, workspaces, '
  'invitations, keys, appHandoffs, appSessions, appTokens, openidLogins, openidCodes, deviceLogins, openidConsents or '
  'ledger (of credits). after is the last record of the previous page. Without page_size, returns all records.';

comment on function private.redeem_cross_app_token is
  'Redeems a token once and opens its sessions: {app, central?}, each {id, handoff, audience, user, factor, issuedAt, expiresAt}; '
  'or {refused: unauthenticated | token | unavailable}. The facts are those of the proof, whose signature the web '
  'server has checked.';

comment on function private.refresh_app_session(text, bytea, bytea, bytea) is
  'Puts the successor in a token''s place, once: {id, handoff, audience, user, factor, issuedAt, expiresAt}, the same to everyone '
  'who asks within 30 s, or {refused: unauthenticated | token | unavailable}. The successor follows from the token by '
  'a key of the web server''s, so that all callers bring the same.';

comment on function private.claim_logout_notices(integer) is
  'Claims notices whose next attempt is due, each for one caller: 5 seconds, 30 seconds, 2 minutes and 10 minutes apart, then '
  'hourly. The first attempt after a day is the last.';

comment on function private.hold_proof(private.mfa_proof) is
  'Call it before private.proof_status when opening a login. A concurrent sign-out or removal of the factor waits, then '
  'finds the login and queues its notice. For definers; not granted to a role.';

comment on function private.is_proof_intact(private.mfa_proof) is
  'Whether the account, session, factor and policy of a proof are still there. The change that removed one has queued its '
  'notice already. For definers; not granted to a role.';

comment on function private.queue_logouts(uuid, uuid, uuid) is
  'Queues a notice for each live login of an account, or for those that depend on a session or factor. Call it before the '
  'change that ends them. For definers; not granted to a role.';

comment on function private.queue_logouts_before_change() is
  'Queues notices for the logins that a change of a session, a factor or an account is about to end.';

comment on function private.queue_revoked_login() is
  'Queues a notice for a login that was revoked. The argument is the column that holds its sid.';

comment on function private.withdraw_logout(uuid) is
  'Removes the notices about a login: the app acknowledged them, refused them for good, or ended the login itself.';

comment on trigger queue_revoked_login on private.app_sessions is
  'Notifies the app. A login that the app ended by its own call is withdrawn by private.withdraw_logout.';

comment on trigger queue_revoked_login on private.openid_grants is
  'Notifies the client. A login that the client ended by its own call is withdrawn by private.withdraw_logout.';

grant execute on function private.claim_logout_notices(integer) to service_role;

grant execute on function private.withdraw_logout(uuid) to service_role;
